//! Errors of starting a server.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use petasos_endpoint::NodeError;
use petasos_rpc::settings::TargetError;
use petasos_runtime::{LoopError, ServeError};

/// Why a server did not start. After this error no part of the server runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address to listen at is invalid or cannot be resolved. The program's fault.
    #[error("cannot listen at `{0}`: {1}")]
    Address(String, io::Error),
    /// The target of a group is invalid. The program's fault.
    #[error("cannot join: {0}")]
    Group(#[from] TargetError),
    /// A worker of a group would take no requests, or have no thread for them. The program's fault.
    #[error("a server that joins a group takes at least one request at a time, on one thread")]
    JoinBound,
    /// A worker's weight is more than a full one's, or nothing. The program's fault.
    #[error("a worker's weight is 1 to 100, in percent of a full one's part, and not {0}")]
    JoinWeight(u16),
    /// The server joins a group, but routers cannot dial it to learn of its services: it does not
    /// listen, or only the managed service of its host is dialled. The program's fault.
    #[error("a server that joins a group listens itself, so that the group's routers can dial it")]
    JoinWithoutListening,
    /// A service is invalid. The program's fault.
    #[error(transparent)]
    Service(#[from] ServeError),
    /// The program placed a method that no service has. The program's fault.
    #[error("no service of the server has a method `{0}`")]
    NoSuchMethod(String),
    /// Other hosts can reach the gRPC port, but it has no TLS, so all data would be unencrypted.
    /// Set certificates, or allow plaintext explicitly.
    #[cfg(feature = "grpc")]
    #[error(
        "gRPC at {0} could be reached from other hosts in the clear: give `GrpcConfig::tls`, or \
         consent with `Security::Plaintext` or `GrpcConfig::plaintext`"
    )]
    GrpcPlaintext(SocketAddr),
    /// A service for the gRPC port only has the name of another service. The program's fault.
    #[cfg(feature = "grpc")]
    #[error("two services are named `{0}`")]
    GrpcServiceTwice(String),
    /// There is a service for the gRPC port only, but the server has no gRPC port. The program's
    /// fault.
    #[cfg(feature = "grpc")]
    #[error("`{0}` is served over gRPC only, and the server has no gRPC port")]
    NoGrpcPort(String),
    /// The server has interceptors, but they would not see the calls of this service, which only
    /// the gRPC port serves. The interceptors may implement access control.
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
    /// The system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// The socket address for `text`.
pub(crate) fn find(text: &str) -> Result<SocketAddr, StartError> {
    let failed = |error| StartError::Address(text.to_owned(), error);
    let mut found = text.to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
