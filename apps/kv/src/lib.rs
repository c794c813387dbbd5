//! Keys and values over Petasos (`docs/spec/kv.md`): the raw interface.
//!
//! A server's table has partitions (`petasos-store`), each owned by one of its loops: an endpoint
//! on a thread of its own, with a control address of its own. Clients compute from a key which
//! partition it is in (K12), know from the layout which loop owns that, and send there, so that no
//! request changes threads; what comes astray is passed on (K20).
//!
//! Requests and responses have fixed layouts (K17, K18). A loop looks keys up where they arrived,
//! and copies a value once, into the response. For all requests of a turn the buckets are fetched
//! first, and then the entries, before any request is handled
//! ([`Endpoint::prepare`](petasos_endpoint::Endpoint::prepare)).
//!
//! Boundary rule: knows the endpoint and the table; no command lines, no files, no typed calls.

#![forbid(unsafe_code)]

mod ahead;
mod client;
mod counters;
mod layout;
mod many;
mod owner;
mod request;
mod response;
mod service;
mod status;

pub use client::{Answer, Answers, Changed, Client, ClientError, Found};
pub use counters::KvStats;
pub use layout::{Layout, MalformedLayout};
pub use many::MANY_MAX;
pub use request::{Operation, REQUEST_HEADER_BYTES, Request};
pub use response::{MalformedResponse, RESPONSE_HEADER_BYTES, Response};
pub use service::{LAYOUT, OPERATE, OPERATE_MANY, Owner, STATS, Seat, Service};
pub use status::Status;
