//! What names the bytes of a schema.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

const BYTES: usize = 32;

/// SHA-256 of a schema's compact form ([`Schema::encode`](crate::Schema::encode)), whole, shown as
/// 64 hexadecimal digits.
///
/// It names those bytes and nothing else: all names, numbers and types in them. A
/// [`Hash`](crate::Hash) does not, since schemas with other names may share one. Nobody can find
/// two inputs with one digest, so it may be used where strangers name what they mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// Of the compact form of a schema.
    pub fn of(compact: &[u8]) -> Digest {
        Digest(Sha256::digest(compact).into())
    }

    /// The digest with these bytes, for one that somebody else has computed.
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Digest {
        Digest(bytes)
    }

    /// The bytes.
    pub const fn to_bytes(self) -> [u8; BYTES] {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A text is no digest. The fault of whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a schema's digest has 64 hexadecimal digits, in lower case")]
pub struct NoDigest;

impl FromStr for Digest {
    type Err = NoDigest;

    /// Each digest has one text.
    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != BYTES || !rest.is_empty() {
            return Err(NoDigest);
        }
        let mut bytes = [0; BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high).ok_or(NoDigest)? << 4 | digit(*low).ok_or(NoDigest)?;
        }
        Ok(Digest(bytes))
    }
}

fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256_and_has_one_text() {
        let digest = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((digest.to_string().as_str(), text.parse()), (text, Ok(digest)));
        let upper = text.to_uppercase();
        for wrong in ["", "ba", &text[1..], &format!("{text}0"), &upper, &text.replace('c', "g")] {
            assert_eq!(wrong.parse::<Digest>(), Err(NoDigest), "{wrong}");
        }
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }
}
