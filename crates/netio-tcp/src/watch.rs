//! Detects that a peer makes no progress.

use core::time::Duration;

use petasos_base::Time;

/// One direction of a connection, as it was when it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    progress: u64,
    since: Time,
}

impl Watch {
    pub(crate) fn new(now: Time) -> Watch {
        Watch { progress: 0, since: now }
    }

    /// Whether the peer owes something, and has made no progress for `patience`. `progress` is a
    /// count that grows with it.
    pub(crate) fn is_overdue(
        &mut self,
        owes: bool,
        progress: u64,
        now: Time,
        patience: Duration,
    ) -> bool {
        if !owes || progress != self.progress {
            *self = Watch { progress, since: now };
        }
        now >= self.since + patience
    }

    /// Begins to wait now.
    pub(crate) fn restart(&mut self, now: Time) {
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_debt_without_progress_is_overdue() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let patience = Duration::from_secs(5);
        let mut watch = Watch::new(at(10));
        assert!(!watch.is_overdue(true, 0, at(14), patience));
        assert!(watch.is_overdue(true, 0, at(15), patience));
        assert!(!watch.is_overdue(true, 1, at(15), patience), "something came");
        assert!(!watch.is_overdue(false, 1, at(30), patience), "nothing is owed");
        assert!(!watch.is_overdue(true, 1, at(34), patience), "the debt is younger");
        assert!(watch.is_overdue(true, 1, at(35), patience));
    }
}
