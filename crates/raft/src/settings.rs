//! What a replica is told when it is made.

use crate::MemberId;

/// Times and bounds of a replica. All members of a group need the same times.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The group: messages of another one are refused.
    pub group: u128,
    /// This member.
    pub id: MemberId,
    /// The shortest election timeout, in microseconds; the longest is twice that. A follower that
    /// has not heard a leader for as long looks for another one (QR6).
    pub election_us: u64,
    /// How often a leader is heard at least, in microseconds.
    pub beat_us: u64,
    /// Whether the leader answers reads by lease, and by how much clocks may run apart for that,
    /// in thousandths (QR15).
    pub lease_drift: Option<u64>,
    /// The longest data of an entry, in bytes.
    pub entry_bytes_max: usize,
    /// A message has no further entry once it has as many bytes.
    pub message_bytes: usize,
    /// What a follower is sent ahead of its acknowledgements at most, in bytes; one message may be
    /// longer.
    pub window_bytes: usize,
    /// The same, in messages.
    pub window_messages: usize,
    /// What is proposed and not committed at most, in bytes of entries.
    pub uncommitted_bytes_max: usize,
    /// What is kept in memory of entries that have been applied, for followers that are behind, in
    /// bytes.
    pub kept_bytes: usize,
}

impl Settings {
    /// The usual ones: 150 to 300 ms, ten beats in the shortest, no leases, entries of 4 MiB.
    pub fn new(group: u128, id: MemberId) -> Settings {
        Settings {
            group,
            id,
            election_us: 150_000,
            beat_us: 15_000,
            lease_drift: None,
            entry_bytes_max: 4 << 20,
            message_bytes: 128 << 10,
            window_bytes: 1 << 20,
            window_messages: 16,
            uncommitted_bytes_max: 16 << 20,
            kept_bytes: 16 << 20,
        }
    }

    /// The least time, by its own clock, for which a leader may rely on a promise that voters keep
    /// for [`election_us`](Settings::election_us) by theirs, in microseconds.
    pub(crate) fn lease_us(&self) -> Option<u64> {
        let drift = self.lease_drift?;
        Some(self.election_us * (1000_u64.saturating_sub(drift)) / 1000)
    }
}
