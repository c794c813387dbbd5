//! The interface for policies of the managed service.
//!
//! An [`Engine`] takes [`Item`]s of calls from one queue per direction and puts them into another.
//! It passes an item on, holds it, or ends its call. The engines of an application form its
//! [`Datapath`]. A thread of the service runs the datapath ([`Datapath::run`]), puts items in at
//! one end and takes them out at the other. Between two runs, the chain may change: engines are
//! attached, detached, replaced and moved. No item is lost or repeated by that.
//!
//! An operator configures a [`Policy`]. It makes an engine for each datapath in which it is placed,
//! and has the state that these engines share. A [`PolicyKind`] makes policies from configurations,
//! and from the [`State`] of an earlier version.
//!
//! `docs/spec/engine.md` has the rules. The design is mRPC's (sections 4.2, 4.3 and 6).
//!
//! # Invariants
//!
//! - Each item is in one queue, held by one engine, or with the service. Items cannot be copied. If
//!   an engine drops an item, the datapath finds it when the engine is detached, and ends its call
//!   (`INTERNAL`).
//! - In each direction, items of a call keep their order.
//! - A datapath belongs to one thread at a time, and takes no lock.
//!
//! Boundary rule: neither I/O nor clocks. The crate does not know the service, the network, or
//! where messages lie: an engine sees copies of the fields that it has declared.

mod absent;
mod call;
mod datapath;
mod engine;
mod field;
mod item;
mod items;
mod policy;
mod queue;
mod state;
mod work;

pub use absent::{Absent, Without};
pub use call::{Application, Call, CallId, MethodId, Peer, Runtime};
pub use datapath::{
    AsideLoad, ChangeError, Counts, Datapath, EngineCounts, Full, Gone, Left, Next, Place,
    Replaced, Submission, Turn,
};
pub use engine::{BATCH_MAX, Engine};
pub use field::{FieldError, FieldId, FieldKind, Fields, Schema, Value};
pub use item::{Direction, Item, ItemKind};
pub use items::Finished;
pub use petasos_base::{Rng, SharedHistogram, Time, log_linear_quantile, sync};
pub use petasos_call::{Code, Metadata, MetadataError, RETRY_PUSHBACK, Status, TraceContext};
pub use policy::{Policy, PolicyKind};
pub use state::{ClockShift, PolicyError, State, Version};
pub use work::{Declare, Decompose, Work};

#[cfg(test)]
mod tests;
