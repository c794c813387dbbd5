//! Where a request came from, and whether its call is over.

use core::fmt;
use std::sync::Arc;

use petasos_endpoint::ServerSessionId;

use crate::cancelled::{CancelState, Cancellable, Cancelled, is_late};
use crate::current;
use crate::peer::Peer;

/// Where a request came from.
#[derive(Clone, Default)]
pub enum Origin {
    /// This end made it.
    #[default]
    Here,
    /// It came over a client's session.
    Session {
        /// The number of the loop that has the session.
        loop_id: u32,
        /// The session in that loop.
        session: ServerSessionId,
    },
    /// It belongs to a call whose requests can tell when it is over.
    Watched(Arc<Watched>),
    /// It came over gRPC. Occurs only inside of `Watched`.
    #[cfg(feature = "grpc")]
    Grpc(Arc<petasos_grpc::Peer>),
}

const _: () = assert!(size_of::<Origin>() == 16);

impl Origin {
    /// Whether the value needs no drop.
    #[inline(always)]
    pub fn owns_nothing(&self) -> bool {
        matches!(self, Origin::Here | Origin::Session { .. })
    }

    /// Whether the call came over gRPC.
    pub fn is_grpc(&self) -> bool {
        match self {
            Origin::Watched(call) => call.origin.is_grpc(),
            #[cfg(feature = "grpc")]
            Origin::Grpc(_) => true,
            _ => false,
        }
    }

    /// The number of the loop that has the session over which the request came.
    pub fn loop_id(&self) -> Option<u32> {
        match self {
            Origin::Session { loop_id, .. } => Some(*loop_id),
            Origin::Watched(call) => call.origin.loop_id(),
            _ => None,
        }
    }

    /// The peer that sent the request; `None` at the end that made it, and once the session is
    /// gone.
    pub fn peer(&self) -> Option<Peer> {
        match self {
            Origin::Here => None,
            Origin::Session { loop_id, session } => current::peer(*loop_id, *session),
            Origin::Watched(call) => call.origin.peer(),
            #[cfg(feature = "grpc")]
            Origin::Grpc(peer) => Some(Peer::of_grpc(peer)),
        }
    }
}

impl Origin {
    /// A future that is ready when the call is over. For a handler in a loop, call this on the
    /// loop's thread while the loop polls the handler.
    pub fn cancelled(&self) -> Cancelled {
        let call: Option<Arc<dyn Cancellable>> = match self {
            Origin::Watched(call) => Some(call.clone()),
            Origin::Session { loop_id, .. } => current::watch(*loop_id).map(|state| state as _),
            _ => None,
        };
        Cancelled::new(call, current::deadline())
    }

    /// Whether the call is over, as far as this thread can know.
    pub fn is_cancelled(&self) -> bool {
        let is_over = match self {
            Origin::Watched(call) => call.state.is_over(),
            // On the thread of the loop that polls the handler, only the deadline can be known.
            Origin::Session { loop_id, session } => {
                !current::is_in_loop(*loop_id) && current::peer(*loop_id, *session).is_none()
            }
            _ => false,
        };
        is_over || is_late(current::deadline())
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peer().fmt(f)
    }
}

/// A call whose requests can tell when it is over.
pub struct Watched {
    origin: Origin,
    state: CancelState,
}

impl Cancellable for Watched {
    fn state(&self) -> &CancelState {
        &self.state
    }
}

/// Marks a call as over when it is dropped.
pub struct CancelGuard(Arc<Watched>);

impl CancelGuard {
    /// Watches a call from `origin`. The returned origin belongs into its request.
    pub fn of(origin: Origin) -> (Origin, CancelGuard) {
        let watched = Arc::new(Watched { origin, state: CancelState::default() });
        (Origin::Watched(watched.clone()), CancelGuard(watched))
    }

    /// Like [`CancelGuard::of`], but replaces `origin` by the new one.
    pub fn watch(origin: &mut Origin) -> CancelGuard {
        let (watched, guard) = CancelGuard::of(core::mem::take(origin));
        *origin = watched;
        guard
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.state.end();
    }
}
