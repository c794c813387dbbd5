//! The lifetime of a key.

/// The number of packets per key, as a power of two (W30). Both ends of a session must use the same
/// value. Only tests of rotation should differ from the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLife(u32);

impl KeyLife {
    /// A new key after each 2^`log2` packets.
    ///
    /// # Panics
    /// If that is more than the default, which would come close to the cipher's limits (RFC 9001,
    /// section 6.6).
    pub const fn of_log2(log2: u32) -> KeyLife {
        assert!(log2 <= KeyLife::DEFAULT.0, "keys last no longer than W30 lets them");
        KeyLife(log2)
    }

    const DEFAULT: KeyLife = KeyLife(21);

    /// The index of the key for a packet's number, counted from 0.
    pub(crate) fn generation(self, number: u64) -> u64 {
        number >> self.0
    }
}

impl Default for KeyLife {
    fn default() -> KeyLife {
        KeyLife::DEFAULT
    }
}
