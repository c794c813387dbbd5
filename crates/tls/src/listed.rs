//! Certificate verifiers with an allow-list (C18).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use crate::config::provider;
use crate::identity::Identity;

/// The names of allowed peers.
pub(crate) type Allowed = Arc<[String]>;

fn check(allowed: &[String], certificate: &CertificateDer<'_>) -> Result<(), Error> {
    let identity = Identity::of(certificate);
    if identity.is_on(allowed) {
        return Ok(());
    }
    tracing::warn!(names = ?identity.names, "a peer is not on the allow-list");
    Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
}

/// For clients: the checks of `inner`, and a name on the list.
#[derive(Debug)]
pub(crate) struct ListedClients {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) allowed: Allowed,
}

impl ClientCertVerifier for ListedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(certificate, intermediates, now)?;
        check(&self.allowed, certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// For servers: a chain to an authority, and a name on the list instead of the dialled address.
#[derive(Debug)]
pub(crate) struct ListedServers {
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) allowed: Allowed,
}

impl ServerCertVerifier for ListedServers {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        check(&self.allowed, certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
