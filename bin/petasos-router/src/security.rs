//! How a group is secured: TLS for its control connections, with which its packets are sealed, and
//! who may be what.

use std::path::PathBuf;

use clap::Args;
use petasos_endpoint::{Credentials, NodeConfig, PemFiles, TlsConfig};
use petasos_router_control::{Cipher, GroupSettings, Workers};

/// Options about encryption and identity. Those of the same name mean the same to `petasos serve`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityOptions {
    /// The router's certificate, in PEM: control connections use TLS, and packets are sealed. Files
    /// are read again when they change
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// The certificate authorities for members' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// A DNS name or URI that a member's certificate has to contain; may be repeated [default: any]
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<String>,

    /// What seals packets: aes-128-gcm, or chacha20-poly1305 for processors without AES
    #[arg(long, value_name = "CIPHER", default_value = "aes-128-gcm")]
    pub cipher: String,

    /// Listen beyond this host without TLS: anyone on the network can read and forge calls
    #[arg(long)]
    pub plaintext: bool,
}

impl SecurityOptions {
    /// Whether there are certificates.
    pub fn has_tls(&self) -> bool {
        self.tls_cert.is_some() || self.tls_key.is_some() || self.tls_ca.is_some()
    }

    /// Whether packets beyond this host are sealed, or may be in plaintext.
    pub fn may_leave_host(&self) -> bool {
        self.plaintext || self.has_tls()
    }

    /// Adds what they say to the settings of a group.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn of_group(&self, settings: &mut GroupSettings) -> Result<(), String> {
        let Workers { allowed, primaries } = &settings.workers;
        if (allowed.is_some() || primaries.is_some()) && !self.has_tls() {
            return Err("workers have no names without tls_cert, tls_key and tls_ca".to_owned());
        }
        settings.cipher = match self.cipher.as_str() {
            "" | "aes-128-gcm" => Cipher::Aes128Gcm,
            "chacha20-poly1305" => Cipher::ChaCha20Poly1305,
            other => {
                return Err(format!("cipher: {other} is not aes-128-gcm or chacha20-poly1305"));
            }
        };
        Ok(())
    }

    /// Adds what they say to the settings of a node.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn of_node(&self, config: NodeConfig) -> Result<NodeConfig, String> {
        let files = PemFiles {
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            authorities: self.tls_ca.clone(),
        };
        let given = [&files.certificate, &files.key, &files.authorities].map(Option::is_some);
        let allow = (!self.allow.is_empty()).then(|| self.allow.clone());
        let tls = match given {
            [false, false, false] if allow.is_some() => {
                return Err("allow names nobody without tls_cert, tls_key and tls_ca".to_owned());
            }
            [false, false, false] => None,
            [true, true, true] if self.plaintext => {
                return Err("plaintext and tls_cert contradict each other".to_owned());
            }
            [true, true, true] => Some(TlsConfig { credentials: Credentials::Files(files), allow }),
            _ => return Err("give tls_cert, tls_key and tls_ca together".to_owned()),
        };
        Ok(NodeConfig { tls, plaintext: self.plaintext, ..config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(options: &SecurityOptions) -> Result<NodeConfig, String> {
        options.of_node(NodeConfig::default())
    }

    #[test]
    fn tls_takes_three_files_and_names_take_tls() {
        let file = || Some(PathBuf::from("x.pem"));
        let none = SecurityOptions::default();
        assert!(node(&none).is_ok_and(|it| it.tls.is_none() && !it.plaintext));
        let part = SecurityOptions { tls_cert: file(), tls_key: file(), ..none.clone() };
        assert!(node(&part).is_err());
        let all = SecurityOptions { tls_ca: file(), ..part };
        assert!(node(&all).is_ok_and(|it| it.tls.is_some()));
        assert!(node(&SecurityOptions { plaintext: true, ..all.clone() }).is_err());
        assert!(node(&SecurityOptions { allow: vec!["a".into()], ..none.clone() }).is_err());
        let workers = Workers { allowed: Some(vec!["a".into()]), primaries: None };
        let mut settings = GroupSettings { workers, ..GroupSettings::default() };
        assert!(none.of_group(&mut settings).is_err());
        all.of_group(&mut settings).expect("it is right");
        let wrong = SecurityOptions { cipher: "rot13".into(), ..all };
        assert!(wrong.of_group(&mut settings).is_err());
    }
}
