//! What the router is asked to do.

use petasos_base::Time;

/// A request to route. The token is whatever the caller needs to send it: a frame, or its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<T> {
    /// Comes back with the decision.
    pub token: T,
    /// Which workers may get it.
    pub affinity: Affinity,
    /// The greatest goes first (RT24). Numbers from [`PRIORITIES`](crate::PRIORITIES) on count as
    /// the greatest below it.
    pub priority: u8,
    /// From this time on the request is dropped instead of given to a worker.
    pub expires: Time,
}

impl<T> Request<T> {
    /// A request of the least urgent priority to any worker, without an end.
    pub fn new(token: T) -> Request<T> {
        Request { token, affinity: Affinity::Any, priority: 0, expires: Time::NEVER }
    }
}

/// Which workers may get a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Any, by the group's policy: R2P2's *unrestricted*. The primary is one of them.
    Any,
    /// The primary only: R2P2's *sticky*, for writes.
    Primary,
    /// The one to which the key belongs, unless it has too much to do. Then others may.
    Key(u64),
}
