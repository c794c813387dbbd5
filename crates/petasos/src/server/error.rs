//! Why servers do not start.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use petasos_endpoint::NodeError;

use petasos_runtime::{LoopError, ServeError};

/// Why a server did not start. Nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address to listen at cannot be understood or found. The program's fault.
    #[error("cannot listen at `{0}`: {1}")]
    Address(String, io::Error),
    /// A service is not as it should be. The program's fault.
    #[error(transparent)]
    Service(#[from] ServeError),
    /// A method was placed that no service has. The program's fault.
    #[error("no service of the server has a method `{0}`")]
    NoSuchMethod(String),
    /// The gRPC port can be reached from other hosts, and has no TLS: everything would be in the
    /// clear. Give it certificates, or say that plaintext is wanted.
    #[cfg(feature = "grpc")]
    #[error(
        "gRPC at {0} could be reached from other hosts in the clear: give `GrpcConfig::tls`, or \
         consent with `Security::Plaintext` or `GrpcConfig::plaintext`"
    )]
    GrpcPlaintext(SocketAddr),
    /// A service of the gRPC port only has the name of another. The program's fault.
    #[cfg(feature = "grpc")]
    #[error("two services are named `{0}`")]
    GrpcServiceTwice(String),
    /// A service of the gRPC port only, and the server has no such port. The program's fault.
    #[cfg(feature = "grpc")]
    #[error("`{0}` is served over gRPC only, and the server has no gRPC port")]
    NoGrpcPort(String),
    /// The server has interceptors, which would not see the calls of this service of the gRPC port
    /// only. They may be what keeps others out.
    #[cfg(feature = "grpc")]
    #[error(
        "the server's interceptors do not see calls of `{0}`: serve it by a server without any"
    )]
    NotIntercepted(String),
    /// The node could not be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A loop could not be made.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// The address that `text` names.
pub(super) fn find(text: &str) -> Result<SocketAddr, StartError> {
    let failed = |error| StartError::Address(text.to_owned(), error);
    let mut found = text.to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
