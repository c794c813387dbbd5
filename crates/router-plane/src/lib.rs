//! The packets of a router: first packets go to workers, feedback comes back, and what nobody may
//! have is rejected (`docs/spec/route.md`, RT1 to RT6, RT19 to RT26).
//!
//! A [`Plane`] joins the decisions of [`petasos_router`] with any packet I/O, in one thread. Each
//! turn takes one batch: feedback first, since it says which workers are free (RT20), then first
//! packets, and sends each worker its requests as trains. A request is copied once, into the train
//! that it leaves with; one that has to wait, once more.
//!
//! A [`FeedbackLoop`] may hear feedback in another thread (R2P2, section 4.2). A [`Tier`] may
//! decide before packets come here: what is plain, in front of the plane.
//!
//! Who may attach and join, and what they are told, the caller decides: the plane is given clients
//! and members, and names them by numbers.
//!
//! Invariants:
//! - nothing is sent to an address that the caller has not named (RT26);
//! - a client's number is taken once (RT3), and a packet that is dropped costs nobody a slot;
//! - memory is bounded by the configuration: what waits is in frames that are there from the start.
//!
//! Boundary rule: knows packets and addresses, but no control connections, threads or clocks. Of a
//! sealed group it opens nothing; it seals what it says itself.

#![forbid(unsafe_code)]

mod clients;
mod config;
mod feedback;
mod frames;
mod give;
mod members;
mod operate;
mod outbox;
mod plane;
mod reject;
mod rejections;
mod split;
mod stats;
mod tier;
mod tiered;

pub use clients::{ClientAttached, ClientCounts};
pub use config::{PlaneConfig, PlaneConfigError};
pub use feedback::{FeedbackLoop, HeardTurn};
pub use members::{MemberJoin, MemberJoined};
pub use plane::{Plane, TableError};
pub use stats::{PlaneStats, RejectionStats, TierStats};
pub use tier::{Tier, TierMember, TierPacket};
