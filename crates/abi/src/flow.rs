//! Counts how much of a stream's messages is in transit (D8).
//!
//! For each stream, each side has a [`Credit`] for the messages that it sends, and a [`Taken`] for
//! the messages that it receives. The service also keeps the credit of the application, so that it
//! need not trust the application.
//!
//! Invariant: if a sender has no credit, the messages that it has sent and for which it has not
//! been granted credit again have at least as many bytes as the first grant. When the receiver has
//! taken all of them, that is more than [`Taken`] keeps back. So the sender always gets credit
//! again.

/// So many bytes a message counts at least: short ones take places, too.
pub const COUNTED_BYTES_MIN: u32 = 1024;

fn counted(bytes: u32) -> u32 {
    bytes.max(COUNTED_BYTES_MIN)
}

/// What a side may still send of a stream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Below zero by as much as the last message was longer than what was left.
    bytes: i64,
}

impl Credit {
    /// What may be sent before the first grant.
    pub fn new(grant_bytes: u64) -> Credit {
        Credit { bytes: i64::try_from(grant_bytes).unwrap_or(i64::MAX) }
    }

    /// Whether a message may be sent, of any length.
    #[inline]
    pub fn may_send(self) -> bool {
        self.bytes > 0
    }

    /// A message is sent.
    #[inline]
    pub fn spend(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_sub(counted(bytes).into());
    }

    /// The other side has granted more.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What a side has taken of a stream's messages since it last granted more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    bytes: u64,
    /// So much is granted at once.
    grant_from: u64,
}

impl Taken {
    /// Of a stream of which so much is granted at first.
    pub fn new(grant_bytes: u64) -> Taken {
        Taken { bytes: 0, grant_from: grant_bytes.div_ceil(2) }
    }

    /// A message was taken. Gives how much is to be granted now, if anything is.
    #[inline]
    pub fn add(&mut self, bytes: u32) -> Option<u64> {
        self.bytes += u64::from(counted(bytes));
        (self.bytes >= self.grant_from).then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credit_has_no_end_that_a_peer_could_reach() {
        let mut credit = Credit::new(u64::MAX);
        credit.add(u64::MAX);
        credit.spend(u32::MAX);
        assert!(credit.may_send());
        let mut credit = Credit::new(0);
        assert!(!credit.may_send());
        (0..3).for_each(|_| credit.spend(u32::MAX));
        credit.add(3 * u64::from(u32::MAX));
        assert!(!credit.may_send());
        credit.add(1);
        assert!(credit.may_send());
    }

    proptest! {
        #[test]
        fn what_is_under_way_is_bounded_and_nobody_waits_for_ever(
            grant_bytes in 1u64..20_000,
            messages in prop::collection::vec((1u32..5000, 0usize..4), 1..200),
        ) {
            let (mut credit, mut taken) = (Credit::new(grant_bytes), Taken::new(grant_bytes));
            let mut under_way: VecDeque<u32> = VecDeque::new();
            for (bytes, takes) in messages {
                while !credit.may_send() {
                    let oldest = under_way.pop_front();
                    prop_assert!(oldest.is_some(), "all was taken, and there is no credit");
                    taken.add(oldest.unwrap_or(0)).into_iter().for_each(|more| credit.add(more));
                }
                let before: u64 = under_way.iter().map(|bytes| u64::from(counted(*bytes))).sum();
                prop_assert!(before < grant_bytes);
                credit.spend(bytes);
                under_way.push_back(bytes);
                for oldest in (0..takes).map_while(|_| under_way.pop_front()) {
                    taken.add(oldest).into_iter().for_each(|more| credit.add(more));
                }
            }
        }
    }
}
