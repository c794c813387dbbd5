//! How calls to and from other hosts are secured.

use std::path::PathBuf;

use clap::Args;
use petasos::{Credentials, PemFiles, Security, TlsConfig};

/// Options about encryption and identity, as those of `petasos serve`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityOptions {
    /// The service's certificate, in PEM: control connections to other hosts use TLS, and packets
    /// are sealed. Files are read again when they change.
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The certificate authorities for peers' certificates, in PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// A DNS name or URI that a peer's certificate may contain; may be given several times
    /// [default: any peer, but a server's certificate must contain the address that is called].
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<String>,
    /// Allow unencrypted communication beyond this host, where everybody in the network can listen
    /// and call.
    #[arg(long)]
    pub plaintext: bool,
}

impl SecurityOptions {
    /// What they ask for.
    ///
    /// # Errors
    /// Options that contradict each other, or that need one that is missing.
    pub fn security(&self) -> Result<Security, String> {
        let files = PemFiles {
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            authorities: self.tls_ca.clone(),
        };
        let given = [&files.certificate, &files.key, &files.authorities].map(Option::is_some);
        match given {
            [false, false, false] if !self.allow.is_empty() => {
                Err("--allow names nobody without --tls-cert, --tls-key and --tls-ca".to_owned())
            }
            [false, false, false] if self.plaintext => Ok(Security::Plaintext),
            [false, false, false] => Ok(Security::Loopback),
            [true, true, true] if self.plaintext => {
                Err("--plaintext and --tls-cert contradict each other".to_owned())
            }
            [true, true, true] => {
                let allow = (!self.allow.is_empty()).then(|| self.allow.clone());
                Ok(Security::Tls(TlsConfig { credentials: Credentials::Files(files), allow }))
            }
            _ => Err("give --tls-cert, --tls-key and --tls-ca together".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_takes_three_files_and_plaintext_is_asked_for() {
        let file = || Some(PathBuf::from("x.pem"));
        let none = SecurityOptions::default();
        assert!(matches!(none.security(), Ok(Security::Loopback)));
        let plaintext = SecurityOptions { plaintext: true, ..none.clone() };
        assert!(matches!(plaintext.security(), Ok(Security::Plaintext)));
        let part = SecurityOptions { tls_cert: file(), tls_key: file(), ..none.clone() };
        assert!(part.security().is_err());
        let all = SecurityOptions { tls_ca: file(), ..part };
        assert!(matches!(all.security(), Ok(Security::Tls(_))));
        assert!(SecurityOptions { plaintext: true, ..all }.security().is_err());
        assert!(SecurityOptions { allow: vec!["a".to_owned()], ..none }.security().is_err());
    }
}
