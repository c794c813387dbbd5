//! Epochs of a group: what seals its packets, and how messages may be encoded (RT30, RT36).

use core::fmt;

use petasos_wire::EPOCHS;

use super::{check_client, read_flags};
use crate::Malformed;
use crate::fields::{Reader, Write};

const FLAG_BIND_ANEW: u8 = 2;
/// In the place of a client's number: the epoch is for workers.
const TO_WORKERS: u32 = u32::MAX;
const SECRET_BYTES: usize = 32;

/// The AEAD that seals the packets of a group (RT33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    pub(super) fn write(cipher: Option<Cipher>, out: &mut Vec<u8>) {
        out.put_u8(match cipher {
            None => 0,
            Some(Cipher::Aes128Gcm) => 1,
            Some(Cipher::ChaCha20Poly1305) => 2,
        });
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Cipher>, Malformed> {
        Ok(match reader.u8()? {
            0 => None,
            1 => Some(Cipher::Aes128Gcm),
            2 => Some(Cipher::ChaCha20Poly1305),
            _ => return Err(Malformed::Value("cipher")),
        })
    }
}

/// The secret of an epoch: to workers the group's, to a client its own.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A secret of these bytes.
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// The bytes, from which keys are derived.
    pub const fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

/// Compares in constant time.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        core::hint::black_box(pairs.fold(0, |differing, (one, two)| differing | (one ^ two))) == 0
    }
}

impl Eq for Secret {}

/// Keeps the secret out of logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An epoch of a group (RT30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number, counting up modulo [`EPOCHS`].
    pub number: u16,
    /// Whether numbers of methods have to be bound anew (RT31).
    pub binds_anew: bool,
    /// What keys come from; `None` in a group that is not sealed.
    pub secret: Option<Secret>,
}

impl Epoch {
    /// Writes the epoch for `client`, or for workers.
    pub(super) fn write(&self, client: Option<u32>, out: &mut Vec<u8>) {
        out.put_u32(client.unwrap_or(TO_WORKERS));
        out.put_u16(self.number);
        out.put_u8(if self.binds_anew { FLAG_BIND_ANEW } else { 0 });
        if let Some(secret) = &self.secret {
            out.extend_from_slice(&secret.0);
        }
    }

    /// Reads an epoch and whom it is for: a client, or workers.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        is_sealed: bool,
    ) -> Result<(Option<u32>, Epoch), Malformed> {
        let client = match reader.u32()? {
            TO_WORKERS => None,
            client => Some(client),
        };
        client.map_or(Ok(()), check_client)?;
        let number = checked_number(reader.u16()?)?;
        let flags = read_flags(reader, FLAG_BIND_ANEW)?;
        let secret = is_sealed.then(|| reader.array().map(Secret)).transpose()?;
        Ok((client, Epoch { number, binds_anew: flags & FLAG_BIND_ANEW != 0, secret }))
    }

    pub(super) fn validate(&self, is_sealed: bool) -> Result<(), Malformed> {
        checked_number(self.number)?;
        if self.secret.is_some() != is_sealed {
            return Err(Malformed::Value("secret"));
        }
        Ok(())
    }
}

/// The number of an epoch, if it is one.
pub(super) fn checked_number(number: u16) -> Result<u16, Malformed> {
    if number >= EPOCHS {
        return Err(Malformed::Value("epoch"));
    }
    Ok(number)
}

/// Whether an epoch is older than another one, less than half of all numbers away.
pub(crate) fn is_older(number: u16, than: u16) -> bool {
    (number.wrapping_sub(than) & (EPOCHS - 1)) >= EPOCHS / 2
}
