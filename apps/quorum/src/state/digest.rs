//! Digests, by which replicas are compared (QR23).

use xxhash_rust::xxh64::xxh64;

use super::Replicated;
use crate::bytes::push_numbers;
use crate::machine::StateMachine;

/// What a state is, in 128 bits, after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The last entry that was applied.
    pub index: u64,
    /// The same on all replicas, unless one of them is broken. It is no defence against somebody
    /// who makes states up.
    pub value: u128,
}

/// 128 bits of XXH64 with two seeds.
pub(crate) fn hash(bytes: &[u8]) -> u128 {
    u128::from(xxh64(bytes, 0)) << 64 | u128::from(xxh64(bytes, 1))
}

impl<M: StateMachine> Replicated<M> {
    /// The digest of the state as it is. It takes time in proportion to the sessions.
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        let clock = self.clock;
        push_numbers(&mut bytes, &[self.applied, clock.now_ms, clock.term, clock.led_ms]);
        let (mut sessions, mut record) = (self.sessions.clone(), Vec::new());
        let mut value = hash(&bytes).wrapping_add(self.machine.digest());
        while sessions.take_record(&mut record) {
            value = value.wrapping_add(hash(&record));
            record.clear();
        }
        Digest { index: self.applied, value }
    }
}
