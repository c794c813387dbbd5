//! Derivation of packet keys from a session's secret (W28).

use core::fmt;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, Prk};
use petasos_wire::SEAL_BYTES;
use zeroize::Zeroizing;

/// The length of every secret, in bytes.
pub const SECRET_BYTES: usize = 32;

const KEY_BYTES_MAX: usize = 32;

const TO_SERVER: &[u8] = b"petasos c data";
const TO_CLIENT: &[u8] = b"petasos s data";
const KEY: &[u8] = b"petasos key";
const IV: &[u8] = b"petasos iv";
const NEXT: &[u8] = b"petasos ku";

/// The AEAD of a session: that of its control connection's cipher suite (W27).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// Of `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// Of `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl Cipher {
    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Cipher::Aes128Gcm => &aead::AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// The secret that both ends of a session derive from their control connection (C19). It is never
/// printed, and overwritten when dropped.
#[derive(Clone)]
pub struct SessionSecret {
    cipher: Cipher,
    secret: Secret,
}

impl SessionSecret {
    /// The bytes that TLS exported from a connection with the AEAD `cipher`.
    pub fn new(cipher: Cipher, bytes: [u8; SECRET_BYTES]) -> SessionSecret {
        SessionSecret { cipher, secret: Secret::new(bytes) }
    }

    pub(crate) fn of(cipher: Cipher, secret: Secret) -> SessionSecret {
        SessionSecret { cipher, secret }
    }

    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The first secrets for packets to the server and to the client.
    pub(crate) fn directions(&self, server_tag: u32) -> (Secret, Secret) {
        let context = server_tag.to_le_bytes();
        let derive = |label| self.secret.derive(label, &context);
        (derive(TO_SERVER), derive(TO_CLIENT))
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSecret").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

/// A secret of one direction, for deriving a key and the next secret.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<[u8; SECRET_BYTES]>);

impl Secret {
    pub(crate) fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The secret for the next key.
    pub(crate) fn next(&self) -> Secret {
        self.derive(NEXT, &[])
    }

    /// The key from this secret.
    pub(crate) fn key(&self, cipher: Cipher) -> PacketKey {
        let algorithm = cipher.algorithm();
        let mut key = Zeroizing::new([0; KEY_BYTES_MAX]);
        let key = &mut key[..algorithm.key_len()];
        self.expand(KEY, &[], key);
        let mut iv = [0; NONCE_LEN];
        self.expand(IV, &[], &mut iv);
        let key = UnboundKey::new(algorithm, key).expect("the key has the algorithm's length");
        PacketKey { key: LessSafeKey::new(key), iv }
    }

    /// Another secret.
    pub(crate) fn derive(&self, label: &[u8], context: &[u8]) -> Secret {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        self.expand(label, context, bytes.as_mut());
        Secret(bytes)
    }

    /// HKDF-Expand-Label of RFC 8446, section 7.1.
    fn expand(&self, label: &[u8], context: &[u8], out: &mut [u8]) {
        let out_bytes = (out.len() as u16).to_be_bytes();
        let label_bytes = [(PREFIX.len() + label.len()) as u8];
        let context_bytes = [context.len() as u8];
        let info = [&out_bytes[..], &label_bytes, PREFIX, label, &context_bytes, context];
        let secret = Prk::new_less_safe(hkdf::HKDF_SHA256, self.0.as_ref());
        let okm = secret.expand(&info, Bytes(out.len()));
        let filled = okm.and_then(|okm| okm.fill(out));
        filled.expect("no more is asked for than SHA-256 expands to");
    }
}

const PREFIX: &[u8] = b"tls13 ";

struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// The packet cannot be authenticated.
pub(crate) struct Forged;

/// A key for up to 2^21 packets.
pub(crate) struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl PacketKey {
    /// Encrypts `payload` in place, and writes the tag, which also authenticates `clear`. Each
    /// `number` must be used only once (W29).
    #[inline]
    pub(crate) fn seal(
        &self,
        number: u64,
        clear: &[u8],
        payload: &mut [u8],
        tag: &mut [u8; SEAL_BYTES],
    ) {
        let aad = Aad::from(clear);
        let sealed = self.key.seal_in_place_scatter(self.nonce(number), aad, payload, &[], tag);
        sealed.expect("a datagram is shorter than the cipher's limit");
    }

    /// Decrypts `sealed` into `out`, which has the same length, if the tag fits it and `clear`.
    #[inline]
    pub(crate) fn open(
        &self,
        number: u64,
        clear: &[u8],
        sealed: &[u8],
        tag: &[u8; SEAL_BYTES],
        out: &mut [u8],
    ) -> Result<(), Forged> {
        let (nonce, aad) = (self.nonce(number), Aad::from(clear));
        self.key.open_separate_gather(nonce, aad, sealed, tag, out).map_err(|_| Forged)
    }

    /// The IV, XORed with the number (RFC 9001, section 5.3).
    #[inline]
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        let bytes = nonce.iter_mut().skip(NONCE_LEN - size_of::<u64>());
        bytes.zip(number.to_be_bytes()).for_each(|(byte, mask)| *byte ^= mask);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 9001, appendix A.1. It uses the same derivation with other labels.
    #[test]
    fn w28_secrets_expand_as_tls_and_quic_expand_them() {
        let client_initial = "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea";
        let mut bytes = [0; SECRET_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&client_initial[2 * at..2 * at + 2], 16).unwrap();
        }
        let secret = Secret(Zeroizing::new(bytes));
        let expand = |label: &[u8], len: usize| {
            let mut out = vec![0; len];
            secret.expand(label, &[], &mut out);
            out.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(expand(b"quic key", 16), "1f369613dd76d5467730efcbe3b1a22d");
        assert_eq!(expand(b"quic iv", 12), "fa044b2f42a3fd3b46fb255c");
    }

    #[test]
    fn every_derivation_gives_something_else() {
        let session = SessionSecret::new(Cipher::Aes128Gcm, [7; SECRET_BYTES]);
        let (to_server, to_client) = session.directions(1);
        let (other, _) = session.directions(2);
        let all = [&to_server.next(), &to_client.next(), &other, &to_server, &to_client];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| one.0 != other.0), "{at}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let session = SessionSecret::new(Cipher::ChaCha20Poly1305, [0xab; SECRET_BYTES]);
        assert_eq!(format!("{session:?}"), "SessionSecret { cipher: ChaCha20Poly1305, .. }");
    }
}
