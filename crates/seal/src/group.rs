//! Keys of a group of workers behind a router (`docs/spec/route.md`, RT27, RT28 and RT30).
//!
//! In each epoch the router draws a [`GroupSecret`] and gives it to the workers. A client gets a
//! [`ClientSecret`] of its own, which workers derive from the group's. From that come the keys of
//! the client's first packets, which any worker opens ([`FirstSealer`], [`FirstOpener`]), and those
//! of its links, one with each worker ([`Link`]).
//!
//! Invariants:
//! - nothing of one client's keys follows from another's secret, nor the group's secret from any;
//! - a link's keys are made at most once, since its numbers begin anew with them.

mod epochs;
mod first;
mod link;

use core::fmt;

pub use epochs::{Epochs, NotNext};
pub use first::{FirstOpenError, FirstOpener, FirstSealer};
pub use link::Link;

use crate::key::{Cipher, SECRET_BYTES, Secret, SessionSecret};

const CLIENT: &[u8] = b"petasos g client";
const FIRST: &[u8] = b"petasos g first";
const LINK: &[u8] = b"petasos g link";

/// What a router and its workers know in an epoch. It is never printed, and overwritten when
/// dropped.
#[derive(Clone)]
pub struct GroupSecret {
    cipher: Cipher,
    secret: Secret,
}

impl GroupSecret {
    /// Of bytes that the router has drawn from the system's generator for this epoch alone.
    pub fn new(cipher: Cipher, bytes: [u8; SECRET_BYTES]) -> GroupSecret {
        GroupSecret { cipher, secret: Secret::new(bytes) }
    }

    /// The bytes, to be told to workers over TLS.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        self.secret.bytes()
    }

    /// The secret of the client with this number.
    pub fn client(&self, client: u32) -> ClientSecret {
        let secret = self.secret.derive(CLIENT, &client.to_le_bytes());
        ClientSecret { cipher: self.cipher, secret }
    }
}

/// What a client knows in an epoch, and each worker can derive. It is never printed, and
/// overwritten when dropped.
#[derive(Clone)]
pub struct ClientSecret {
    cipher: Cipher,
    secret: Secret,
}

impl ClientSecret {
    /// Of the bytes that the router has told the client.
    pub fn new(cipher: Cipher, bytes: [u8; SECRET_BYTES]) -> ClientSecret {
        ClientSecret { cipher, secret: Secret::new(bytes) }
    }

    /// The bytes, to be told to the client over TLS.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        self.secret.bytes()
    }

    /// The secret for all first packets of a generation.
    fn first(&self, generation: u64) -> Secret {
        // 19 bits, unless a test has shorter lives. Then keys may come again, but no nonce does,
        // since it has all of a number.
        self.secret.derive(FIRST, &(generation as u32).to_le_bytes())
    }

    /// The secret of the session that a link is.
    fn link(&self, worker: u16) -> SessionSecret {
        SessionSecret::of(self.cipher, self.secret.derive(LINK, &worker.to_le_bytes()))
    }
}

impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSecret").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSecret").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
