//! Configurations of clients and servers.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig};

use crate::pem::{CredentialError, Pem, own, roots};

/// The configuration of a server. It must have a certificate. If there are authorities, it requires
/// a certificate from every client.
///
/// # Errors
/// See [`CredentialError`].
pub fn server_config(pem: &Pem, alpn: &[u8]) -> Result<ServerConfig, CredentialError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match &pem.authorities {
        None => builder.with_no_client_auth(),
        Some(_) => {
            let roots = Arc::new(roots(pem)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|_| CredentialError::Pem("authorities"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (chain, key) = own(pem)?.ok_or(CredentialError::Pem("certificate"))?;
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// The configuration of a client. It must have authorities, and a certificate if the server may
/// require one.
///
/// # Errors
/// See [`CredentialError`].
pub fn client_config(pem: &Pem, alpn: &[u8]) -> Result<ClientConfig, CredentialError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots(pem)?);
    let mut config = match own(pem)? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
