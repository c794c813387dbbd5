//! gRPC over HTTP/2, as bytes: what a Petasos server and client need to speak with any gRPC peer.
//!
//! [`serve`] accepts connections and hands every call to [`Routes`] as a [`ServerCall`];
//! [`Connection::call`] begins one. At both ends a call is a [`FrameWriter`] and a [`FrameReader`]:
//! messages as bytes, metadata and statuses as `petasos-call` has them. The protocol is gRPC's
//! public document "gRPC over HTTP2"; HTTP/2 itself is `h2`'s, TLS is `rustls`'s (feature `tls`).
//!
//! Invariants:
//! - *Back-pressure has no queue of its own.* A writer hands one message to `h2` and waits for
//!   capacity before the next. A reader opens the peer's window as it takes bytes. So a stream
//!   holds at most its windows and a message each way, and a peer that never reads, or never
//!   stops, costs no more.
//! - *Every call ends.* A server's writer that is dropped ends its call with `INTERNAL`, a panic
//!   too; a deadline, a reset or the connection's end drops the handler. A client's reader that is
//!   dropped resets the stream.
//! - *Nothing a peer sends panics.* Limits on header lists, on resets before a call was handled,
//!   on small and empty frames are `h2`'s, and end the connection with `ENHANCE_YOUR_CALM`.
//!
//! A handler is polled first in its connection's task, and only moved to one of its own if it
//! waits: a call that is answered at once wakes nobody. What blocks must not run there.
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
mod headers;
mod keepalive;
mod payload;
mod percent;
mod reader;
mod send_half;
mod server;
mod timeout;
#[cfg(feature = "tls")]
mod tls;
mod unpacking;
mod wakers;
mod writer;

use std::pin::Pin;

pub use client::{ClientHead, Connection, MethodPath};
pub use compress::Compression;
pub use config::{ClientConfig, GrpcConfig, Keepalive, PingLimit};
pub use drain::Drain;
pub use petasos_tls::Identity;
pub use reader::FrameReader;
pub use server::{Peer, Routes, ServerCall, serve};
#[cfg(feature = "tls")]
pub use tls::{ClientTls, CredentialError, Pem, PemFiles, ServerTls, TlsError};
pub use wakers::Wakers;
pub use writer::{CallEnd, FrameWriter};

/// A future that owns what it needs and may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
