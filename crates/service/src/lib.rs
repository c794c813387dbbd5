//! The managed service: the hub between the applications that share memory with it.
//!
//! A [`Hub`] has the attached [`Application`]s of a host. It takes their descriptors, copies and
//! checks their messages, lets the policies of both sides see each call, and delivers messages to
//! the application that serves the call ("short-cut": calls between applications of one host). The
//! program around the hub polls the rings from which descriptors come and to which they go. The
//! memory is the applications' heaps ([`petasos_shm::OwnedHeap`]).
//!
//! `docs/spec/abi.md` (D2 to D11) has the rules for applications, and `docs/spec/engine.md` those
//! for engines.
//!
//! # The path of a call
//!
//! 1. [`Application::handle`] checks a descriptor. It copies its message out of the send heap into
//!    private memory, checks the message on the way (M23), and puts it into the application's
//!    datapath, with the fields that engines have declared.
//! 2. [`Hub::turn`] runs the datapath. An item that has passed all engines goes to the datapath of
//!    the application that serves the call.
//! 3. When the item has passed the engines of that application, too, the hub writes its message
//!    into the receive heap, and a descriptor names it ([`Application::poll_descriptor`]). Only now
//!    can the application see it.
//!
//! # Invariants
//!
//! - The service reads copies only, and delivers copies only.
//! - A message is in a receive heap only after all engines of both sides have passed it.
//! - An item that leaves the host has passed all engines of its caller. An item that comes from
//!   another host passes all engines of its callee.
//! - An application that breaks a rule is detached ([`Detached`]), and its calls end. Other
//!   applications continue.
//!
//! Boundary rule: no sockets, no rings, no clocks. Time and descriptors are arguments.

mod application;
mod applications;
mod beyond;
mod binds;
mod carrier;
mod changes;
mod copies;
mod counting;
mod crossing;
mod crowd;
mod fields;
mod flow;
mod granting;
mod host;
mod hub;
mod hub_error;
mod identity;
mod incoming;
mod inherited;
mod known;
mod limits;
mod memory;
mod numbered;
mod numbers;
mod outgoing;
mod passing;
mod peers;
mod receive_room;
mod remembered;
mod remote;
mod remote_calls;
mod routes;
mod schemas;
mod stats;
mod status;
mod versions;

pub use application::{Application, Detached, Memory};
pub use beyond::{
    Encoded, Outgoing, RemoteCaller, RemoteEnd, RemoteEvent, RemoteItem, RemoteLimits,
    RemoteOutcome, not_sealed,
};
pub use copies::CopyCounts;
pub use crossing::{Crossing, Letter};
pub use host::{Host, HubId, ListenerId, Sealing};
pub use hub::{Hub, TargetId};
pub use hub_error::HubError;
pub use inherited::{NotNumbers, PolicyNumbers};
pub use limits::ApplicationLimits;
pub use numbered::Numbered;
pub use peers::PolicyNames;
pub use petasos_schema::{Digest, Hash};
pub use remote::{Incoming, RouteIn};
pub use remote_calls::{RemoteCall, RemoteCalls};
pub use schemas::{
    BindError, Binding, BoundMethod, KeptSchema, KnownSchema, MethodKey, SchemaLimits, Schemas,
};
pub use stats::{Gone, ROWS_MAX, Row, Stats, Sums, Way};
pub use status::Load;

/// The key under which services tell each other, in a request's metadata, which application calls
/// (ADR 21). What applications say under it is removed.
pub const CALLER_KEY: &str = "petasos-caller";
