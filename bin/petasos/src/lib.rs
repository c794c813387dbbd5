//! Code that the programs under `bin/` share: options for transport and security, failures in one
//! line, the demonstration services, the loop of a load generator, and what operators see of the
//! managed service.
//!
//! Boundary rule: uses the endpoint and packet I/O; knows no commands.

pub mod admin;
pub mod connect;
pub mod ends;
pub mod failed;
pub mod failure;
pub mod in_loop;
pub mod listed;
pub mod output;
pub mod security;
pub mod service;
pub mod size;
pub mod transport;
