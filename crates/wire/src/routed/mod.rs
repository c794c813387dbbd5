//! Requests to a group of workers, as `docs/spec/route.md` specifies their packets.
//!
//! A *first packet* goes from a client to the group's router and from there to a worker:
//! [`RoutedPacket`] reads it, [`RoutingBlock`] and [`Given`] write it. Answers go to the client
//! directly, some with a [`WorkerBlock`]; [`Feedback`] goes from the worker to the router.
//!
//! All of these begin with [`Packet::parse`](crate::Packet::parse). The second step checks what
//! follows the header, so that no accessor can fail afterwards. What contradicts itself is
//! [`Void`].

mod answer;
mod block;
mod feedback;
mod first;
mod given;

use core::fmt;

pub use answer::{Ready, WorkerBlock};
pub use block::{ReplyAddress, RoutePolicy, RoutingBlock};
pub use feedback::{FAILED_MAX, Feedback, WorkerCounts};
pub use first::{Group, RoutedPacket};
pub use given::{Given, Probe};

/// Why a packet of a group is void. Its sender is at fault, or it is noise. It is dropped, and
/// changes nothing but counters and, at a worker, which given numbers are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Void {
    /// Of another kind than is read here.
    Kind,
    /// Shorter than its parts (RT1), or than what it carries of the message (RT4).
    Short,
    /// Longer than its parts, or than a payload (RT1).
    Long,
    /// A flag is set that has to be clear (RT1, RT2).
    Flag,
    /// Sealed in a group that is not, or the reverse (RT1).
    Seal,
    /// From a client, but with a given number, or for another client than the header's (RT1, RT2).
    Client,
    /// Number 0 answers as a worker does, or names a session (RT7).
    Worker,
    /// A ready that names no session (RT9).
    Session,
    /// A field has a value that its kind does not have (RT9, RT20).
    Value,
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Void::Kind => "of another kind",
            Void::Short => "shorter than its parts",
            Void::Long => "longer than its parts",
            Void::Flag => "a flag is set that has to be clear",
            Void::Seal => "sealed or not, unlike its group",
            Void::Client => "not as a client sends it",
            Void::Worker => "number 0 is no worker",
            Void::Session => "a ready without a session",
            Void::Value => "a field is out of range",
        })
    }
}

impl std::error::Error for Void {}

/// Reads the little-endian word at `at`, which is within `bytes`.
#[inline(always)]
fn word_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().expect("the caller has checked the length");
    u64::from_le_bytes(*word)
}
