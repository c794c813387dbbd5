//! Servers with real loops, and clients over loopback.

mod hostile;
mod many;
mod operations;
mod server;
