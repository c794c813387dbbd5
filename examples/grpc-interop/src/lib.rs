//! gRPC's interoperability tests over Petasos: a server and a client that can be run against those
//! of any other implementation.
//!
//! The cases are those of gRPC's `interop-test-descriptions.md` that need no Google credentials.
//! [`Interop`] is the service, and [`cases`] has the client's part.

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

/// Metadata that servers return in the initial metadata.
pub const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
/// Metadata that servers return in the trailing metadata.
pub const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";

/// Trailing metadata with a server's load.
pub const LOAD_REPORT: &str = "endpoint-load-metrics-bin";

/// A payload of zeros.
pub fn payload(bytes: usize) -> petasos::Msg<service::Payload> {
    let mut payload = service::Payload::new();
    payload.set_body(vec![0; bytes]);
    payload
}
