//! The identity of a peer.

use rustls::pki_types::CertificateDer;

/// What a peer has proved with its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The names in the certificate: DNS names, and URIs such as SPIFFE ids.
    pub names: Vec<String>,
    /// The certificate itself, in DER.
    pub certificate: Vec<u8>,
}

impl Identity {
    /// The names in a verified certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Identity {
        let mut names = Vec::new();
        if let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) {
            names.extend(parsed.valid_dns_names().map(str::to_owned));
            names.extend(parsed.valid_uri_names().map(str::to_owned));
        }
        Identity { names, certificate: certificate.to_vec() }
    }

    /// Whether one of the names is on `list`.
    pub fn is_on(&self, list: &[String]) -> bool {
        self.names.iter().any(|name| list.contains(name))
    }
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Identity").field("names", &self.names).finish_non_exhaustive()
    }
}
