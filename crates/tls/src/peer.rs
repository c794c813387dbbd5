//! TLS between processes that are clients and servers of each other (C16, C18).

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::config::provider;
use crate::listed::{Allowed, ListedClients, ListedServers};
use crate::pem::{CredentialError, Pem, PemFiles, own, roots};
use crate::reload::Reloading;

/// The TLS configuration of a process in both roles. Both ends of every connection prove their
/// identity.
pub struct PeerTls {
    configs: Reloading<Configs>,
}

struct Configs {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl PeerTls {
    /// Makes it from PEM that does not change. `allowed` lists the names of peers. Without a list,
    /// every peer with a certificate from an authority is allowed, but a server's certificate must
    /// contain its address.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn from_pem(
        pem: &Pem,
        alpn: &'static [u8],
        allowed: Option<Vec<String>>,
    ) -> Result<PeerTls, CredentialError> {
        let configs = Configs::new(pem, alpn, allowed.map(Allowed::from).as_ref())?;
        Ok(PeerTls { configs: Reloading::fixed(configs) })
    }

    /// Makes it from files, which are checked for changes at most once a second. If new content is
    /// unusable, this is logged, and the old content stays in use.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn from_files(
        files: PemFiles,
        alpn: &'static [u8],
        allowed: Option<Vec<String>>,
    ) -> Result<PeerTls, CredentialError> {
        let allowed = allowed.map(Allowed::from);
        let make = move |pem: &Pem| Configs::new(pem, alpn, allowed.as_ref());
        Ok(PeerTls { configs: Reloading::from_files(files, make)? })
    }

    /// The connection of a process that has connected to the one at `address`.
    pub fn dial(&self, address: IpAddr) -> ClientConnection {
        let config = self.configs.current().client.clone();
        let connection = ClientConnection::new(config, address.into());
        connection.expect("the provider has a suite and a group for TLS 1.3")
    }

    /// The connection of a process that another one has connected to.
    pub fn accept(&self) -> ServerConnection {
        let connection = ServerConnection::new(self.configs.current().server.clone());
        connection.expect("the provider has a suite and a group for TLS 1.3")
    }
}

impl core::fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PeerTls")
    }
}

impl Configs {
    fn new(pem: &Pem, alpn: &[u8], allowed: Option<&Allowed>) -> Result<Configs, CredentialError> {
        let alpn_protocols = vec![alpn.to_vec()];
        let (mut server, mut client) = (server(pem, allowed)?, client(pem, allowed)?);
        server.alpn_protocols.clone_from(&alpn_protocols);
        client.alpn_protocols = alpn_protocols;
        // Each connection proves the identities again (C16).
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        client.resumption = Resumption::disabled();
        Ok(Configs { server: Arc::new(server), client: Arc::new(client) })
    }
}

fn server(pem: &Pem, allowed: Option<&Allowed>) -> Result<ServerConfig, CredentialError> {
    let (roots, provider) = (Arc::new(roots(pem)?), peer_provider());
    let inner = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
    let inner = inner.map_err(|_| CredentialError::Pem("authorities"))?;
    let verifier = match allowed {
        None => inner,
        Some(allowed) => Arc::new(ListedClients { inner, allowed: allowed.clone() }),
    };
    let (chain, key) = own(pem)?.ok_or(CredentialError::Pem("certificate"))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(config)
}

fn client(pem: &Pem, allowed: Option<&Allowed>) -> Result<ClientConfig, CredentialError> {
    let (roots, provider) = (Arc::new(roots(pem)?), peer_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
    let inner = inner.build().map_err(|_| CredentialError::Pem("authorities"))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match allowed {
        None => builder.with_webpki_verifier(inner),
        Some(allowed) => {
            let verifier = ListedServers { inner, roots, allowed: allowed.clone() };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let (chain, key) = own(pem)?.ok_or(CredentialError::Pem("certificate"))?;
    Ok(builder.with_client_auth_cert(chain, key)?)
}

/// A provider with the two cipher suites of C16; first the one that is fast on this processor.
fn peer_provider() -> Arc<CryptoProvider> {
    let mut cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256];
    if !has_aes() {
        cipher_suites.reverse();
    }
    let provider = Arc::unwrap_or_clone(provider());
    Arc::new(CryptoProvider { cipher_suites, ..provider })
}

fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
