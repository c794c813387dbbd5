//! What the two programs share that the connect project's gRPC conformance suite drives.
//!
//! The runner speaks with them over standard input and output, in protobuf messages with their
//! length before them; `cargo xtask conformance grpc` fetches and runs it. The service is a
//! generated one, served and called as any other. What the runner and the service's messages say is
//! read with `prost`, so that the suite does not judge Petasos by Petasos.

mod convert;
pub mod messages;
mod pipe;

pub use convert::{bytes, error, headers, metadata, status, type_url, typed};
pub use pipe::{read, write};

/// The service under test, as generated.
#[allow(missing_docs, reason = "generated from the suite's declarations")]
pub mod service {
    include!(concat!(env!("OUT_DIR"), "/connectrpc.conformance.v1.rs"));
}

/// The service under test.
pub const SERVICE: &str = "connectrpc.conformance.v1.ConformanceService";
