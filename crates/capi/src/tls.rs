//! Authentication of servers and channels.

use std::ffi::c_char;
use std::path::PathBuf;

use petasos::grpc::{ClientTls, ServerTls, TlsError};
use petasos::{Credentials, PemFiles, Security, Status, TlsConfig};

use crate::pointer;

/// PEM files, which are read again when they change. With them, connections use TLS 1.3, and
/// packets are sealed. Zeros in all fields but `struct_bytes` are the defaults.
///
/// Petasos' own protocol needs a certificate, a key and authorities at both ends. Over gRPC a
/// channel needs authorities, and a certificate with its key if the server asks for one. A gRPC
/// server needs a certificate and a key, and asks for clients' certificates if it has authorities.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_tls_options {
    /// `sizeof(petasos_tls_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// The file with the certificate authorities for peers, or null.
    pub authorities_file: *const c_char,
    /// The file of this end's certificate, or null.
    pub certificate_file: *const c_char,
    /// The file of the certificate's private key, or null.
    pub key_file: *const c_char,
    /// A name that a peer's certificate must contain: a host name, or a URI with Petasos' own
    /// protocol. Null allows any client with a certificate from the authorities, and requires the
    /// called host for servers.
    pub peer_name: *const c_char,
}

impl pointer::Options for petasos_tls_options {
    const EARLIER_BYTES: &'static [usize] = &[];
}

/// The parsed options.
pub(crate) struct Tls {
    files: PemFiles,
    peer_name: Option<String>,
}

impl Tls {
    /// Parses the options; `None` if they are null.
    ///
    /// # Errors
    /// They are invalid: the program's fault.
    ///
    /// # Safety
    /// They are null or valid, with texts that end with zeros.
    pub(crate) unsafe fn read(options: *const petasos_tls_options) -> Result<Option<Tls>, Status> {
        // SAFETY: the caller's promise.
        let Some(options) = (unsafe { pointer::options(options)? }) else { return Ok(None) };
        let file = |name, what| {
            // SAFETY: the caller's promise.
            unsafe { pointer::some_text(name, what) }.map(|name| name.map(PathBuf::from))
        };
        let files = PemFiles {
            authorities: file(options.authorities_file, "the authorities' file")?,
            certificate: file(options.certificate_file, "the certificate's file")?,
            key: file(options.key_file, "the key's file")?,
        };
        if files.certificate.is_some() != files.key.is_some() {
            return Err(Status::invalid_argument(
                "a certificate needs its key, and a key needs it",
            ));
        }
        // SAFETY: the caller's promise.
        let peer_name = unsafe { pointer::some_text(options.peer_name, "the peer's name")? };
        Ok(Some(Tls { files, peer_name: peer_name.map(str::to_owned) }))
    }

    /// The security settings for Petasos' own protocol, at either end.
    ///
    /// # Errors
    /// A required file is not set.
    pub(crate) fn security(&self) -> Result<Security, Status> {
        let PemFiles { authorities, certificate, key } = &self.files;
        if [authorities, certificate, key].into_iter().any(Option::is_none) {
            let text = "this protocol needs authorities, a certificate and its key";
            return Err(Status::invalid_argument(text));
        }
        let credentials = Credentials::Files(self.files.clone());
        let allow = self.peer_name.clone().map(|name| vec![name]);
        Ok(Security::Tls(TlsConfig { credentials, allow }))
    }

    /// The TLS settings of gRPC channels.
    ///
    /// # Errors
    /// A file is not set or unusable.
    pub(crate) fn of_grpc_channel(&self) -> Result<ClientTls, Status> {
        let tls = ClientTls::from_files(self.files.clone()).map_err(unusable)?;
        Ok(match &self.peer_name {
            Some(name) => tls.server_name(name),
            None => tls,
        })
    }

    /// The TLS settings of gRPC servers.
    ///
    /// # Errors
    /// A file is not set or unusable.
    pub(crate) fn of_grpc_server(&self) -> Result<ServerTls, Status> {
        let tls = ServerTls::from_files(self.files.clone()).map_err(unusable)?;
        Ok(match &self.peer_name {
            Some(name) => tls.allow([name.clone()]),
            None => tls,
        })
    }
}

fn unusable(error: TlsError) -> Status {
    Status::invalid_argument(error.to_string())
}
