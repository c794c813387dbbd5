//! The certificates of a measurement over TLS: an authority, and one certificate for all processes.
//! The parent makes them, and passes them to its children in the environment.

use std::process::Command;

use petasos::grpc::ServerTls;
use petasos::{Credentials, Pem, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde::{Deserialize, Serialize};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::error::BenchError;

/// The server's address in the certificates.
pub const HOST: &str = "127.0.0.1";
/// The environment variable for children.
const VARIABLE: &str = "PETASOS_BENCH_RPC_CERTIFICATES";

/// Certificates and a key, in PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// Makes new certificates, which only this measurement trusts.
    pub fn new() -> Result<Certificates, BenchError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([HOST.to_owned()])?.signed_by(&key, &authority)?;
        let (authority, certificate) = (authority.pem(), certificate.pem());
        Ok(Certificates { authority, certificate, key: key.serialize_pem() })
    }

    /// The certificates that this process inherited.
    pub fn handed() -> Result<Certificates, BenchError> {
        let text = std::env::var(VARIABLE).map_err(|_| format!("{VARIABLE} is not set"))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Passes them to a child.
    pub fn hand_to(&self, child: &mut Command) -> Result<(), BenchError> {
        child.env(VARIABLE, serde_json::to_string(self)?);
        Ok(())
    }

    /// The TLS settings for Petasos over datagrams, at either end.
    pub fn datagrams(&self) -> TlsConfig {
        TlsConfig { credentials: Credentials::Pem(self.pem()), allow: None }
    }

    /// The TLS settings for Petasos's gRPC port. Like tonic's, it requires client certificates.
    pub fn grpc_server(&self) -> Result<ServerTls, BenchError> {
        Ok(ServerTls::from_pem(&self.pem())?)
    }

    /// The TLS settings for tonic's server.
    pub fn tonic_server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.identity()).client_ca_root(self.root())
    }

    /// The TLS settings for tonic's client.
    pub fn tonic_client(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().domain_name(HOST).assume_http2(true);
        config.identity(self.identity()).ca_certificate(self.root())
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }

    fn root(&self) -> Certificate {
        Certificate::from_pem(&self.authority)
    }

    fn pem(&self) -> Pem {
        Pem {
            certificate: Some(self.certificate.clone().into_bytes()),
            key: Some(self.key.clone().into_bytes()),
            authorities: Some(self.authority.clone().into_bytes()),
        }
    }
}
