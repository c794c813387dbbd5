//! How a node guards its control connections: with TLS, or by staying on this host (C16).

use std::net::IpAddr;

use petasos_tls::{CredentialError, PeerTls, Pem, PemFiles};

use super::NodeConfig;

const ALPN: &[u8] = b"petasos-control/1";

/// TLS 1.3 between nodes: both ends prove who they are, and sessions' packets are sealed.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Where certificate, key and authorities come from; all three are needed.
    pub credentials: Credentials,
    /// Names of which a peer must have one in its certificate, as DNS names or URIs (SPIFFE ids);
    /// of servers that are dialled and of clients that come. `None` lets in whomever an authority
    /// vouches for, and then a server's certificate must have the IP address that was dialled.
    pub allow: Option<Vec<String>>,
}

/// Where certificates come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credentials {
    /// From memory: they stay.
    Pem(Pem),
    /// From files, which are looked at for new connections, at most once a second. If new contents
    /// cannot be used that is logged, and the old ones stay. Connections that stand are left alone.
    Files(PemFiles),
}

/// A node's guard.
#[derive(Debug)]
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

    /// Whether what goes to `ip`, or comes there, would be in the clear beyond this host although
    /// nobody wants that.
    pub(crate) fn forbids(&self, ip: IpAddr) -> bool {
        !self.is_secured() && !self.plaintext && !ip.to_canonical().is_loopback()
    }
}
