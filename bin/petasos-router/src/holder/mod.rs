//! A process that keeps programs at their interfaces while routers are killed and replaced
//! (`petasos-router --hold PATH`, ADR 47), and what routers say to it (`--holder PATH`).
//!
//! A router that has put its program at an interface *keeps* it there: the holder gets descriptors
//! of the link, the program, its memory, and the map that has the program before it. If the router
//! ends without a word, the program decides alone, for [`keeper::OUTLIVE`]. Whoever comes meanwhile
//! *asks*, is given link and program, and keeps its own in their place.
//!
//! Invariants:
//! - a program has one router that runs at most, and only a router that keeps it, or has asked for
//!   it when its router was gone, can put another in its place;
//! - a program without a router is dropped after [`keeper::OUTLIVE`];
//! - connections, packets, descriptors and what is kept are bounded, and nothing waits for a peer.

mod deposit;
mod keeper;
mod serve;
mod wire;

pub use deposit::{Deposit, Holder, Left};
pub use serve::hold;

/// Who a holder and its routers may be to each other: the same user, and root.
fn may_share(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() || uid == 0
}
