//! gRPC over HTTP/2, with messages as bytes: what a Petasos server or client needs to talk to any
//! gRPC peer.
//!
//! A [`Server`] accepts connections, also at Unix sockets, and passes every call to [`Routes`] as a
//! [`ServerCall`]; [`Connection::call`] begins a call. At both ends a call
//! has a [`FrameWriter`] and a [`FrameReader`]. Messages are bytes; metadata and statuses are those
//! of `petasos-call`. The protocol is gRPC's public document "gRPC over HTTP2". HTTP/2 is
//! implemented by `h2`, TLS by `rustls` (feature `tls`).
//!
//! Invariants:
//! - *Back-pressure needs no queue here.* A writer passes one message to `h2` and waits for
//!   capacity before the next. A reader opens the peer's window as it takes bytes. So a stream
//!   holds at most its windows and one message in each direction, even if the peer never reads or
//!   never stops sending.
//! - *Every call ends.* If a server's writer is dropped, by a panic for example, its call ends with
//!   `INTERNAL`. A deadline, a reset or the connection's end drops the handler. If a client's
//!   reader is dropped, the stream is reset.
//! - *Nothing that a peer sends causes a panic.* `h2` limits header lists, resets before a call was
//!   handled, and small and empty frames; beyond a limit it closes the connection with
//!   `ENHANCE_YOUR_CALM`.
//!
//! A handler is first polled in its connection's task, and moves to its own task only if it waits:
//! a call that is answered at once wakes no task. Blocking code must not run there.
//!
//! Boundary rule: knows bytes, metadata and statuses; never messages' contents, services, or
//! datagrams.

pub mod base64;
mod client;
mod compress;
mod config;
mod deframe;
mod drain;
mod failure;
mod frames;
mod headers;
mod keepalive;
mod payload;
mod percent;
mod places;
mod reader;
mod refusals;
mod send_half;
mod server;
mod timeout;
#[cfg(feature = "tls")]
mod tls;
mod unpacking;
mod usage;
mod wakers;
mod writer;

use std::pin::Pin;

pub use client::{ClientHead, Connection, MethodPath};
pub use compress::Compression;
pub use config::{ClientConfig, GrpcConfig, Keepalive, PingLimit};
pub use drain::Drain;
/// The bytes that a [`FrameWriter`] takes before each message. Their contents do not matter.
pub use petasos_call::HEAD_BYTES;
pub use petasos_tls::Identity;
pub use reader::FrameReader;
pub use refusals::{GrpcStats, Refusals};
pub use server::{Peer, Process, Routes, Server, ServerCall};
#[cfg(feature = "tls")]
pub use tls::{ClientTls, CredentialError, Pem, PemFiles, ServerTls, TlsError};
pub use wakers::Wakers;
pub use writer::{CallEnd, FrameWriter};

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
