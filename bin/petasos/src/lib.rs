//! What the programs under `bin/` share: options about transport and security, failures in one
//! line, and the demonstration services.
//!
//! Boundary rule: joins endpoint and packet I/O; knows no command.

pub mod connect;
pub mod failure;
pub mod security;
pub mod service;
pub mod transport;
