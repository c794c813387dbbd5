//! Code that the programs under `bin/` share: options for transport and security, failures in one
//! line, and the demonstration services.
//!
//! Boundary rule: uses the endpoint and packet I/O; knows no commands.

pub mod connect;
pub mod failure;
pub mod security;
pub mod service;
pub mod transport;
