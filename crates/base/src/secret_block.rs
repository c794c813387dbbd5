//! Secrets from the system's cryptographic generator, a block at a time: a system call for each
//! would cost more than what it is for, where there is one for each request (ADR 32, 8).
//!
//! Invariants: each byte of a block is given once, and erased as it is given; what has not been
//! given is erased with the block. So memory never tells a secret that was given, and no secret
//! tells another one. A process that forks must not use the same block in both.

use zeroize::Zeroize;

/// The bytes of a block.
const BLOCK_BYTES: usize = 4096;
/// The bytes of a secret.
const SECRET_BYTES: usize = 8;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECRET_BYTES), "nothing is left over");

/// See the module's documentation.
pub struct SecretBlock {
    /// Empty before the first secret.
    bytes: Vec<u8>,
    /// Bytes of the block that were not given: the first ones.
    left: usize,
    fill: fn(&mut [u8]),
}

impl SecretBlock {
    /// A block of the system's generator, from which nothing is asked yet.
    pub const fn new() -> SecretBlock {
        SecretBlock::of(fill_by_system)
    }

    const fn of(fill: fn(&mut [u8])) -> SecretBlock {
        SecretBlock { bytes: Vec::new(), left: 0, fill }
    }

    /// An unpredictable number that is given nowhere else.
    ///
    /// # Panics
    /// If the system has no randomness. Linux has it from early boot on.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.left == 0 {
            self.refill();
        }
        let given = &mut self.bytes[self.left - SECRET_BYTES..self.left];
        let secret = given.try_into().map(u64::from_le_bytes).expect("a secret has 8 bytes");
        given.zeroize();
        self.left -= SECRET_BYTES;
        secret
    }

    #[cold]
    fn refill(&mut self) {
        self.bytes.resize(BLOCK_BYTES, 0);
        (self.fill)(&mut self.bytes);
        self.left = BLOCK_BYTES;
    }
}

impl Default for SecretBlock {
    fn default() -> SecretBlock {
        SecretBlock::new()
    }
}

impl Drop for SecretBlock {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// Without the secrets.
impl core::fmt::Debug for SecretBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SecretBlock").field("left", &self.left).finish_non_exhaustive()
    }
}

fn fill_by_system(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gives random numbers");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;

    thread_local! {
        static NEXT: Cell<u16> = const { Cell::new(1) };
        static ASKED: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn each_byte_is_given_once_and_erased() {
        /// All pairs of bytes differ, in as many blocks as are asked for here.
        fn fill(bytes: &mut [u8]) {
            for pair in bytes.chunks_mut(2) {
                pair.copy_from_slice(&NEXT.replace(NEXT.get() + 1).to_le_bytes());
            }
        }
        let mut block = SecretBlock::of(fill);
        let mut pairs = HashSet::new();
        for secrets in 1..=3 * BLOCK_BYTES / SECRET_BYTES {
            let secret = block.next_u64().to_le_bytes();
            for pair in secret.chunks(2) {
                assert!(pairs.insert([pair[0], pair[1]]), "{pair:?} again, in secret {secrets}");
            }
            assert!(block.bytes[block.left..].iter().all(|byte| *byte == 0), "it is still there");
        }
        assert_eq!(pairs.len(), 3 * BLOCK_BYTES / 2, "all of three blocks");
        assert_eq!(block.left, 0);
    }

    #[test]
    fn the_system_is_asked_for_a_block_at_a_time() {
        fn fill(bytes: &mut [u8]) {
            ASKED.set(ASKED.get() + 1);
            bytes.fill(7);
        }
        let mut block = SecretBlock::of(fill);
        assert_eq!(ASKED.get(), 0, "nothing is asked for before it is needed");
        (0..BLOCK_BYTES / SECRET_BYTES).for_each(|_| _ = block.next_u64());
        assert_eq!(ASKED.get(), 1);
        block.next_u64();
        assert_eq!(ASKED.get(), 2);
    }

    #[test]
    fn secrets_differ_and_are_not_shown() {
        let (mut one, mut other) = (SecretBlock::new(), SecretBlock::new());
        let secrets: HashSet<u64> =
            (0..2000).flat_map(|_| [one.next_u64(), other.next_u64()]).collect();
        assert_eq!(secrets.len(), 4000);
        assert_eq!(format!("{one:?}"), "SecretBlock { left: 384, .. }");
    }
}
