//! How a node protects its control connections: with TLS, or by staying on this host (C16).

use std::net::IpAddr;

use petasos_tls::{CredentialError, PeerTls, Pem, PemFiles};

use super::NodeConfig;

const ALPN: &[u8] = b"petasos-control/1";

/// TLS 1.3 between nodes: both ends prove their identity, and sessions' packets are sealed.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Where certificate, key and authorities come from; all three are needed.
    pub credentials: Credentials,
    /// The names that are allowed, as DNS names or URIs (SPIFFE ids): a peer, dialled server or
    /// client, must have one of them in its certificate. With `None`, every peer with a certificate
    /// from an authority is allowed, and then a server's certificate must contain the IP address
    /// that was dialled.
    pub allow: Option<Vec<String>>,
}

/// Where certificates come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credentials {
    /// From memory. They do not change.
    Pem(Pem),
    /// From files, which are checked for changes when there are new connections, at most once a
    /// second. If new contents are unusable, that is logged and the old ones stay in use.
    /// Established connections are not affected.
    Files(PemFiles),
}

/// The protection of a node's control connections.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    tls: Option<PeerTls>,
    plaintext: bool,
}

impl Guard {
    pub(super) fn new(config: &NodeConfig) -> Result<Guard, CredentialError> {
        let tls = config.tls.clone().map(|TlsConfig { credentials, allow }| match credentials {
            Credentials::Pem(pem) => PeerTls::from_pem(&pem, ALPN, allow),
            Credentials::Files(files) => PeerTls::from_files(files, ALPN, allow),
        });
        Ok(Guard { tls: tls.transpose()?, plaintext: config.plaintext })
    }

    pub(super) fn tls(&self) -> Option<&PeerTls> {
        self.tls.as_ref()
    }

    /// Whether control connections are over TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether traffic to or from `ip` would be plaintext beyond this host although that is not
    /// allowed.
    pub(crate) fn forbids(&self, ip: IpAddr) -> bool {
        !self.is_secured() && !self.plaintext && !ip.to_canonical().is_loopback()
    }
}
