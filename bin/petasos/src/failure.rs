//! Failures for users: one line that says what happened and what to do about it.

use std::fmt;
use std::net::SocketAddr;

use petasos_endpoint::{
    AttachError, CallError, CertificateFlaw, EnqueueError, FailureReason, HandshakeFailure,
    NodeError, ProtocolError, RefuseCode, SessionError,
};
use petasos_netio::SetupError;
use petasos_report::WriteError;

/// Why a command failed. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    line: String,
}

impl Failure {
    /// A failure without advice.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { line: what.into() }
    }

    /// A failure with advice.
    pub fn with_advice(what: impl fmt::Display, advice: impl fmt::Display) -> Failure {
        Failure { line: format!("{what}; {advice}") }
    }

    /// The failure for packet I/O that is not available; `error` is the reason.
    pub fn of_transport(what: &str, error: &dyn fmt::Display) -> Failure {
        let advice = "`petasos doctor` says what this host supports";
        Failure::with_advice(format_args!("cannot use {what}: {error}"), advice)
    }

    /// The failure for a program that was built without `feature`, which needs Debian's `package`.
    #[cfg(not(all(feature = "dpdk", feature = "fabric")))]
    pub fn of_missing_feature(feature: &str, package: &str) -> Failure {
        Failure::with_advice(
            format_args!("this program was built without the cargo feature `{feature}`"),
            how_to_build(feature, package),
        )
    }

    /// The failure for a session to `server` that could not be set up, or was lost.
    pub fn of_session(server: SocketAddr, error: &SessionError) -> Failure {
        let what = match error {
            SessionError::Refused => "nothing listens there".into(),
            SessionError::VersionMismatch { ours, theirs } => {
                format!("this program speaks control protocol {ours}, the server {theirs}")
            }
            SessionError::RefusedBy(code) => format!("the server refused the session: {code}"),
            // The errors' own texts say what to put before an address, but commands with sessions
            // take no scheme.
            SessionError::PeerFailed(FailureReason::Protocol(ProtocolError::SpeaksHttp2)) => {
                "it looks like a gRPC (HTTP/2) port".into()
            }
            SessionError::Tls(HandshakeFailure::Demanded) => {
                "it demands TLS, and this process has no certificate".into()
            }
            SessionError::Tls(HandshakeFailure::Plaintext) => "it does not speak TLS".into(),
            error => error.to_string(),
        };
        let attempt = if is_lost(error) { "lost the server at" } else { "cannot connect to" };
        let advice = advice_on_session(server, error);
        Failure::with_advice(format_args!("{attempt} {server}: {what}"), advice)
    }

    /// The failure for a call to `server`. `session` is the state of its session.
    pub fn of_call(
        server: SocketAddr,
        error: CallError,
        session: Option<&SessionError>,
    ) -> Failure {
        let is_of_session =
            matches!(error, CallError::PeerFailed | CallError::SessionClosed | CallError::NotSent);
        if let (true, Some(session)) = (is_of_session, session) {
            return Failure::of_session(server, session);
        }
        let advice = match error {
            CallError::Timeout => "allow more with --timeout, or look at the server",
            CallError::UnknownMethod => {
                "the server offers other services, or is of another version"
            }
            CallError::RequestTooLarge | CallError::ResponseTooLarge => "use a smaller value",
            CallError::Overloaded | CallError::Draining => "the call has not run; try again later",
            CallError::HandlerFailed => "look at the server's standard error",
            CallError::OutOfMemory => "free memory or use a smaller value",
            _ => "try again",
        };
        Failure::with_advice(format_args!("the call to {server} failed: {error}"), advice)
    }

    /// The failure for a call that could not be started.
    pub fn of_enqueue(server: SocketAddr, error: EnqueueError) -> Failure {
        let advice = match error {
            EnqueueError::TooLarge { .. } => "use a smaller value",
            _ => "try again",
        };
        Failure::with_advice(format_args!("cannot call {server}: {error}"), advice)
    }
}

/// How to build a program with a cargo feature that needs Debian's `package`.
#[cfg(not(all(feature = "dpdk", feature = "fabric")))]
pub fn how_to_build(feature: &str, package: &str) -> String {
    format!(
        "install {package}, libclang-dev and pkg-config, and build it with `cargo build --release \
         --package petasos-cli --features {feature}`"
    )
}

/// Whether a session with this error was, or may have been, set up before.
fn is_lost(error: &SessionError) -> bool {
    match error {
        // A peer that does not begin with a hello has never been connected.
        SessionError::PeerFailed(FailureReason::Protocol(error)) => {
            !matches!(error, ProtocolError::HelloExpected | ProtocolError::SpeaksHttp2)
        }
        SessionError::PeerFailed(_)
        | SessionError::PeerEnded
        | SessionError::ConnectionLost
        | SessionError::ClosedByPeer
        | SessionError::RingsLost => true,
        _ => false,
    }
}

fn advice_on_session(server: SocketAddr, error: &SessionError) -> String {
    match error {
        SessionError::Refused => format!("start one with `petasos serve --listen {server}`"),
        SessionError::Unreachable(_) => "check the address and the network".into(),
        SessionError::Timeout => "check the address, or allow more with --timeout".into(),
        SessionError::VersionMismatch { .. } => "upgrade the older of the two".into(),
        SessionError::NoWorker => "or wait until one has".into(),
        SessionError::RefusedBy(code) => advice_on_refusal(*code).into(),
        SessionError::PeerFailed(FailureReason::Protocol(ProtocolError::SpeaksHttp2)) => format!(
            "call it with `petasos call grpc://{server} …`, or give the address of a `petasos \
             serve --listen`"
        ),
        SessionError::PeerFailed(FailureReason::Protocol(_)) => {
            "check that a Petasos server listens at this address".into()
        }
        SessionError::PeerFailed(_) | SessionError::PeerEnded => {
            "restart the server and try again".into()
        }
        SessionError::Plaintext(_) => {
            "give --tls-cert, --tls-key and --tls-ca, or --plaintext".into()
        }
        SessionError::Tls(failure) => advice_on_tls(server, failure),
        SessionError::NoRoute => "start the server with --listen and an address of its own".into(),
        _ => "try again".into(),
    }
}

fn advice_on_refusal(code: RefuseCode) -> &'static str {
    match code {
        RefuseCode::SessionsFull => "wait until other clients leave, or use another server",
        RefuseCode::Draining => "the server is shutting down: use another, or restart it",
        RefuseCode::NoSuchEndpoint => "the process at this address serves nothing",
        RefuseCode::IncompatibleParameters => {
            "the two programs' transports or settings do not fit each other"
        }
        _ => "look at the server",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Always print one line, whatever a peer or a file name contains.
        let visible = |c: char| if c.is_control() { '·' } else { c };
        self.line.chars().map(visible).try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

impl std::error::Error for Failure {}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Failure {
        match error {
            NodeError::AddressInUse(address) => in_use(address),
            NodeError::AddressNotLocal(address) => not_local(address),
            NodeError::System { attempt, error } => of_system(attempt, &error),
            NodeError::Plaintext(address) => Failure::with_advice(
                format_args!("{address} can be reached from other hosts, and there is no TLS"),
                "give --tls-cert, --tls-key and --tls-ca, or --plaintext",
            ),
            NodeError::Credentials(error) => Failure::with_advice(
                format_args!("TLS cannot be set up: {error}"),
                "check the files of --tls-cert, --tls-key and --tls-ca",
            ),
            error => Failure::new(error.to_string()),
        }
    }
}

/// Advice for a TLS connection to `server` that failed.
fn advice_on_tls(server: SocketAddr, failure: &HandshakeFailure) -> String {
    let advice = match failure {
        HandshakeFailure::Theirs(CertificateFlaw::WrongAddress) => {
            "name the server with --allow, or give it a certificate for its address"
        }
        HandshakeFailure::Theirs(CertificateFlaw::NotAllowed) => {
            "check --allow against the names in the server's certificate"
        }
        HandshakeFailure::Theirs(_) => "check --tls-ca, and the server's certificate",
        HandshakeFailure::Ours(CertificateFlaw::NotAllowed) => {
            "start the server with --allow and a name of this process's certificate"
        }
        HandshakeFailure::Ours(_) => "check --tls-cert, and the server's --tls-ca",
        HandshakeFailure::Demanded => {
            return format!(
                "give --tls-cert, --tls-key and --tls-ca; if it is a gRPC port, call it with \
                 `petasos call grpcs://{server} …`"
            );
        }
        HandshakeFailure::Plaintext => {
            return format!(
                "check that the server has --tls-cert; if it is a gRPC port, call it with \
                 `petasos call grpc://{server} …`"
            );
        }
        _ => "check that the server has --tls-cert",
    };
    advice.into()
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Failure {
        match error {
            SetupError::AddressInUse(address) => in_use(address),
            SetupError::AddressNotLocal(address) => not_local(address),
            SetupError::System { attempt, error } => of_system(attempt, &error),
            error => Failure::new(error.to_string()),
        }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        Failure::new(format!("cannot set the endpoint up: {error}"))
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        Failure::with_advice(error, "name a file in a folder that exists and can be written")
    }
}

fn in_use(address: SocketAddr) -> Failure {
    Failure::with_advice(
        format_args!("{address} is in use by another program"),
        "choose another port with --listen, or port 0 for any free one",
    )
}

fn not_local(address: SocketAddr) -> Failure {
    let advice = "listen on an address of this host, such as 127.0.0.1:7411";
    Failure::with_advice(format_args!("{address} is not an address of this host"), advice)
}

fn of_system(attempt: &str, error: &std::io::Error) -> Failure {
    let advice = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "see what the system says",
    };
    Failure::with_advice(format_args!("cannot {attempt}: {error}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn every_failure_is_one_line() {
        let failure = Failure::new("a\nb\u{1b}[31m");
        assert_eq!(failure.to_string(), "a·b·[31m");
    }

    #[test]
    fn a_lost_peer_is_explained_by_its_session() {
        let why = SessionError::PeerFailed(FailureReason::Eof);
        let line = Failure::of_call(SERVER, CallError::PeerFailed, Some(&why)).to_string();
        assert!(line.starts_with("lost the server at 127.0.0.1:9"), "{line}");
        assert!(line.ends_with("restart the server and try again"), "{line}");
    }

    #[test]
    fn a_stranger_was_never_connected() {
        for (error, what) in [
            (ProtocolError::SpeaksHttp2, "gRPC (HTTP/2) port; call it with `petasos call grpc://"),
            (ProtocolError::HelloExpected, "check that a Petasos server listens"),
        ] {
            let why = SessionError::PeerFailed(FailureReason::Protocol(error));
            let line = Failure::of_session(SERVER, &why).to_string();
            assert!(line.starts_with("cannot connect to 127.0.0.1:9: "), "{line}");
            assert!(line.contains(what) && !line.contains("before the address"), "{line}");
        }
    }

    #[test]
    fn a_missing_server_is_told_how_to_start_one() {
        let line = Failure::of_session(SERVER, &SessionError::Refused).to_string();
        assert!(line.ends_with("`petasos serve --listen 127.0.0.1:9`"), "{line}");
    }
}
