//! `--tls-cert` and related options: how servers and callers secure their communication.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use petasos::Security;
use petasos::grpc::{ClientTls, ServerTls, TlsError};
use petasos_endpoint::{Credentials, NodeConfig, PemFiles, TlsConfig};

use crate::failure::Failure;

/// Options about encryption and identity.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityArgs {
    /// This process's certificate, in PEM: control connections use TLS, and packets are sealed.
    /// Files are read again when they change.
    #[arg(long, value_name = "FILE", global = true)]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", global = true)]
    tls_key: Option<PathBuf>,
    /// The certificate authorities for peers' certificates, in PEM.
    #[arg(long, value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// A DNS name or URI (such as a SPIFFE id) that a peer's certificate may contain; may be given
    /// several times [default: any peer, but a server's certificate must contain the address that
    /// is called].
    #[arg(long, value_name = "NAME", global = true)]
    allow: Vec<String>,
    /// Allow unencrypted communication beyond this host, where everybody in the network can listen
    /// and call.
    #[arg(long, global = true)]
    plaintext: bool,
}

impl SecurityArgs {
    /// Plaintext everywhere, for two processes of this program.
    pub fn plaintext() -> SecurityArgs {
        SecurityArgs { plaintext: true, ..SecurityArgs::default() }
    }

    /// Whether plaintext is allowed beyond this host.
    pub fn is_plaintext(&self) -> bool {
        self.plaintext
    }

    /// The same options as command-line words, for another process of this program on this host.
    pub fn words(&self) -> Vec<OsString> {
        let files = [
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--tls-ca", &self.tls_ca),
        ];
        let files = files.into_iter().filter_map(|(option, file)| {
            Some([OsString::from(option), file.as_ref()?.clone().into_os_string()])
        });
        let names = self.allow.iter().map(|name| ["--allow".into(), name.into()]);
        let plaintext = self.plaintext.then(|| "--plaintext".into());
        files.chain(names).flatten().chain(plaintext).collect()
    }

    /// Adds the settings to those of a node.
    ///
    /// # Errors
    /// If an option requires another one that is missing.
    pub fn apply(&self, config: NodeConfig) -> Result<NodeConfig, Failure> {
        Ok(NodeConfig { plaintext: self.plaintext, tls: self.tls()?, ..config })
    }

    /// The settings of a channel over datagrams.
    ///
    /// # Errors
    /// If an option requires another one that is missing.
    pub fn of_channel(&self) -> Result<Security, Failure> {
        Ok(match self.tls()? {
            Some(tls) => Security::Tls(tls),
            None if self.plaintext => Security::Plaintext,
            None => Security::Loopback,
        })
    }

    /// The settings of a channel over gRPC: certificate authorities, and a certificate if the
    /// server requires one.
    ///
    /// # Errors
    /// If an option requires another one that is missing, if options contradict each other, or if a
    /// file is unusable.
    pub fn of_grpc(&self) -> Result<ClientTls, Failure> {
        let files = self.files();
        if files.authorities.is_none() {
            let advice = "give --tls-ca with the authorities that vouch for the server";
            return Err(Failure::with_advice("grpcs:// trusts nobody by itself", advice));
        }
        if files.certificate.is_some() != files.key.is_some() {
            let advice = "give --tls-cert and --tls-key together";
            return Err(Failure::with_advice("a certificate takes its key", advice));
        }
        if self.plaintext || !self.allow.is_empty() {
            let advice = "leave --plaintext and --allow away";
            return Err(Failure::with_advice("grpcs:// needs the name that is called", advice));
        }
        ClientTls::from_files(files).map_err(|error: TlsError| {
            Failure::with_advice(error, "check what --tls-ca, --tls-cert and --tls-key name")
        })
    }

    /// The settings of a gRPC port: if files are given, TLS with client certificates from the
    /// authorities.
    ///
    /// # Errors
    /// If an option requires another one that is missing, or a file is unusable.
    pub fn of_grpc_server(&self) -> Result<Option<ServerTls>, Failure> {
        let Some(TlsConfig { allow, .. }) = self.tls()? else { return Ok(None) };
        let tls = ServerTls::from_files(self.files()).map_err(|error: TlsError| {
            Failure::with_advice(error, "check what --tls-ca, --tls-cert and --tls-key name")
        })?;
        Ok(Some(match allow {
            Some(names) => tls.allow(names),
            None => tls,
        }))
    }

    fn files(&self) -> PemFiles {
        PemFiles {
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            authorities: self.tls_ca.clone(),
        }
    }

    /// TLS for datagrams, where both ends have certificates; `None` without certificates.
    fn tls(&self) -> Result<Option<TlsConfig>, Failure> {
        let files = self.files();
        let allow = (!self.allow.is_empty()).then(|| self.allow.clone());
        let given = [&files.certificate, &files.key, &files.authorities].map(Option::is_some);
        match given {
            [false, false, false] if allow.is_some() => Err(Failure::with_advice(
                "--allow names nobody without certificates",
                "add --tls-cert, --tls-key and --tls-ca, or leave it away",
            )),
            [false, false, false] => Ok(None),
            [true, true, true] if self.plaintext => Err(Failure::with_advice(
                "--plaintext and --tls-cert contradict each other",
                "leave one of them away",
            )),
            [true, true, true] => {
                Ok(Some(TlsConfig { credentials: Credentials::Files(files), allow }))
            }
            _ => Err(Failure::with_advice(
                "TLS takes a certificate, its key and the authorities that vouch for peers",
                "give --tls-cert, --tls-key and --tls-ca together",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(args: &SecurityArgs) -> Result<NodeConfig, String> {
        args.apply(NodeConfig::default()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn plaintext_takes_consent_and_tls_takes_three_files() {
        assert!(!applied(&SecurityArgs::default()).unwrap().plaintext);
        assert!(applied(&SecurityArgs::plaintext()).unwrap().plaintext);
        let file = || Some(PathBuf::from("f"));
        let all = SecurityArgs {
            tls_cert: file(),
            tls_key: file(),
            tls_ca: file(),
            allow: vec!["a".to_owned()],
            plaintext: false,
        };
        let tls = applied(&all).unwrap().tls.expect("it was asked for");
        assert_eq!(tls.allow.as_deref(), Some(&["a".to_owned()][..]));
        let words = ["--tls-cert", "f", "--tls-key", "f", "--tls-ca", "f", "--allow", "a"];
        assert_eq!(all.words(), words);
        assert_eq!(SecurityArgs::plaintext().words(), ["--plaintext"]);
        let wanting = SecurityArgs { tls_key: None, ..all.clone() };
        assert!(applied(&wanting).unwrap_err().contains("--tls-cert, --tls-key and --tls-ca"));
        let both = SecurityArgs { plaintext: true, ..all };
        assert!(applied(&both).unwrap_err().contains("contradict"));
        let alone = SecurityArgs { allow: vec!["a".to_owned()], ..SecurityArgs::default() };
        assert!(applied(&alone).unwrap_err().starts_with("--allow"));
    }
}
