//! A tier before the plane: something that gives requests to workers and hears feedback before
//! packets come here, such as a program in the kernel (ADR 46). It takes what is plain; the plane
//! decides about all else, keeps the members, and makes good what the tier cannot.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_router::SharedSlots;

use crate::stats::TierStats;

/// A worker, as a tier has to know it.
#[derive(Clone, Copy, Debug)]
pub struct TierMember {
    /// Its place, which is the router's index of it.
    pub place: usize,
    /// Where it is.
    pub address: SocketAddr,
    /// Its index and tag for the router.
    pub named: (u32, u32),
    /// The router's tag for it, and the secret bits.
    pub own_tag: u32,
    /// See `own_tag`.
    pub secret: u64,
}

/// A request that has waited in a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierPacket {
    /// The first packet, as it came.
    pub bytes: Vec<u8>,
    /// How long ago that was.
    pub waited: Duration,
}

/// See the module's documentation. What comes here, the tier has passed on, and has left as it was.
pub trait Tier: Send {
    /// The most workers that it knows.
    fn workers_max(&self) -> usize;
    /// The slots that it gives as well.
    fn slots(&self) -> Box<dyn SharedSlots>;
    /// Lets it decide, or leave all to the plane.
    fn start(&mut self, is_on: bool);
    /// A client attaches, with this tag and address.
    fn attach(&mut self, client: u32, tag: u32, address: SocketAddr);
    /// A client is gone.
    fn detach(&mut self, client: u32);
    /// Takes a number of a client (RT3). Whether it was new; `None` if the tier does not keep them.
    fn take_number(&mut self, client: u32, number: u64) -> Option<bool>;
    /// The epochs that are taken (RT30), the newest first.
    fn set_epochs(&mut self, epochs: [Option<u16>; 2]);
    /// A worker has joined; nothing was given to it yet.
    fn join(&mut self, member: &TierMember);
    /// Whether requests wait in the plane: then the tier leaves all first packets to it.
    fn set_waiting(&mut self, is_waiting: bool);
    /// Asks for the next packet, so that it wakes the plane.
    fn doze(&mut self);
    /// What it has done.
    fn stats(&self) -> TierStats;
    /// How many requests wait in the tier.
    fn parked(&self) -> usize;
    /// Takes the request that has waited longest there.
    fn take_parked(&mut self) -> Option<TierPacket>;
    /// Takes one that the tier will not give to anybody.
    fn take_returned(&mut self) -> Option<TierPacket>;
}

/// The tier of a plane, and when to look at it.
pub(crate) struct Tiered {
    pub(crate) tier: Box<dyn Tier>,
    pub(crate) is_waiting: bool,
    /// Since when nothing has happened there.
    pub(crate) quiet_since: Time,
    /// Since when something waits there, and nothing was given or told.
    pub(crate) stuck_since: Time,
    pub(crate) look_at: Time,
}
