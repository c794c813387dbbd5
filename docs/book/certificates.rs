//! Certificates for the chapter on security. A deployment has them from an authority of its own.

use std::net::{IpAddr, Ipv4Addr};

use petasos::Pem;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there are random numbers");
        Authority(CertifiedIssuer::self_signed(params, key).expect("the parameters are good"))
    }
}

impl Authority {
    /// A certificate for `name` at 127.0.0.1, with its key, and who vouches for it.
    ///
    /// # Panics
    /// If the name is none of DNS.
    pub fn certify(&self, name: &str) -> Pem {
        let name = SanType::DnsName(name.try_into().expect("names are ASCII"));
        let address = SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name, address];
        let key = KeyPair::generate().expect("there are random numbers");
        let certificate = params.signed_by(&key, &self.0).expect("the parameters are good");
        Pem {
            certificate: Some(certificate.pem().into_bytes()),
            key: Some(key.serialize_pem().into_bytes()),
            authorities: Some(self.0.pem().into_bytes()),
        }
    }
}
