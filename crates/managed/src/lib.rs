//! Carries calls between a loop and the managed service of its host, in both directions.
//!
//! A [`Carrier`] joins two things. One is the external sessions of an endpoint
//! ([`petasos_endpoint::ExternalEvent`]), which use the framing of typed calls
//! (`docs/spec/call.md`). The other is a lane to the service (`petasos_attach`), which uses
//! descriptors (`docs/spec/abi.md`). So all layers above the endpoint, including channels and
//! handlers, work over the service as they do over datagrams (ADR 23).
//!
//! # Invariants
//!
//! - Nothing here waits.
//! - The bytes of a request are copied into the send heap once; those of a long leaf are not, if
//!   the program has written them there (`buffers`). A short message is copied out of the receive
//!   heap once, and a long unary message is read in place (`kept`).
//! - Data for which the heap or the ring has no room waits in order. The carrier begins no more
//!   calls than the service allows.
//! - The carrier converts only messages in protobuf's encoding. Only callers and servers without a
//!   native layout receive messages in this encoding (R4).
//!
//! Boundary rule: the crate knows the framing of calls and the service's descriptors, but not the
//! service's policies. Only `convert` knows what messages contain, by plan. No `unsafe`.

mod again;
mod asks;
mod buffers;
mod carrier;
mod config;
mod connecting;
mod convert;
mod flow;
mod frames;
mod kept;
mod link;
mod numbers;
mod services;

pub use buffers::ProgramBuffers;
pub use carrier::Carrier;
pub use config::{ConfigError, ServiceConfig};
pub use petasos_shm::Buffer;
pub use services::Description;
