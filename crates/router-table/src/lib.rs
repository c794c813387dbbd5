//! One table of methods for a group: answers to its clients' binds, and which workers fit it
//! (`docs/spec/route.md`, RT31).
//!
//! The configuration names the services. A [`Table`] takes their schemas from the first worker that
//! serves all of them, gives their methods numbers, and judges every worker as a caller would (R3):
//! whoever calls by the table understands each worker that was accepted. Where no worker has the
//! table's schema of a service any more, a new version of the table has theirs. It is pure. A
//! [`BindServer`] is a thread with an endpoint of its own at the router's node: it answers binds
//! from the table, and dials workers to bind the services at them.
//!
//! The modules, from below: `messages` (requests and answers as bytes), `names`, `answers` (of one
//! worker), `known` (schemas that were read), `form` (in which messages travel), `members` (the
//! workers that are there), `version` (of the table), `table`, `verdict` (what the router hears),
//! `judging` (which workers are asked, and how many at a time), `thread`, `server`.
//!
//! Invariants: a number is given once and never changes its meaning; a worker that is refused
//! changes nothing; each question is answered with exactly one verdict, as long as the thread runs;
//! a worker counts as a member from its verdict on, until the router drops its [`Membership`].
//!
//! Threat model: clients and workers may send anything. What a worker answers is bounded in bytes
//! by a constant, and in the cost of reading and comparing by `petasos_schema`'s limits: at worst
//! the thread is busy for some seconds per worker, and clients' binds wait for that long. A
//! worker that does not answer is refused after two seconds, while others are asked; one peer has
//! no more than its part of the places. Who joins first defines the schemas: without names of
//! workers in the router's configuration anybody can.
//!
//! Boundary rule: knows no group, plane or control messages; those are `petasos-router-control`'s.

#![forbid(unsafe_code)]

mod answers;
mod form;
mod judging;
mod known;
mod members;
mod messages;
mod names;
mod server;
mod table;
mod thread;
mod verdict;
mod version;

pub use answers::{Answers, SchemasTooLong};
pub use names::{NAME_BYTES_MAX, NamesError, SERVICES_MAX, TableService};
pub use server::{BindServer, BindServerError};
pub use table::{Change, JudgeError, Judged, Table};
pub use verdict::{Judge, Membership, News, RefuseReason, Verdict};
