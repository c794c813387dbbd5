//! TLS 1.3 for connections, with HTTP/2 offered and demanded at both ends (ALPN).
//!
//! A server with authorities demands a certificate of every client; an allow-list then says which
//! names may call. Certificates are `petasos_tls`'s affair.

use std::io;
use std::sync::Arc;

use petasos_tls::{Identity, Reloading, client_config, server_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub use petasos_tls::{CredentialError, Pem, PemFiles};

const ALPN: &[u8] = b"h2";

/// Why TLS cannot be used, or a connection was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or keys cannot be used; the operator's fault.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// The handshake failed: an end does not trust the other, or does not speak TLS 1.3.
    #[error("the handshake failed: {0}")]
    Handshake(io::Error),
    /// The peer does not speak HTTP/2.
    #[error("the peer did not agree to HTTP/2")]
    NoHttp2,
    /// The peer's certificate has no name of the allow-list.
    #[error("the peer {0:?} is not on the allow-list")]
    NotAllowed(Vec<String>),
    /// The server's name cannot be one; the caller's fault.
    #[error("`{0}` is neither a host's name nor an address")]
    Name(String),
}

/// A server's side of TLS. Clones share it.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<Reloading<ServerConfig>>,
    allowed: Option<Arc<[String]>>,
}

/// A client's side of TLS. Clones share it.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<Reloading<ClientConfig>>,
    /// What servers must prove to be, if not the host that is called.
    server: Option<Arc<str>>,
}

impl ServerTls {
    /// From PEM that does not change.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_pem(pem: &Pem) -> Result<ServerTls, TlsError> {
        let config = Arc::new(Reloading::fixed(server_config(pem, ALPN)?));
        Ok(ServerTls { config, allowed: None })
    }

    /// From files, which are looked at again at most once a second. If new contents cannot be used
    /// that is logged and the old ones stay.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_files(files: PemFiles) -> Result<ServerTls, TlsError> {
        let config = Arc::new(Reloading::from_files(files, |pem| server_config(pem, ALPN))?);
        Ok(ServerTls { config, allowed: None })
    }

    /// Lets only clients connect whose certificate has one of these names.
    #[must_use]
    pub fn allow(mut self, names: impl IntoIterator<Item = String>) -> ServerTls {
        self.allowed = Some(names.into_iter().collect());
        self
    }

    /// Makes a connection of a client's stream, and says who the client is.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(server::TlsStream<TcpStream>, Option<Arc<Identity>>), TlsError> {
        let acceptor = TlsAcceptor::from(self.config.current());
        let stream = acceptor.accept(stream).await.map_err(TlsError::Handshake)?;
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(ALPN) {
            return Err(TlsError::NoHttp2);
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let identity = certificate.map(Identity::of);
        if let Some(allowed) = &self.allowed {
            check_allowed(allowed, identity.as_ref())?;
        }
        Ok((stream, identity.map(Arc::new)))
    }
}

impl ClientTls {
    /// From PEM that does not change.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_pem(pem: &Pem) -> Result<ClientTls, TlsError> {
        let config = Arc::new(Reloading::fixed(client_config(pem, ALPN)?));
        Ok(ClientTls { config, server: None })
    }

    /// From files; as [`ServerTls::from_files`].
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_files(files: PemFiles) -> Result<ClientTls, TlsError> {
        let config = Arc::new(Reloading::from_files(files, |pem| client_config(pem, ALPN))?);
        Ok(ClientTls { config, server: None })
    }

    /// Has servers prove that they are `name`, a host's name or an address, in place of the host
    /// that is called: for servers that are called by address.
    #[must_use]
    pub fn server_name(mut self, name: &str) -> ClientTls {
        self.server = Some(name.into());
        self
    }

    /// Makes a connection of a stream to the server that must prove to be `host`, unless there is
    /// another name.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, TlsError> {
        let host = self.server.as_deref().unwrap_or(host);
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| TlsError::Name(host.to_owned()))?;
        let connector = TlsConnector::from(self.config.current());
        let stream = connector.connect(name, stream).await.map_err(TlsError::Handshake)?;
        match stream.get_ref().1.alpn_protocol() {
            Some(ALPN) => Ok(stream),
            _ => Err(TlsError::NoHttp2),
        }
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

fn check_allowed(allowed: &[String], identity: Option<&Identity>) -> Result<(), TlsError> {
    match identity {
        Some(identity) if identity.is_on(allowed) => Ok(()),
        Some(identity) => Err(TlsError::NotAllowed(identity.names.clone())),
        None => Err(TlsError::NotAllowed(Vec::new())),
    }
}
