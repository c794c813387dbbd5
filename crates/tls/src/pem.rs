//! Certificates, keys and authorities, and where they are.

use std::io;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why certificates and keys cannot be used. The operator's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is not PEM, or has nothing of what belongs there.
    #[error("no {0} in PEM")]
    Pem(&'static str),
    /// Certificate and key do not work, or not with each other.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

/// What TLS needs, in PEM.
#[derive(Clone, Default)]
pub struct Pem {
    /// This end's certificate, followed by those that lead to an authority.
    pub certificate: Option<Vec<u8>>,
    /// The certificate's private key.
    pub key: Option<Vec<u8>>,
    /// The certificates that are trusted to vouch for the peer.
    pub authorities: Option<Vec<u8>>,
}

impl core::fmt::Debug for Pem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Pem")
    }
}

/// Files with what [`Pem`] has.
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

/// This end's certificates and key: both or neither.
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

/// The authorities that `pem` has to name.
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
