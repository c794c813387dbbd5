//! Typed remote procedure calls: the API for programs and for generated code.
//!
//! The design is in `docs/adr/0011-typed-calls.md`. The rules that comments cite as `R1`, `R2`, …
//! are in `docs/spec/call.md`. A [`Loop`] is a thread's endpoint with its timers and tasks. A
//! [`Server`] serves from loops on its own threads. A [`Channel`] makes calls from any thread
//! through a loop. Where microseconds count, a program can run both in one loop that it drives
//! itself ([`Loop::serve`], [`Loop::channel`]).
//!
//! The types of a call are defined in `petasos-rpc`; the code that runs calls in a loop is in
//! `petasos-runtime`. This crate re-exports what programs need from both. `docs/ARCHITECTURE.md`
//! follows a call through all three.
//!
//! Boundary rule: this crate connects calls, messages and the endpoint. It knows nothing about
//! packets, and leaves parsing to `call` and `message`.

mod caller;
mod channel;
pub mod config;
mod event_loop;
#[cfg(feature = "grpc")]
mod grpc_channel;
mod handler;
mod include;
pub mod intercept;
mod joining;
pub mod memory;
pub mod relay;
pub mod rt;
mod server;
mod stream;
mod succession;
mod transport;
pub mod untyped;

pub use caller::{ServiceClient, Unary};
pub use channel::{Channel, ChannelBuilder, ConnectError};
pub use event_loop::Loop;
#[cfg(feature = "grpc")]
pub use grpc_channel::background_runtime;
#[cfg(feature = "grpc")]
pub use handler::grpc::grpc_routes;
#[cfg(feature = "tracing")]
pub use intercept::Tracing;
pub use intercept::{Interceptor, Metrics};
pub use joining::{Join, StartError};
pub use petasos_call::balance::Balance;
pub use petasos_call::policy;
pub use petasos_call::{Code, Codec, Metadata, MetadataError, Status, TraceContext};
pub use petasos_endpoint::{
    AtRouter, Credentials, Pem, PemFiles, RoutePolicy, RouterFailure, Routing, TlsConfig,
};
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
    JoinHandle, LoopConfig, LoopError, PacketTransport, Security, ServeError, ServiceChoice,
    ServiceConfig, ServiceConfigError, SlowMethod, SlowTurns,
};
pub use server::{Ended, Placement, Server, ServerBuilder};
pub use stream::{Opening, Sender, Streaming, Upload};
