//! The control protocol of Petasos: who the peer is, which sessions exist, and whether the peer is
//! alive.
//!
//! One TCP connection joins each pair of processes. [`Connection`] is the state machine at one of
//! its ends: its inputs are bytes, times and commands; its outputs are bytes, events and a
//! deadline. It owns no socket, thread, clock or source of randomness, so that the event loop and
//! the simulator run the same code. [`Message`] and [`Deframer`] implement the format.
//! `docs/spec/control.md` specifies it with numbered rules, cited here as `C1`, `C2`, …, and
//! `docs/spec/route.md` what clients, workers and routers of a group say (`RT33` to `RT37`).
//!
//! Invariants that hold against any peer: memory is bounded (one frame of input, the output limit
//! plus [`OWED_BYTES_MAX`], [`OUTSTANDING_MAX`] requests per direction and as many remembered
//! answers); every connect that was accepted as a command is answered by exactly one event; the
//! last event of a connection is [`Event::PeerFailed`] or [`Event::Closed`].
//!
//! Boundary rule: sees `wire` (for its limits) and `base` only; never packets or sockets.

mod address;
mod answers;
mod carrier;
mod codes;
mod config;
mod connection;
mod error;
mod fields;
mod frame;
mod group;
mod heartbeat;
mod hello;
mod message;
mod output;
mod params;
mod requests;
mod session;
mod text;
mod ticket;
mod version;

#[cfg(test)]
mod tests;

pub use address::DataAddress;
pub use answers::Answers;
pub use carrier::Carrier;
pub use codes::{ByeReason, ErrorCode, Fault, RefuseCode};
pub use config::{Config, ConfigError, OUTSTANDING_MAX, OWED_BYTES_MAX};
pub use connection::{Connection, Counters, Event, GroupEvent, JoinFailure, Role};
pub use error::{
    ConnectError, ConnectFailure, DisconnectError, FailureReason, GroupError, Malformed,
    ProtocolError, ReplyError,
};
pub use frame::{BODY_BYTES_MAX, Deframer, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Frame};
pub use group::{
    ASKED_MAX, Active, AttachGrant, AttachParams, Cipher, ClientChange, Epoch, GroupMessage,
    JoinGrant, JoinParams, Leave, Member, MemberChange, MemberState, NAME_MAX, NAMES_BYTES_MAX,
    PlaceGrant, PlaceParams, ROUTERS_MAX, Refusal, Secret, Table, Told,
};
pub use hello::{Capabilities, Hello, MAGIC, NAME_BYTES_MAX, Place};
pub use message::Message;
pub use params::{
    AcceptParams, ConnectParams, LocalOffer, PAYLOAD_BYTES_MAX, Recovery, ServerLimits, Target,
};
pub use requests::Unanswered;
pub use session::{SessionRef, SessionRole};
pub use text::{DETAIL_BYTES_MAX, Text};
pub use ticket::{RESUMES_MAX, Ticket};
pub use version::{SUPPORTED, Version, VersionRange};
