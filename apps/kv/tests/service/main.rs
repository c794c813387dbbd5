//! Servers with real loops, and clients over loopback.

mod hostile;
mod linearizable;
mod many;
mod operations;
mod server;
