//! The packet header of the Petasos wire protocol, as `docs/spec/wire.md` specifies it.
//!
//! All received bytes go through [`Packet::parse`]. It checks length, version, kind and reserved
//! bits, so that no accessor can fail afterwards. [`Header`] is the type to build and emit a
//! header. Rules of the specification are cited as `W1`, `W2`, …, and those of
//! `docs/spec/route.md`, which adds requests to groups, as `RT1`, `RT2`, ….
//!
//! Boundary rule: this crate knows bits and limits only. What a packet *does* is decided in
//! `petasos-proto`.

mod ack;
mod header;
mod kind;
mod limits;
mod raw;
mod routed;
mod sealed;

pub use ack::{AckBitmap, BITMAP_WORDS_MAX};
pub use header::{Header, HeaderStart, Malformed, Packet, SessionMark};
pub use kind::{Encoding, Kind, RejectCode};
pub use limits::*;
pub use raw::{RawPacket, Signature, Signed, Verified};
pub use routed::{
    FAILED_MAX, Feedback, Given, Group, Probe, Ready, ReplyAddress, RoutePolicy, RoutedPacket,
    RoutingBlock, Void, WorkerBlock, WorkerCounts,
};
pub use sealed::{authenticated, first_number_of, set_key_phase, transmission_of};
