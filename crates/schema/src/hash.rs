//! Canonical hashes; `hashing` computes them.

use std::fmt;

/// A canonical hash, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 16]);

impl Hash {
    /// The hash with these bytes, for one that came over the network.
    pub fn from_bytes(bytes: [u8; 16]) -> Hash {
        Hash(bytes)
    }

    /// The bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The beginning of a digest.
    pub(crate) fn of(digest: &[u8; 32]) -> Hash {
        Hash(*digest.first_chunk().expect("a digest is longer than a hash"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}
