//! The packet header of the Petasos wire protocol, as `docs/spec/wire.md` specifies it.
//!
//! [`Packet::parse`] is the one door for received bytes: it checks length, version, kind and
//! reserved bits, so that no accessor can fail afterwards. [`Header`] is the representation that
//! is built and emitted. Rules are cited as `W1`, `W2`, … of the specification.
//!
//! Boundary rule: bits and limits only; what a packet *does* is `proto`'s business.

mod ack;
mod header;
mod kind;
mod limits;
mod raw;
mod sealed;

pub use ack::{AckBitmap, BITMAP_WORDS_MAX};
pub use header::{Header, HeaderStart, Malformed, Packet, SessionMark};
pub use kind::{Encoding, Kind, RejectCode};
pub use limits::*;
pub use raw::{RawPacket, Signature, Signed, Verified};
pub use sealed::{set_key_phase, transmission_of};
