//! How long a key is used.

/// How many packets a key seals, as a power of two (W30). Both ends of a session must have the
/// same; only tests of rotation have reason to differ from the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLife(u32);

impl KeyLife {
    /// Keys for 2^`log2` packets each.
    ///
    /// # Panics
    /// If that is more than the default: then the cipher's limits (RFC 9001, section 6.6) are near.
    pub const fn of_log2(log2: u32) -> KeyLife {
        assert!(log2 <= KeyLife::DEFAULT.0, "keys last no longer than W30 lets them");
        KeyLife(log2)
    }

    const DEFAULT: KeyLife = KeyLife(21);

    /// Which key a packet's number belongs to, counted from 0.
    pub(crate) fn generation(self, number: u64) -> u64 {
        number >> self.0
    }
}

impl Default for KeyLife {
    fn default() -> KeyLife {
        KeyLife::DEFAULT
    }
}
