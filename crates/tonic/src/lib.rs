//! Serves services that tonic generates, unchanged, on a Petasos server's gRPC port.
//!
//! ```no_run
//! use petasos::{Server, StartError, grpc::GrpcConfig};
//! use petasos_tonic::{AddTonic, TonicService};
//!
//! # fn serve(greeter: impl TonicService) -> Result<Server, StartError> {
//! Server::builder()
//!     .grpc("127.0.0.1:7001", GrpcConfig::default())
//!     .add_tonic(greeter) // such as `GreeterServer::new(MyGreeter)`
//!     .start()
//! # }
//! ```
//!
//! The port does what tonic's own server would do: HTTP/2, TLS, limits, keepalive, deadlines,
//! draining, decompression of requests. The service does the rest: its generated code decodes
//! requests, runs handlers and encodes responses, with tonic's interceptors and layers around it if
//! it has any. Petasos' own services can be on the same port.
//!
//! **Runtime.** tonic's handlers need a Tokio runtime. The gRPC port has one: the runtime in which
//! the server was started, otherwise threads of the port, each with a current-thread runtime
//! ([`ServerBuilder::grpc_threads`]). [`AddTonic::add_tonic_on`] uses another one.
//!
//! **Deadlines and cancellation.** A handler's future is dropped at the call's deadline, when the
//! client cancels the call, and when the connection ends. The request's metadata contain
//! `grpc-timeout` with the remaining time when the call arrived.
//!
//! **The caller.** `Request::remote_addr` is the client's address. The request's extensions contain
//! `Arc<petasos::grpc::Peer>`, with the names in the client's certificate.
//!
//! **Back-pressure.** If a handler does not read its requests, its client must wait. If a client
//! does not read, the stream of responses waits. There is no queue between the two libraries.
//!
//! **Limits.** The smaller of `GrpcConfig::receive_bytes_max` and the service's own
//! `max_decoding_message_size` applies; the default of both is 4 MiB.
//!
//! **Not supported.** Calls over Petasos' datagrams: they need the names and kinds of all methods,
//! which tonic's services do not provide. Petasos' interceptors: a server with interceptors does
//! not start with such a service. Compression of responses.
//!
//! Boundary rule: uses only the public API of the facade; knows nothing about messages.
//!
//! [`ServerBuilder::grpc_threads`]: petasos::ServerBuilder::grpc_threads

mod adapter;
mod fields;
mod requests;
mod responses;
mod service;

use petasos::ServerBuilder;
use tokio::runtime::Handle;

use adapter::Adapter;
pub use service::TonicService;

/// Adds tonic's services to a server.
pub trait AddTonic {
    /// Serves a service on the gRPC port, and runs its handlers on the port's runtime.
    #[must_use]
    fn add_tonic(self, service: impl TonicService) -> Self;

    /// Serves a service on the gRPC port, and runs its handlers on `runtime`. It must run as long
    /// as the server does: calls whose handlers it drops fail with `INTERNAL`.
    #[must_use]
    fn add_tonic_on(self, runtime: Handle, service: impl TonicService) -> Self;
}

impl AddTonic for ServerBuilder {
    fn add_tonic(self, service: impl TonicService) -> ServerBuilder {
        self.grpc_service(name(&service), Adapter { service, runtime: None })
    }

    fn add_tonic_on(self, runtime: Handle, service: impl TonicService) -> ServerBuilder {
        self.grpc_service(name(&service), Adapter { service, runtime: Some(runtime) })
    }
}

fn name<S: TonicService>(_: &S) -> &'static str {
    S::NAME
}
