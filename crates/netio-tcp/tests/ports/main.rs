//! Ports on loopback, among each other and with peers that are plain sockets.

mod common;
mod connections;
mod hostile;
