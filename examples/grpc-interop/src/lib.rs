//! gRPC's interoperability tests over Petasos: a server and a client that those of any other
//! implementation can be run against.
//!
//! The cases are those of gRPC's `interop-test-descriptions.md` that need no credentials of
//! Google's. [`Interop`] is the service, [`cases`] has what clients do.

pub mod arguments;
pub mod cases;
mod load;
mod server;

/// The services, as generated.
#[allow(missing_docs, reason = "gRPC's declarations")]
pub mod service {
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.rs"));
}

pub use load::Load;
pub use server::Interop;

/// Metadata that servers send back at the beginning.
pub const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
/// Metadata that servers send back at the end.
pub const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";

/// Trailing metadata that tell a server's load.
pub const LOAD_REPORT: &str = "endpoint-load-metrics-bin";

/// A payload of zeros.
pub fn payload(bytes: usize) -> petasos::Msg<service::Payload> {
    let mut payload = service::Payload::new();
    payload.set_body(vec![0; bytes]);
    payload
}
