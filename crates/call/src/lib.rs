//! Typed calls without I/O: the framing of messages, and streams over requests.
//!
//! The bytes and rules are specified in `docs/spec/call.md`, and cited here as `R1`, `R2`, …. A
//! unary message has a head of eight bytes before it ([`RequestHead`], [`ResponseHead`]) and, if
//! needed, a tail behind it ([`split`], [`TailWriter`], [`read_tail`]). [`BindRequest`] and
//! [`BindResponse`] assign numbers to methods. [`Status`] and [`Metadata`] are the types that
//! applications and interceptors see, over both datagrams and gRPC. [`stream`] builds streams from
//! requests, and [`compress`] compresses bodies.
//!
//! Invariants: every byte string either parses or is [`Malformed`]; no input causes a panic. The
//! stored bytes of a peer are bounded by constants or by limits that the caller passes. Types that
//! calls carry along are one word long when they are empty.
//!
//! Boundary rule: depends only on `base`, and knows nothing about messages' contents, sessions,
//! sockets, clocks or threads.

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
pub use bind::{BindRequest, BindResponse, Hash, UNARY_ONLY};
pub use codec::{Codec, CodecSet, Encoding};
pub use failure::{Failure, Retry};
pub use head::{Answer, HEAD_BYTES, Load, LoadBytes, RequestHead, ResponseHead, split};
pub use malformed::Malformed;
pub use metadata::{Metadata, MetadataError, MetadataKind, PREVIOUS_ATTEMPTS, RETRY_PUSHBACK};
pub use services::{MethodPlace, ServiceError, Services};
pub use status::{Code, Status};
pub use tail::{TAIL_BYTES_MAX, TailError, TailParts, TailWriter, read_tail};
pub use trace::TraceContext;
