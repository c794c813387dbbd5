//! A running hash of everything that happens: two runs are the same exactly if their hashes are.

/// The hash so far. Not for secrets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    hash: u64,
}

/// Bytes of each packet that are hashed. The length is hashed too; a whole payload would cost
/// more than the rest of the simulation.
const HASHED_BYTES_MAX: usize = 64;

impl Trace {
    pub(crate) const fn new() -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub(crate) const fn hash(self) -> u64 {
        self.hash
    }

    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        let mixed = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = mixed ^ (mixed >> 29);
    }

    #[inline]
    pub(crate) fn add_packet(&mut self, from: u32, to: u32, bytes: &[u8]) {
        self.add(u64::from(from) << 32 | u64::from(to));
        self.add(bytes.len() as u64);
        for word in bytes[..bytes.len().min(HASHED_BYTES_MAX)].chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(padded));
        }
    }
}
