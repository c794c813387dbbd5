//! What can go wrong between processes, whose fault it is, and whether a retry is of use.

use core::fmt;
use std::io;
use std::net::SocketAddr;

use petasos_control::{ConfigError, FailureReason, Fault, ProtocolError, RefuseCode, VersionRange};
use petasos_tls::{CredentialError, HandshakeFailure};

/// Why a [`crate::Node`] did not start. The caller's to handle; nothing runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// Another socket listens there. Choose another port, or end the process that holds it.
    AddressInUse(SocketAddr),
    /// The address is not one of this host's.
    AddressNotLocal(SocketAddr),
    /// The settings contradict each other.
    Config(ConfigError),
    /// Certificates or keys cannot be used. The operator's fault.
    Credentials(CredentialError),
    /// The address can be reached from other hosts, and there is no TLS: everything would be in the
    /// clear. Give certificates, or say that plaintext is wanted.
    Plaintext(SocketAddr),
    /// The operating system refused for another reason.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::AddressInUse(address) => {
                write!(f, "{address} is in use by another socket; choose another port")
            }
            NodeError::AddressNotLocal(address) => {
                write!(f, "{address} is not an address of this host")
            }
            NodeError::Config(error) => write!(f, "the node's settings are unusable: {error}"),
            NodeError::Credentials(error) => write!(f, "TLS cannot be set up: {error}"),
            NodeError::Plaintext(address) => write!(
                f,
                "{address} can be reached from other hosts: without TLS that takes express consent"
            ),
            NodeError::System { attempt, error } => write!(f, "cannot {attempt}: {error}"),
        }
    }
}

impl std::error::Error for NodeError {}

/// Why an endpoint could not be attached to a node.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// It is attached already.
    Attached,
    /// The node has ended.
    NodeEnded,
    /// The node has as many endpoints as a process may have.
    TooManyEndpoints,
    /// The operating system gave no descriptor.
    System(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Attached => f.write_str("the endpoint is attached to a node already"),
            AttachError::NodeEnded => f.write_str("the node has ended"),
            AttachError::TooManyEndpoints => f.write_str("the node has no room for endpoints"),
            AttachError::System(error) => write!(f, "the system gave no descriptor: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// Why no session was even begun. Nothing was sent, so a retry is always safe.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is not attached to a node, or the node has ended. The caller's fault.
    NotAttached,
    /// The endpoint has all the sessions that it may have. Close some, or raise the limit.
    SessionsFull,
    /// The packet I/O cannot reach the address: another family than the local socket's, or the
    /// system knows no way there.
    NoRoute(petasos_netio::RouteError),
    /// The same, and there is neither TLS nor consent to speak in the clear with an address beyond
    /// this host: the socket is bound to loopback. A retry fails until there is.
    Plaintext(SocketAddr),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NotAttached => f.write_str("the endpoint is not attached to a node"),
            ConnectError::SessionsFull => f.write_str("the endpoint has no room for sessions"),
            ConnectError::NoRoute(error) => error.fmt(f),
            ConnectError::Plaintext(address) => SessionError::Plaintext(*address).fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Why a session could not be set up, or has failed since.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// Nothing listens at the address. The caller's fault if the address is wrong, otherwise the
    /// server is not up; a retry is of use once it is.
    Refused,
    /// The system knows no way to the address, or has no resources to try. A retry may succeed.
    Unreachable(io::ErrorKind),
    /// The server did not answer in time. Nobody's fault; a retry may succeed.
    Timeout,
    /// No version of the control protocol is common to both. A retry fails until one side is
    /// upgraded.
    VersionMismatch {
        /// What this process speaks.
        ours: VersionRange,
        /// What the server speaks.
        theirs: VersionRange,
    },
    /// The server refused; the code says whose fault that is.
    RefusedBy(RefuseCode),
    /// The server's process failed: it died, fell silent or broke the control protocol. A retry
    /// succeeds once it is back.
    PeerFailed(FailureReason),
    /// The control connection broke, and no other one took its place in time (see
    /// [`crate::NodeConfig::resume_grace`]). Nobody's fault; a retry may succeed.
    ConnectionLost,
    /// The server's process ended on purpose. Retry once it is back, or elsewhere.
    PeerEnded,
    /// The server gave up the session. A new one may be had.
    ClosedByPeer,
    /// The address that the server gave for its packets cannot be reached. The server's (or its
    /// network's) fault; a retry fails alike.
    NoRoute,
    /// The TLS connection to the server failed: an end does not trust the other, or does not speak
    /// TLS. A retry fails alike until files or settings have changed.
    Tls(HandshakeFailure),
    /// Packets or words to this address would leave the host in the clear, and nobody has said that
    /// this is wanted. The caller's fault.
    Plaintext(SocketAddr),
    /// The shared memory that the session went through broke, and could not be made anew although
    /// both processes live. Nobody's fault; the next session goes over the network, if there is
    /// one.
    RingsLost,
    /// This process's node has ended. The caller's fault.
    NodeEnded,
}

impl SessionError {
    /// Who can do something about it: the client is this process.
    pub fn fault(&self) -> Fault {
        match self {
            SessionError::Refused
            | SessionError::NodeEnded
            | SessionError::Plaintext(_)
            | SessionError::Tls(HandshakeFailure::Ours(_)) => Fault::Client,
            SessionError::Tls(HandshakeFailure::Theirs(_)) => Fault::Server,
            SessionError::RefusedBy(code) => code.fault(),
            SessionError::NoRoute | SessionError::PeerFailed(_) => Fault::Server,
            _ => Fault::Nobody,
        }
    }

    /// Whether another session to the same address may be had later without a change to either
    /// program. Nothing runs for a session that failed to be set up, so a retry is always safe.
    pub fn retry_may_succeed(&self) -> bool {
        match self {
            SessionError::RefusedBy(code) => code.retry_may_succeed(),
            SessionError::PeerFailed(reason) => {
                !matches!(reason, FailureReason::Protocol(_) | FailureReason::Reported { .. })
            }
            SessionError::VersionMismatch { .. }
            | SessionError::NoRoute
            | SessionError::Plaintext(_)
            | SessionError::NodeEnded => false,
            // The peer may have died within the handshake.
            SessionError::Tls(failure) => *failure == HandshakeFailure::Ended,
            _ => true,
        }
    }

    /// What the end of a connection means for its sessions.
    pub(crate) fn from_failure(reason: FailureReason) -> SessionError {
        match reason {
            FailureReason::Incompatible { ours, theirs } => {
                SessionError::VersionMismatch { ours, theirs }
            }
            FailureReason::Protocol(ProtocolError::SpeaksTls) => {
                SessionError::Tls(HandshakeFailure::Demanded)
            }
            reason => SessionError::PeerFailed(reason),
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Refused => f.write_str("nothing listens there; is the server up?"),
            SessionError::Unreachable(kind) => write!(f, "the address cannot be reached: {kind}"),
            SessionError::Timeout => f.write_str("the server did not answer in time"),
            SessionError::VersionMismatch { ours, theirs } => write!(
                f,
                "this process speaks control protocol {ours}, the server {theirs}; upgrade one"
            ),
            SessionError::RefusedBy(code) => write!(f, "the server refused: {code:?}"),
            SessionError::PeerFailed(reason) => write!(f, "the server failed: {reason}"),
            SessionError::ConnectionLost => {
                f.write_str("the control connection broke and was not restored in time")
            }
            SessionError::PeerEnded => f.write_str("the server's process has ended"),
            SessionError::ClosedByPeer => f.write_str("the server gave up the session"),
            SessionError::NoRoute => f.write_str("the server's data address cannot be reached"),
            SessionError::Tls(failure) => failure.fmt(f),
            SessionError::Plaintext(address) => {
                write!(f, "{address} is not on this host: without TLS that takes express consent")
            }
            SessionError::RingsLost => f.write_str("the shared memory to the server broke"),
            SessionError::NodeEnded => f.write_str("this process's node has ended"),
        }
    }
}

impl std::error::Error for SessionError {}

/// Why [`crate::Endpoint::connect_and_wait`] brought no session.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectAndWaitError {
    /// It was not even begun.
    NotBegun(ConnectError),
    /// It failed, or took too long ([`SessionError::Timeout`]).
    Failed(SessionError),
}

impl fmt::Display for ConnectAndWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectAndWaitError::NotBegun(error) => error.fmt(f),
            ConnectAndWaitError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectAndWaitError {}
