//! How servers and channels prove who they are, and to whom they talk.

use std::ffi::c_char;
use std::mem::offset_of;
use std::path::PathBuf;

use petasos::grpc::{ClientTls, ServerTls, TlsError};
use petasos::{Credentials, PemFiles, Security, Status, TlsConfig};

use crate::pointer;

/// Files in PEM, which are read again when they change. Connections are TLS 1.3 then, and packets
/// are sealed. All zeros but `struct_bytes` are the defaults.
///
/// Petasos' own protocol needs certificate, key and authorities at both ends. Over gRPC a channel
/// needs authorities, and a certificate with its key if the server asks for one; a server needs
/// certificate and key, and asks for clients' certificates if it has authorities.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_tls_options {
    /// `sizeof(petasos_tls_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// The file of the authorities that vouch for peers, or null.
    pub authorities_file: *const c_char,
    /// The file of this end's certificate, or null.
    pub certificate_file: *const c_char,
    /// The file of the certificate's private key, or null.
    pub key_file: *const c_char,
    /// A name that peers must have in their certificates: a host's, or a URI over Petasos' own
    /// protocol. Null for any client that the authorities vouch for, and for the host that a
    /// channel calls.
    pub peer_name: *const c_char,
}

impl pointer::Options for petasos_tls_options {
    const FIRST_BYTES: usize = offset_of!(petasos_tls_options, peer_name) + size_of::<*const ()>();
}

/// What the options say.
pub(crate) struct Tls {
    files: PemFiles,
    peer_name: Option<String>,
}

impl Tls {
    /// Of these options, unless they are null.
    ///
    /// # Errors
    /// They are not as they should be: the program's fault.
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

    /// For Petasos' own protocol, at either end.
    ///
    /// # Errors
    /// A file is missing.
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

    /// For channels over gRPC.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub(crate) fn of_grpc_channel(&self) -> Result<ClientTls, Status> {
        let tls = ClientTls::from_files(self.files.clone()).map_err(unusable)?;
        Ok(match &self.peer_name {
            Some(name) => tls.server_name(name),
            None => tls,
        })
    }

    /// For servers of gRPC.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
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
