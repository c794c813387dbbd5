//! Typed remote procedure calls: what a program and generated code use.
//!
//! `docs/adr/0011-typed-calls.md` has the design, `docs/spec/call.md` the rules that are cited as
//! `R1`, `R2`, …. A [`Loop`] is a thread's endpoint with its timers and tasks. A [`Server`] serves
//! from loops on threads of its own, a [`Channel`] calls from any thread through a loop, and where
//! microseconds count both live in a loop that the program turns itself ([`Loop::serve`],
//! [`Loop::channel`]).
//!
//! How a call runs: the stub encodes the request, takes a place in the loop's table of calls and
//! puts the place's number into the outbox. In the same turn the loop hands it to the endpoint. The
//! response's continuation puts the bytes into the place and the task on the ready list, and ready
//! tasks are polled before the turn sends. At the server the request's handler becomes a future in
//! a slot of its method and is polled in the turn that received it.
//!
//! Who may touch what: futures touch the loop's `Local` only, never the endpoint; the loop empties
//! the one and fills the other, once a turn (`turn`). No cell of `Local` is borrowed while code of
//! the application runs.
//!
//! Boundary rule: joins calls, messages and the endpoint; knows no packets, and parses nothing that
//! `call` or `message` can.

mod caller;
mod channel;
pub mod config;
mod event_loop;
#[cfg(feature = "grpc")]
mod grpc_channel;
mod home;
mod include;
pub mod intercept;
pub mod rt;
mod serve;
mod server;
mod stream;
mod transport;
pub mod untyped;
mod workers;

pub use caller::{ServiceClient, Unary};
pub use channel::{Channel, ChannelBuilder, ConnectError};
pub use event_loop::Loop;
#[cfg(feature = "grpc")]
pub use grpc_channel::background_runtime;
pub use home::{JoinHandle, LoopConfig, LoopError, Security, ServeError, SlowMethod, SlowTurns};
#[cfg(feature = "tracing")]
pub use intercept::Tracing;
pub use intercept::{Interceptor, Metrics};
pub use petasos_call::balance::Balance;
pub use petasos_call::policy;
pub use petasos_call::{Code, Codec, Metadata, MetadataError, Status, TraceContext};
pub use petasos_endpoint::{Credentials, Pem, PemFiles, TlsConfig};
#[cfg(feature = "grpc")]
pub use petasos_grpc as grpc;
pub use petasos_macros::message;
pub use petasos_message as message;
pub use petasos_message::Msg;
pub use petasos_rpc::cancelled::Cancelled;
pub use petasos_rpc::park::block_on;
pub use petasos_rpc::peer::{Peer, PeerTransport};
pub use petasos_rpc::request::{Request, Response};
#[cfg(feature = "grpc")]
pub use petasos_rpc::settings::hosts;
pub use petasos_rpc::settings::{FoundServers, Resolver, TargetError};
pub use server::{Ended, Placement, Server, ServerBuilder, StartError};
pub use stream::{Opening, Sender, Streaming, Upload};
