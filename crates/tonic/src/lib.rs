//! Services that tonic generates, on a Petasos server's gRPC port, unchanged.
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
//! draining, compression of what arrives. The service does the rest: its generated code decodes
//! requests, runs handlers and encodes responses, with tonic's interceptors and layers around it if
//! it has some. Petasos' own services stand beside it on the same port.
//!
//! **What runs it.** tonic's handlers need a Tokio runtime. The gRPC port has one: the runtime that
//! the server was started in, otherwise threads of the port's own, each with a current-thread
//! runtime ([`ServerBuilder::grpc_threads`]). [`AddTonic::add_tonic_on`] takes another.
//!
//! **Deadlines and cancellation.** A handler's future is dropped at the call's deadline, when the
//! client gives the call up, and when the connection ends. `grpc-timeout` is among the request's
//! metadata, with what was left when the call arrived.
//!
//! **Who calls.** `Request::remote_addr` is the client's address. `Arc<petasos::grpc::Peer>` is
//! among the request's extensions, with the names of the client's certificate.
//!
//! **Back-pressure.** A handler that does not read its requests stops their client, and a client
//! that does not read stops the stream of responses. Nothing is queued between the two libraries.
//!
//! **Limits.** The shorter counts of `GrpcConfig::receive_bytes_max` and the service's own
//! `max_decoding_message_size`; both are 4 MiB unless told otherwise.
//!
//! **What is not offered.** Calls over Petasos' datagrams: these need the names and kinds of all
//! methods, which tonic's services do not tell. Petasos' interceptors: a server that has some does
//! not start with such a service. Responses are not compressed.
//!
//! Boundary rule: uses what a user of the facade can; knows no messages.
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

/// Adds services of tonic's to a server.
pub trait AddTonic {
    /// Serves a service on the gRPC port, whose runtime runs its handlers.
    #[must_use]
    fn add_tonic(self, service: impl TonicService) -> Self;

    /// Serves a service on the gRPC port, and runs its handlers on `runtime`. That must run for as
    /// long as the server does: what it drops is answered with `INTERNAL`.
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
