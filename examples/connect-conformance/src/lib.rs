//! Shared code of the two programs that the connect project's gRPC conformance suite tests.
//!
//! The runner communicates with them over standard input and output, in protobuf messages that are
//! preceded by their length; `cargo xtask conformance grpc` fetches and runs it. The service is an
//! ordinary generated one. The messages of the runner, and those in the service's payloads, are
//! decoded with `prost`, so that the suite does not use Petasos to test Petasos.

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
