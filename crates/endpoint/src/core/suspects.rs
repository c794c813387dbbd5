//! Packets that no peer sends which keeps to the rules: forged, altered, or repeated by somebody.
//! They are dropped and counted where they are found, and said here, at most once in [`APART`],
//! whatever comes.

use core::time::Duration;

use petasos_base::Time;

use super::Core;

/// Between two lines of the log.
const APART: Duration = Duration::from_secs(10);

/// What was not said yet.
#[derive(Debug)]
pub(crate) struct Suspects {
    unsaid: u64,
    say_from: Time,
    /// Of the packets to pairs, those that were noted.
    of_pairs: u64,
}

impl Suspects {
    pub(super) fn new() -> Suspects {
        Suspects { unsaid: 0, say_from: Time::ZERO, of_pairs: 0 }
    }

    /// Takes so many more. Returns how many are to be said now.
    fn take(&mut self, now: Time, packets: u64) -> Option<u64> {
        self.unsaid += packets;
        if self.unsaid == 0 || now < self.say_from {
            return None;
        }
        self.say_from = now.plus_nanos(APART.as_nanos() as u64);
        Some(core::mem::take(&mut self.unsaid))
    }
}

impl<S> Core<S> {
    /// Notes a packet that was counted and dropped.
    #[cold]
    pub(crate) fn note_suspect(&mut self) {
        self.note_suspects(1);
    }

    /// Notes packets to pairs that were dropped since they answer nothing that was sent, or
    /// contradict themselves (RT10, RT11).
    #[cold]
    pub(crate) fn note_suspects_of_pairs(&mut self) {
        let Some(calls) = self.group_calls.as_deref() else { return };
        let stats = calls.pairs.stats();
        let all = stats.from_elsewhere + stats.void;
        let before = core::mem::replace(&mut self.suspects.of_pairs, all);
        self.note_suspects(all - before);
    }

    fn note_suspects(&mut self, packets: u64) {
        if let Some(packets) = self.suspects.take(self.now, packets) {
            tracing::warn!(
                packets,
                "packets were dropped that no peer sends which keeps the rules"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_said_at_once_and_then_seldom_and_none_is_forgotten() {
        let mut suspects = Suspects::new();
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(suspects.take(at(5), 0), None);
        assert_eq!(suspects.take(at(5), 1), Some(1));
        assert!((0..100_000).all(|_| suspects.take(at(14), 1).is_none()));
        assert_eq!(suspects.take(at(15), 0), Some(100_000));
        assert_eq!(suspects.take(at(30), 0), None);
    }
}
