//! TLS between a link's socket and its control connection (C16).
//!
//! [`Tls`] converts the socket's bytes to the connection's and back. The connection only receives
//! bytes from a peer that has proved its identity: `rustls` returns none before.

use std::io::{self, Read, Write};
use std::sync::Arc;

use petasos_seal::{Cipher, SECRET_BYTES, SessionSecret};
use petasos_tls::{HandshakeFailure, Identity};
use rustls::{CipherSuite, Connection};

use crate::secure::SessionSecurity;

/// See C19.
const LABEL: &[u8] = b"EXPORTER-petasos-data";
const CONTEXT_BYTES: usize = 1 + 8 + 4;

/// Which process of a link dialled it, from a session's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialler {
    /// The one with the session's client end.
    Client = 0,
    /// The one with the session's server end.
    Server = 1,
}

pub(super) struct Tls {
    connection: Connection,
    /// The peer's identity, once proved.
    identity: Option<Arc<Identity>>,
    /// Once TLS has failed, all input is discarded.
    failure: Option<HandshakeFailure>,
    /// Likewise: after its goodbye, rustls does not expect that it fails.
    is_closed: bool,
}

impl Tls {
    pub(super) fn new(connection: impl Into<Connection>) -> Tls {
        Tls { connection: connection.into(), identity: None, failure: None, is_closed: false }
    }

    /// Why TLS has failed, if it has.
    pub(super) fn failure(&self) -> Option<&HandshakeFailure> {
        self.failure.as_ref()
    }

    /// Reads what the socket has, up to some 16 KiB. Returns how many bytes; 0 is the end of the
    /// stream.
    pub(super) fn read_from(&mut self, socket: &mut impl Read) -> io::Result<usize> {
        if self.failure.is_some() || self.is_closed {
            return socket.read(&mut [0; 4096]);
        }
        let count = self.connection.read_tls(socket)?;
        if count == 0 {
            if self.connection.is_handshaking() {
                self.failure = Some(HandshakeFailure::Ended);
            }
            return Ok(0);
        }
        if let Err(error) = self.connection.process_new_packets() {
            self.failure = Some(HandshakeFailure::from(&error));
        }
        Ok(count)
    }

    /// Takes the next bytes from the peer for the control connection; 0 if there are none at the
    /// moment.
    pub(super) fn take(&mut self, plain: &mut [u8]) -> usize {
        // The end of the stream is detected at the socket as well.
        self.connection.reader().read(plain).unwrap_or(0)
    }

    /// Accepts output of the control connection. Returns how many bytes; the rest has to wait.
    pub(super) fn give(&mut self, plain: &[u8]) -> usize {
        // Writing to memory does not fail.
        self.connection.writer().write(plain).unwrap_or(0)
    }

    /// Whether there are bytes to be written to the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes waiting bytes to the socket. Returns whether the socket accepted all of them.
    pub(super) fn write_to(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says goodbye: nothing more is sent.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.connection.send_close_notify();
    }

    /// The security of a session whose connect had this id and tag (C19). `None` before the end of
    /// the handshake, when there are no sessions.
    pub(super) fn security(
        &mut self,
        dialler: Dialler,
        connect_id: u64,
        client_tag: u32,
    ) -> Option<SessionSecurity> {
        let identity = self.identity()?;
        let cipher = match self.connection.negotiated_cipher_suite()?.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Cipher::Aes128Gcm,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Cipher::ChaCha20Poly1305,
            _ => return None,
        };
        let mut context = [0; CONTEXT_BYTES];
        context[0] = dialler as u8;
        context[1..9].copy_from_slice(&connect_id.to_le_bytes());
        context[9..].copy_from_slice(&client_tag.to_le_bytes());
        let exported = [0; SECRET_BYTES];
        let exported = self.connection.export_keying_material(exported, LABEL, Some(&context));
        Some(SessionSecurity { identity, secret: SessionSecret::new(cipher, exported.ok()?) })
    }

    /// The identity that the peer has proved.
    pub(super) fn identity(&mut self) -> Option<Arc<Identity>> {
        if self.identity.is_none() && !self.connection.is_handshaking() {
            let certificate = self.connection.peer_certificates()?.first()?;
            self.identity = Some(Arc::new(Identity::of(certificate)));
        }
        self.identity.clone()
    }
}
