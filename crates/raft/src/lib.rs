//! One replica of a replicated log, without I/O (`docs/spec/replication.md`, ADR 52).
//!
//! The algorithm is the library `noraft`'s, unmodified: terms, votes, who has which entries, joint
//! consensus. Around it is what a group on real machines needs (QR5 to QR8, QR14, QR15): nothing is
//! said before it is durable, and a leader counts itself only then; pre-votes, and votes that are
//! withheld while a leader is heard; a leader that hears no majority steps down; learners that
//! catch up before they vote; handing over; reads by index and by lease; bounded flow control.
//!
//! A [`Replica`] is told what time it is, which messages have come and which writes have ended, and
//! says what is to be written and sent ([`Replica::poll`]). It has the newest entries' data in
//! memory, and does not know what commands mean.
//!
//! Boundary rule: no sockets, clocks, files or threads, and no randomness but of the seed it is
//! given. One module, `core`, names the library's types.

#![forbid(unsafe_code)]

mod configurations;
mod core;
mod durability;
mod entry;
mod membership;
mod message;
mod output;
mod peer;
mod position;
mod replica;
mod rounds;
mod settings;
mod tail;

pub use core::Diverged;
pub use entry::{Entry, Kind};
pub use membership::{CONTEXT_BYTES_MAX, MEMBERS_MAX, Member, Membership, Part, VOTERS_MAX};
pub use message::Refused;
pub use output::{
    Change, Counters, NotChanged, NotHandedOver, NotProposed, Output, Role, Status, Write,
};
pub use position::{MemberId, Position};
pub use replica::{NotAnEntry, Replica, Restored};
pub use settings::Settings;
