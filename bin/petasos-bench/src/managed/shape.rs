//! The calls of one point of a figure.

use clap::ValueEnum;

/// Sizes and numbers of calls, which all contenders get alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub work: Work,
    /// Bytes of a request's payload.
    pub request_bytes: u32,
    /// Bytes of a response's payload.
    pub response_bytes: u32,
    /// Calls that each client thread keeps outstanding, at least 1.
    pub window: usize,
    /// Threads of the client, and of the server, at least 1.
    pub threads: usize,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Bytes, which are answered with bytes.
    Bytes,
    /// Reservations of hotels, some by a customer who may be refused. They have their own sizes.
    Reservations,
}

impl Work {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Work::Bytes => "bytes",
            Work::Reservations => "reservations",
        }
    }
}
