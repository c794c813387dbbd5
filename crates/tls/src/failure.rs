//! Why a handshake failed, and whose fault that is.

use core::fmt;

use rustls::{AlertDescription, CertificateError, Error};

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFlaw {
    /// There is none.
    Missing,
    /// It leads to no authority that the other end trusts.
    UnknownAuthority,
    /// Its time is over.
    Expired,
    /// Its time has not come; one of the clocks may be wrong.
    NotYetValid,
    /// It has no name on the other end's allow-list.
    NotAllowed,
    /// It does not have the address that was dialled, and there is no allow-list.
    WrongAddress,
    /// Another one, in the words of TLS.
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

/// Why there is no connection. Nothing was said on it, so a retry is safe; it fails alike until
/// one end's files or settings have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The peer's certificate does not do. The peer's fault, or this end trusts too few.
    Theirs(CertificateFlaw),
    /// The peer does not take this end's certificate.
    Ours(CertificateFlaw),
    /// The peer speaks TLS, which this process has not been given.
    Demanded,
    /// What the peer sent is not TLS.
    Plaintext,
    /// The peer ended the connection without a word: it may not speak TLS, or has died.
    Ended,
    /// Another failure, in the words of TLS.
    Other(String),
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeFailure::Theirs(flaw) => write!(f, "the peer's certificate: {flaw}"),
            HandshakeFailure::Ours(flaw) => {
                write!(f, "the peer refuses this process's certificate: {flaw}")
            }
            HandshakeFailure::Demanded => {
                f.write_str("the peer demands TLS, and this process has no certificate")
            }
            HandshakeFailure::Plaintext => f.write_str("the peer does not speak TLS"),
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

/// What the peer's alert says of this end (RFC 8446, section 6.2).
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
