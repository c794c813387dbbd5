//! Typed remote procedure calls: what a program and generated code use.
//!
//! `docs/adr/0011-typed-calls.md` has the design, `docs/spec/call.md` the rules that are cited as
//! `R1`, `R2`, …. A [`Loop`] is a thread's endpoint with its timers and tasks. A [`Server`] serves
//! from loops on threads of its own, a [`Channel`] calls from any thread through a loop, and where
//! microseconds count both live in a loop that the program turns itself ([`Loop::serve`],
//! [`Loop::channel`]).
//!
//! What a call is, is in `petasos-rpc`; what runs calls in a loop, in `petasos-runtime`. Both are
//! re-exported here as far as programs name them. `docs/ARCHITECTURE.md` follows a call through all
//! three.
//!
//! Boundary rule: joins calls, messages and the endpoint; knows no packets, and parses nothing that
//! `call` or `message` can.

mod caller;
mod channel;
pub mod config;
mod event_loop;
#[cfg(feature = "grpc")]
mod grpc_channel;
mod handler;
mod include;
pub mod intercept;
pub mod memory;
pub mod rt;
mod server;
mod stream;
mod transport;
pub mod untyped;

pub use caller::{ServiceClient, Unary};
pub use channel::{Channel, ChannelBuilder, ConnectError};
pub use event_loop::Loop;
#[cfg(feature = "grpc")]
pub use grpc_channel::background_runtime;
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
#[doc(inline)]
pub use petasos_rpc::cancelled::Cancelled;
#[doc(inline)]
pub use petasos_rpc::park::block_on;
#[doc(inline)]
pub use petasos_rpc::peer::{Peer, PeerTransport};
#[doc(inline)]
pub use petasos_rpc::request::{Request, Response};
#[cfg(feature = "grpc")]
#[doc(inline)]
pub use petasos_rpc::settings::hosts;
#[doc(inline)]
pub use petasos_rpc::settings::{FoundServers, Resolver, TargetError};
#[doc(inline)]
pub use petasos_runtime::{
    JoinHandle, LoopConfig, LoopError, Security, ServeError, SlowMethod, SlowTurns,
};
pub use server::{Ended, Placement, Server, ServerBuilder, StartError};
pub use stream::{Opening, Sender, Streaming, Upload};
