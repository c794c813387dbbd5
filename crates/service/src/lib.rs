//! The managed service: what is between applications that share memory with it.
//!
//! A [`Hub`] has the [`Application`]s of a host that are attached. It takes their descriptors,
//! copies their messages in and checks them, lets the policies of both sides see each call, and
//! hands messages over to the application that serves it ("short-cut": calls between applications
//! of one host). Descriptors come from and go to rings that somebody else polls; memory is the
//! applications' heaps ([`petasos_shm::OwnedHeap`]).
//!
//! The rules of what an application may say are in `docs/spec/abi.md` (D2 to D11), those of engines
//! in `docs/spec/engine.md`.
//!
//! # The way of a call
//!
//! 1. [`Application::handle`] judges a descriptor, copies its message out of the send heap into
//!    private memory while it checks it (M23), and gives it to the application's datapath, with the
//!    fields that engines have declared.
//! 2. [`Hub::turn`] runs the datapath. What has passed all engines goes to the datapath of the
//!    application that serves the call.
//! 3. What has passed that one's engines is written into its receive heap, and a descriptor says
//!    so ([`Application::poll_descriptor`]). Only now can the application see it.
//!
//! # Invariants
//!
//! - Only copies are looked at, and only copies are handed over.
//! - A message is in a receive heap only after all engines of both sides have passed it.
//! - What leaves the host has passed all engines of its caller, and what comes in passes all those
//!   of its callee.
//! - An application that breaks a rule is given up ([`Detached`]) with all its calls; others go on.
//!
//! Boundary rule: no sockets, no rings, no clocks. Time and descriptors are handed in.

mod application;
mod applications;
mod beyond;
mod binds;
mod counting;
mod crowd;
mod fields;
mod flow;
mod granting;
mod hub;
mod incoming;
mod known;
mod limits;
mod numbers;
mod outgoing;
mod remote;
mod remote_calls;
mod routes;
mod schemas;
mod stats;
mod status;

pub use application::{Application, Detached, Memory};
pub use beyond::{
    Encoded, Outgoing, RemoteEnd, RemoteEvent, RemoteItem, RemoteLimits, RemoteOutcome,
};
pub use hub::{Hub, HubError, TargetId};
pub use limits::ApplicationLimits;
pub use petasos_schema::{Digest, Hash};
pub use remote::{Incoming, RemoteCaller, RouteIn};
pub use remote_calls::{RemoteCall, RemoteCalls};
pub use schemas::{
    BindError, Binding, BoundMethod, KeptSchema, KnownSchema, SchemaLimits, Schemas,
};
pub use stats::{Gone, ROWS_MAX, Row, Stats, Sums, Way};
pub use status::Load;

/// The key under which services tell each other, in a request's metadata, which application calls
/// (ADR 21). What applications say under it is removed.
pub const CALLER_KEY: &str = "petasos-caller";
