//! The contract between an application and the managed service: descriptors of calls, and the
//! places of their messages.
//!
//! An application puts [`Descriptor`]s into one ring and takes the service's from another. A
//! descriptor has 56 bytes, so it fits one slot of a ring and one cache line. It does not contain
//! messages. It names their places in *heaps*: ranges of addresses that both sides fill with the
//! same *extents* of shared memory ([`Extents`]).
//!
//! `docs/spec/abi.md` has the rules, and ADR 17 the reasons.
//!
//! # Trust
//!
//! A record that was copied out of a ring is [`Untrusted`] until [`Untrusted::check`] has confirmed
//! that it is a descriptor which that side may send. Then its *form* is right: the kind, the bits,
//! and the fields that must be zero. The receiver still has to look up everything that the
//! descriptor *names*: a call, a method, a place in a heap. It checks places with
//! [`Extents::covers`].
//!
//! [`Blocks`] allocates places in a heap: the application's in its send heap, the service's in the
//! receive heap.
//!
//! Boundary rule: definitions and pure functions; no memory, file descriptors, or sockets.

mod blocks;
mod descriptor;
mod extents;
mod flow;
mod parse;

pub use blocks::{Blocks, NotOutstanding, UNIT_BYTES};
pub use descriptor::{
    CallNumber, Contents, DESCRIPTOR_BYTES, Descriptor, Kind, RELEASED_MAX, Released, Request,
    Side, TIME_NEVER,
};
pub use extents::{EXTENT_BYTES_MIN, EXTENTS_MAX, Extent, ExtentError, Extents, HEAP_BYTES_MAX};
pub use flow::{COUNTED_BYTES_MIN, Credit, Taken};
pub use parse::{Refusal, Untrusted};

/// The version of what this crate says.
pub const ABI_VERSION: u16 = 4;
/// The oldest version that this code speaks. It has no successors (D14), and schemas are not named
/// but sent (D13).
pub const ABI_VERSION_OLDEST: u16 = 1;
