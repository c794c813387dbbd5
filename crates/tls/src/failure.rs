//! Errors of handshakes, and who is at fault.

use core::fmt;

use rustls::{AlertDescription, CertificateError, Error};

/// Why a certificate is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFlaw {
    /// There is none.
    Missing,
    /// No authority that the other end trusts has issued it.
    UnknownAuthority,
    /// It has expired.
    Expired,
    /// It is not valid yet; one of the clocks may be wrong.
    NotYetValid,
    /// None of its names is on the other end's allow-list.
    NotAllowed,
    /// It does not contain the address that was dialled, and there is no allow-list.
    WrongAddress,
    /// Another reason, in TLS's words.
    Other(String),
}

impl fmt::Display for CertificateFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CertificateFlaw::Missing => "there is none",
            CertificateFlaw::UnknownAuthority => "no trusted authority vouches for it",
            CertificateFlaw::Expired => "its time is over",
            CertificateFlaw::NotYetValid => "its time has not come",
            CertificateFlaw::NotAllowed => "no name of it is on the allow-list",
            CertificateFlaw::WrongAddress => "it is not for the address that was dialled",
            CertificateFlaw::Other(text) => text,
        })
    }
}

/// Why a connection could not be set up. No application data was exchanged, so a retry is safe, but
/// it fails again until one end's files or settings have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The peer's certificate is not acceptable. The peer's fault, or this end trusts too few
    /// authorities.
    Theirs(CertificateFlaw),
    /// The peer does not accept this end's certificate.
    Ours(CertificateFlaw),
    /// The peer uses TLS, for which this process is not configured.
    Demanded,
    /// The peer's data are not TLS.
    Plaintext,
    /// The peer closed the connection without an alert: it may not support TLS, or has crashed.
    Ended,
    /// Another failure, in TLS's words.
    Other(String),
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeFailure::Theirs(flaw) => write!(f, "the peer's certificate: {flaw}"),
            HandshakeFailure::Ours(flaw) => {
                write!(f, "the peer refuses this process's certificate: {flaw}")
            }
            HandshakeFailure::Demanded => f.write_str(
                "the peer demands TLS, and this process has no certificate; if it is a gRPC port, \
                 it is called with grpcs:// before the address",
            ),
            HandshakeFailure::Plaintext => f.write_str(
                "the peer does not speak TLS; if it is a gRPC port, it is called with grpc:// \
                 before the address",
            ),
            HandshakeFailure::Ended => f.write_str(
                "the peer ended the connection within the TLS handshake; does it speak TLS?",
            ),
            HandshakeFailure::Other(text) => write!(f, "the TLS connection failed: {text}"),
        }
    }
}

impl std::error::Error for HandshakeFailure {}

impl From<&Error> for HandshakeFailure {
    fn from(error: &Error) -> HandshakeFailure {
        match error {
            Error::InvalidCertificate(why) => HandshakeFailure::Theirs(flaw(why)),
            Error::NoCertificatesPresented => HandshakeFailure::Theirs(CertificateFlaw::Missing),
            Error::AlertReceived(alert) => refusal(*alert),
            Error::InvalidMessage(_) => HandshakeFailure::Plaintext,
            other => HandshakeFailure::Other(other.to_string()),
        }
    }
}

fn flaw(error: &CertificateError) -> CertificateFlaw {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => CertificateFlaw::Expired,
        E::NotValidYet | E::NotValidYetContext { .. } => CertificateFlaw::NotYetValid,
        E::UnknownIssuer => CertificateFlaw::UnknownAuthority,
        E::NotValidForName | E::NotValidForNameContext { .. } => CertificateFlaw::WrongAddress,
        E::ApplicationVerificationFailure => CertificateFlaw::NotAllowed,
        other => CertificateFlaw::Other(other.to_string()),
    }
}

/// The meaning of the peer's alert for this end (RFC 8446, section 6.2).
fn refusal(alert: AlertDescription) -> HandshakeFailure {
    let flaw = match alert {
        AlertDescription::UnknownCA => CertificateFlaw::UnknownAuthority,
        AlertDescription::CertificateExpired => CertificateFlaw::Expired,
        AlertDescription::AccessDenied => CertificateFlaw::NotAllowed,
        AlertDescription::CertificateRequired => CertificateFlaw::Missing,
        AlertDescription::BadCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::UnsupportedCertificate => {
            CertificateFlaw::Other(format!("it says {alert:?}"))
        }
        other => return HandshakeFailure::Other(format!("the peer says {other:?}")),
    };
    HandshakeFailure::Ours(flaw)
}
