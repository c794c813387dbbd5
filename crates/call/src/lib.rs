//! Typed calls without I/O: what is put around messages, and how streams are made of requests.
//!
//! The bytes and rules are specified in `docs/spec/call.md` and cited here as `R1`, `R2`, …. A
//! unary message has a head of eight bytes before it ([`RequestHead`], [`ResponseHead`]) and, if
//! there is something to say, a tail behind it ([`split`], [`TailWriter`], [`read_tail`]).
//! [`BindRequest`] and [`BindResponse`] agree on numbers for methods. [`Status`] and [`Metadata`]
//! are what applications and interceptors see, over datagrams and over gRPC alike. [`stream`] makes
//! streams of requests, and [`compress`] shortens bodies.
//!
//! Invariants: every byte string parses or is [`Malformed`], and nothing here panics on one. What
//! is kept of a peer's bytes is bounded by limits that the caller passes or that are constants.
//! Types that calls carry around are one word when they are empty.
//!
//! Boundary rule: sees `base` only; never messages' contents, sessions, sockets, clocks or threads.

mod agreement;
pub mod balance;
mod bind;
pub mod channel;
mod codec;
pub mod compress;
mod failure;
mod head;
mod malformed;
mod metadata;
pub mod policy;
mod services;
mod session_index;
mod status;
pub mod stream;
mod tail;
mod trace;

pub use agreement::{Agreement, BoundMethod, CallerSchema, MethodMatch};
pub use bind::{BindRequest, BindResponse, Hash};
pub use codec::{Codec, CodecSet, Encoding};
pub use failure::{Failure, Retry};
pub use head::{Answer, HEAD_BYTES, Load, LoadBytes, RequestHead, ResponseHead, split};
pub use malformed::Malformed;
pub use metadata::{Metadata, MetadataError, MetadataKind, PREVIOUS_ATTEMPTS, RETRY_PUSHBACK};
pub use services::{MethodPlace, ServiceError, Services};
pub use status::{Code, Status};
pub use tail::{TAIL_BYTES_MAX, TailError, TailParts, TailWriter, read_tail};
pub use trace::TraceContext;
