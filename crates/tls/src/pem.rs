//! Certificates, keys and authorities, and their files.

use std::io;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why certificates or keys are unusable. The operator's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The data are not PEM, or do not contain the expected kind of item.
    #[error("no {0} in PEM")]
    Pem(&'static str),
    /// The certificate or the key is invalid, or they do not match.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

/// The credentials for TLS, in PEM.
#[derive(Clone, Default)]
pub struct Pem {
    /// This end's certificate, followed by the chain to an authority.
    pub certificate: Option<Vec<u8>>,
    /// The certificate's private key.
    pub key: Option<Vec<u8>>,
    /// The certificates of the authorities that are trusted for peers.
    pub authorities: Option<Vec<u8>>,
}

impl core::fmt::Debug for Pem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Pem")
    }
}

/// The files for [`Pem`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PemFiles {
    /// See [`Pem::certificate`].
    pub certificate: Option<PathBuf>,
    /// See [`Pem::key`].
    pub key: Option<PathBuf>,
    /// See [`Pem::authorities`].
    pub authorities: Option<PathBuf>,
}

impl PemFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`CredentialError::File`].
    pub fn read(&self) -> Result<Pem, CredentialError> {
        Ok(Pem {
            certificate: read(self.certificate.as_deref())?,
            key: read(self.key.as_deref())?,
            authorities: read(self.authorities.as_deref())?,
        })
    }
}

fn read(path: Option<&Path>) -> Result<Option<Vec<u8>>, CredentialError> {
    let Some(path) = path else { return Ok(None) };
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => Err(CredentialError::File { path: path.to_owned(), error }),
    }
}

pub(crate) type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// This end's certificate chain and key: both or neither.
pub(crate) fn own(pem: &Pem) -> Result<Option<Own>, CredentialError> {
    let (certificate, key) = match (&pem.certificate, &pem.key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (None, Some(_)) => return Err(CredentialError::Pem("certificate")),
        (Some(_), None) => return Err(CredentialError::Pem("private key")),
    };
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| CredentialError::Pem("private key"))?;
    Ok(Some((certificates(certificate, "certificate")?, key)))
}

/// The authorities in `pem`, which must be present.
pub(crate) fn roots(pem: &Pem) -> Result<RootCertStore, CredentialError> {
    let authorities = pem.authorities.as_ref().ok_or(CredentialError::Pem("authorities"))?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities, "authorities")? {
        roots.add(authority)?;
    }
    Ok(roots)
}

fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.ok().filter(|found| !found.is_empty()).ok_or(CredentialError::Pem(what))
}
