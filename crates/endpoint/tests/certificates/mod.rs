//! Authorities and certificates made for a test.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use petasos_endpoint::{Credentials, Node, NodeConfig, NodeError, Pem, PemFiles, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("there are random numbers");
        Authority(CertifiedIssuer::self_signed(params, key).expect("the parameters are good"))
    }

    /// A certificate for `name` at 127.0.0.1, whose holder trusts the same authority's others.
    pub fn pem(&self, name: &str) -> Pem {
        self.pem_with(name, |_| {})
    }

    pub fn expired(&self, name: &str) -> Pem {
        self.pem_with(name, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1))
    }

    /// The same with other parameters.
    pub fn pem_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pem {
        let mut params = CertificateParams::default();
        let text = name.try_into().expect("names are ASCII");
        let name = if name.contains("://") { SanType::URI(text) } else { SanType::DnsName(text) };
        params.subject_alt_names = vec![name, SanType::IpAddress(LOCALHOST)];
        change(&mut params);
        let key = KeyPair::generate().expect("there are random numbers");
        let certificate = params.signed_by(&key, &self.0).expect("the parameters are good");
        Pem {
            certificate: Some(certificate.pem().into_bytes()),
            key: Some(key.serialize_pem().into_bytes()),
            authorities: Some(self.0.pem().into_bytes()),
        }
    }

    /// The same certificate, held by one who trusts another authority.
    pub fn trusted_by(&self, pem: Pem) -> Pem {
        Pem { authorities: Some(self.0.pem().into_bytes()), ..pem }
    }
}

/// A node with these credentials, and a list if one is given.
pub fn start(
    listens: bool,
    credentials: Credentials,
    allow: Option<&[&str]>,
) -> Result<Node, NodeError> {
    let allow = allow.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let listen = listens.then(|| (LOCALHOST, 0).into());
    let tls = Some(TlsConfig { credentials, allow });
    Node::start(NodeConfig { listen, tls, ..NodeConfig::default() })
}

pub fn secured_node(listens: bool, pem: Pem, allow: Option<&[&str]>) -> Node {
    start(listens, Credentials::Pem(pem), allow).expect("the certificate is good")
}

/// A folder of its own, removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("petasos-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("there is room for temporary files");
        Folder(path)
    }

    /// Writes certificate, key and authorities into files.
    pub fn write(&self, pem: &Pem) -> PemFiles {
        let file = |name: &str, contents: &Option<Vec<u8>>| {
            let path = self.0.join(name);
            let contents = contents.as_deref().expect("all three are there");
            std::fs::write(&path, contents).expect("there is room for temporary files");
            Some(path)
        };
        PemFiles {
            certificate: file("certificate", &pem.certificate),
            key: file("key", &pem.key),
            authorities: file("authorities", &pem.authorities),
        }
    }

    /// The files that are there.
    pub fn files(path: &Path) -> PemFiles {
        let file = |name: &str| Some(path.join(name));
        PemFiles {
            certificate: file("certificate"),
            key: file("key"),
            authorities: file("authorities"),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
