//! A state that a group of replicas keeps (`docs/spec/replication.md`).
//!
//! - [`machine`]: what is replicated, behind a trait; [`table`] is one, [`etcd`] another.
//! - [`state`]: sessions, the clock, and a machine: what the log changes.
//! - [`log`]: where a member's log is.
//! - [`member`]: a replica with its log, its state, and clients that wait. It has no sockets.
//! - [`reply`]: what clients are told.
//!
//! Boundary rule: no command lines. Only [`member`] joins replicas, logs and states.

#![forbid(unsafe_code)]

mod bytes;
pub mod client;
pub mod contact;
pub mod etcd;
mod frozen_map;
pub mod log;
pub mod machine;
pub mod member;
pub mod reply;
pub mod service;
pub mod state;
pub mod table;
