//! TLS 1.3 for browsers: the server proves itself, clients do not.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use petasos_tls::{PemFiles, Reloading, server_config};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use petasos_tls::CredentialError;

const ALPN: &[u8] = b"http/1.1";

/// A server's side of TLS. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Reloading<ServerConfig>>);

impl Tls {
    /// Loads a certificate and its key from PEM files, which are read again when they change.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn from_files(certificate: PathBuf, key: PathBuf) -> Result<Tls, CredentialError> {
        let (certificate, key) = (Some(certificate), Some(key));
        let files = PemFiles { certificate, key, authorities: None };
        let config = Reloading::from_files(files, |pem| server_config(pem, ALPN))?;
        Ok(Tls(Arc::new(config)))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.current()).accept(stream).await
    }
}
