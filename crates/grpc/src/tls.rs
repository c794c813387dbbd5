//! TLS 1.3 for connections. Both ends offer and require HTTP/2 (ALPN).
//!
//! A server with authorities requires a certificate from every client; an allow-list then says
//! which names may call. `petasos_tls` handles certificates.

use std::io;
use std::sync::Arc;

use petasos_tls::{Identity, Reloading, client_config, server_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub use petasos_tls::{CredentialError, Pem, PemFiles};

const ALPN: &[u8] = b"h2";

/// Why TLS cannot be used, or a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or keys are unusable; the operator's fault.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// The handshake failed: an end does not trust the other, or does not speak TLS 1.3.
    #[error("the handshake failed: {0}")]
    Handshake(io::Error),
    /// The peer does not speak HTTP/2.
    #[error("the peer did not agree to HTTP/2")]
    NoHttp2,
    /// No name in the peer's certificate is on the allow-list.
    #[error("the peer {0:?} is not on the allow-list")]
    NotAllowed(Vec<String>),
    /// This cannot be a server's name; the caller's fault.
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
    /// The name that servers must prove, if not the host that is called.
    server: Option<Arc<str>>,
}

impl ServerTls {
    /// Loads certificates and keys from PEM text, which does not change.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_pem(pem: &Pem) -> Result<ServerTls, TlsError> {
        let config = Arc::new(Reloading::fixed(server_config(pem, ALPN)?));
        Ok(ServerTls { config, allowed: None })
    }

    /// Loads certificates and keys from files. The files are checked for changes at most once a
    /// second. If new contents are unusable, that is logged and the old ones stay in use.
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

    /// Performs the handshake on a client's stream, and returns the client's identity.
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
    /// Loads certificates and keys from PEM text, which does not change.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_pem(pem: &Pem) -> Result<ClientTls, TlsError> {
        let config = Arc::new(Reloading::fixed(client_config(pem, ALPN)?));
        Ok(ClientTls { config, server: None })
    }

    /// Loads certificates and keys from files, as [`ServerTls::from_files`] does.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn from_files(files: PemFiles) -> Result<ClientTls, TlsError> {
        let config = Arc::new(Reloading::from_files(files, |pem| client_config(pem, ALPN))?);
        Ok(ClientTls { config, server: None })
    }

    /// Sets the name that servers must prove, a host's name or an address, instead of the host that
    /// is called. For servers that are called by address.
    #[must_use]
    pub fn server_name(mut self, name: &str) -> ClientTls {
        self.server = Some(name.into());
        self
    }

    /// Performs the handshake on a stream to the server, which must prove that it is `host`, unless
    /// another name is set.
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
