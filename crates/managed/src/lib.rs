//! Carries a loop's calls to the managed service of its host, and its requests from there.
//!
//! A [`Carrier`] joins two things: external sessions of an endpoint
//! ([`petasos_endpoint::ExternalEvent`]), which speak the framing of typed calls
//! (`docs/spec/call.md`), and a lane to the service (`petasos_attach`), which speaks descriptors
//! (`docs/spec/abi.md`). So everything above the endpoint, channels and handlers included, works
//! over the service as it does over datagrams (ADR 23).
//!
//! Invariants: nothing here waits. A request's bytes are copied into the send heap once. A short
//! message is copied out of the receive heap once, and a long unary one is read where it lies
//! (`kept`). What the heap or the ring has no room for waits in order, and no call is begun beyond
//! those that the service allows. Only messages in protobuf's encoding are converted, and only who
//! has no native layout gets messages in it (R4).
//!
//! Boundary rule: knows calls' framing, and what messages contain only in `convert`, by plan; the
//! service's descriptors, not its policies. No `unsafe`.

mod again;
mod asks;
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

pub use carrier::Carrier;
pub use config::{ConfigError, ServiceConfig};
pub use services::Description;
