//! Errors between processes: whose fault they are, and whether a retry can help.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_control::{ConfigError, FailureReason, Fault, ProtocolError, RefuseCode, VersionRange};
use petasos_tls::{CredentialError, HandshakeFailure};

/// Why a [`crate::Node`] did not start. Nothing runs then.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// Another socket listens there. Choose another port, or end the process that holds it.
    AddressInUse(SocketAddr),
    /// The address is not one of this host's.
    AddressNotLocal(SocketAddr),
    /// The settings contradict each other.
    Config(ConfigError),
    /// Certificates or keys are unusable. The operator's fault.
    Credentials(CredentialError),
    /// The address can be reached from other hosts and there is no TLS, so everything would be in
    /// plaintext. Configure certificates, or allow plaintext.
    Plaintext(SocketAddr),
    /// The operating system refused for another reason.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl NodeError {
    /// Whether the settings are at fault, so that trying again is of no use.
    pub fn is_of_settings(&self) -> bool {
        match self {
            NodeError::AddressNotLocal(_)
            | NodeError::Config(_)
            | NodeError::Credentials(_)
            | NodeError::Plaintext(_) => true,
            NodeError::AddressInUse(_) | NodeError::System { .. } => false,
        }
    }
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
    /// It is already attached.
    Attached,
    /// The node has ended.
    NodeEnded,
    /// The node has as many endpoints as a process may have.
    TooManyEndpoints,
    /// The operating system has no file descriptor left.
    System(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Attached => f.write_str("the endpoint is attached to a node already"),
            AttachError::NodeEnded => f.write_str("the node has ended"),
            AttachError::TooManyEndpoints => f.write_str("the node has too many endpoints"),
            AttachError::System(error) => write!(f, "cannot get a file descriptor: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// Why a session was not begun. Nothing was sent, so a retry is always safe.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is not attached to a node, or the node has ended. The caller's fault.
    NotAttached,
    /// The endpoint has reached its limit of sessions. Close some, or raise the limit.
    SessionsFull,
    /// The packet I/O cannot reach the address: it belongs to another family than the local
    /// socket's, or the system knows no route to it.
    NoRoute(petasos_netio::RouteError),
    /// The packet I/O cannot reach the address, because the socket is bound to loopback: there is
    /// neither TLS nor consent to plaintext beyond this host. A retry fails until there is one of
    /// them.
    Plaintext(SocketAddr),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NotAttached => f.write_str("the endpoint is not attached to a node"),
            ConnectError::SessionsFull => f.write_str("the endpoint has too many sessions"),
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
    /// Nothing listens at the address. If the address is wrong, the caller's fault; otherwise the
    /// server is not running, and a retry can succeed once it is.
    Refused,
    /// The system knows no route to the address, or has no resources to try. A retry may succeed.
    Unreachable(io::ErrorKind),
    /// The server did not answer in time. Nobody's fault; a retry may succeed.
    Timeout,
    /// No version of the control protocol is common to both. A retry fails until one side is
    /// upgraded.
    VersionMismatch {
        /// The versions that this process supports.
        ours: VersionRange,
        /// The versions that the server supports.
        theirs: VersionRange,
    },
    /// The server refused; the code says whose fault that is.
    RefusedBy(RefuseCode),
    /// A router knows no worker that a client could open a session with: none has joined its group,
    /// or none is at an address of its own. Nobody's fault; a retry may succeed.
    NoWorker,
    /// The server's process failed: it died, went silent, or violated the control protocol. A retry
    /// can succeed once it is back.
    PeerFailed(FailureReason),
    /// The control connection broke, and was not replaced in time (see
    /// [`crate::NodeConfig::resume_grace`]). Nobody's fault; a retry may succeed.
    ConnectionLost,
    /// The server's process shut down. Retry once it is back, or on another server.
    PeerEnded,
    /// The server closed the session. A new one can be opened.
    ClosedByPeer,
    /// The address that the server gave for its packets cannot be reached. The fault of the server
    /// or its network; a retry fails again.
    NoRoute,
    /// The TLS connection to the server failed: one end does not trust the other, or does not use
    /// TLS. A retry fails until certificates or settings have changed.
    Tls(HandshakeFailure),
    /// Packets or control messages to this address would leave the host in plaintext, which is not
    /// allowed. The caller's fault.
    Plaintext(SocketAddr),
    /// The shared memory of the session broke and could not be set up again, although both
    /// processes live. Nobody's fault; the next session goes over the network, if there is one.
    RingsLost,
    /// This process's node has ended. The caller's fault.
    NodeEnded,
    /// The carrier of an external session could not set it up, or has lost it. The text says why.
    /// Nobody's fault; a retry may succeed.
    Carrier(Arc<str>),
}

impl SessionError {
    /// Who can do something about it. The client is this process.
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

    /// Whether another session to the same address may succeed later without a change to either
    /// program. Nothing runs for a session that could not be set up, so a retry is always safe.
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
            // The peer may have died during the handshake.
            SessionError::Tls(failure) => *failure == HandshakeFailure::Ended,
            _ => true,
        }
    }

    /// The error of a connection's sessions when the connection ends.
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
            SessionError::RefusedBy(code) => write!(f, "the server refused: {code}"),
            SessionError::NoWorker => f.write_str(
                "no worker of the group takes sessions now: start one that joins its router",
            ),
            SessionError::PeerFailed(reason) => write!(f, "the server failed: {reason}"),
            SessionError::ConnectionLost => {
                f.write_str("the control connection broke and was not restored in time")
            }
            SessionError::PeerEnded => f.write_str("the server's process has ended"),
            SessionError::ClosedByPeer => f.write_str("the server closed the session"),
            SessionError::NoRoute => f.write_str("the server's data address cannot be reached"),
            SessionError::Tls(failure) => failure.fmt(f),
            SessionError::Plaintext(address) => {
                write!(f, "{address} is not on this host: without TLS that takes express consent")
            }
            SessionError::RingsLost => f.write_str("the shared memory to the server broke"),
            SessionError::NodeEnded => f.write_str("this process's node has ended"),
            SessionError::Carrier(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SessionError {}

/// Why [`crate::Endpoint::connect_and_wait`] returned no session.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectAndWaitError {
    /// The session was not begun.
    NotBegun(ConnectError),
    /// The session failed, or took too long ([`SessionError::Timeout`]).
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
