//! Epochs of a group, as its router counts them (RT30): when a new one begins, whom it was told,
//! and how long the one before is taken. Pure: time is an argument.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::EPOCHS;

/// How long workers have to confirm an epoch before clients are told.
const CONFIRM: Duration = Duration::from_secs(1);

/// How often secrets change, and how long two are taken (RT30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochTimes {
    /// Until a new one begins. Longer than `overlap` and two seconds.
    pub epoch: Duration,
    /// How long the one before is taken once clients were told.
    pub overlap: Duration,
}

impl Default for EpochTimes {
    fn default() -> EpochTimes {
        EpochTimes { epoch: Duration::from_secs(60), overlap: Duration::from_secs(10) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Workers are told; clients will be, by this time.
    Workers(Time),
    /// Clients are told, too; the one before is taken until then.
    Both(Time),
    /// There is one.
    Alone,
}

/// What follows from the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochChange {
    /// Another epoch is taken, too: the newest.
    Begun(u16),
    /// The one before the newest is not taken any more.
    Over,
    /// Clients are to be told.
    TellClients,
}

/// What a membership knows of epochs, each named by how many had begun with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Its clients have had the time to hear of it (RT36).
    pub(crate) is_admitted: bool,
    /// The epoch of its grant: it takes no requests of earlier ones.
    pub(crate) first: u64,
    /// The newest that it has confirmed; 0 at first.
    pub(crate) heard: u64,
    /// It may get requests, as the plane was told last.
    pub(crate) is_ready: bool,
}

impl Readiness {
    /// Whether it takes requests of an epoch.
    pub(crate) fn takes(&self, epoch: u64) -> bool {
        self.is_admitted && (self.first..=self.heard).contains(&epoch)
    }
}

#[derive(Debug)]
pub(crate) struct Epochs {
    times: EpochTimes,
    newest: u16,
    /// How many have begun.
    begun: u64,
    phase: Phase,
    next_at: Time,
}

impl Epochs {
    pub(crate) fn new(times: EpochTimes, now: Time) -> Epochs {
        Epochs { times, newest: 0, begun: 1, phase: Phase::Alone, next_at: now + times.epoch }
    }

    /// What workers are told.
    pub(crate) fn newest(&self) -> u16 {
        self.newest
    }

    /// What clients are told.
    pub(crate) fn of_clients(&self) -> u16 {
        match self.phase {
            Phase::Workers(_) => self.before(),
            _ => self.newest,
        }
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// How many had begun with the one that clients were told.
    pub(crate) fn begun_of_clients(&self) -> u64 {
        self.begun - u64::from(matches!(self.phase, Phase::Workers(_)))
    }

    /// How many had begun with this one, if it is the newest or the one before.
    pub(crate) fn begun_with(&self, epoch: u16) -> Option<u64> {
        match epoch {
            _ if epoch == self.newest => Some(self.begun),
            _ if epoch == self.before() => Some(self.begun - 1),
            _ => None,
        }
    }

    fn before(&self) -> u16 {
        self.newest.wrapping_sub(1) % EPOCHS
    }

    /// Does what is due. `all_heard`: the workers that are heard have confirmed the newest.
    pub(crate) fn turn(&mut self, now: Time, all_heard: bool) -> Option<EpochChange> {
        match self.phase {
            Phase::Workers(at) if all_heard || at <= now => {
                self.phase = Phase::Both(now + self.times.overlap);
                Some(EpochChange::TellClients)
            }
            Phase::Both(at) if at <= now => {
                self.phase = Phase::Alone;
                Some(EpochChange::Over)
            }
            Phase::Alone if self.next_at <= now => {
                self.newest = (self.newest + 1) % EPOCHS;
                self.begun += 1;
                self.next_at = now + self.times.epoch;
                self.phase = Phase::Workers(now + CONFIRM);
                Some(EpochChange::Begun(self.newest))
            }
            _ => None,
        }
    }

    /// Lets the next one begin as soon as there is one only: numbers that are held back are wanted.
    pub(crate) fn hasten(&mut self, now: Time) {
        self.next_at = self.next_at.min(now);
    }

    pub(crate) fn next_timeout(&self) -> Time {
        match self.phase {
            Phase::Workers(at) | Phase::Both(at) => at,
            Phase::Alone => self.next_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rt30_workers_hear_first_and_the_one_before_is_taken_for_a_while() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let times = EpochTimes::default();
        let mut epochs = Epochs::new(times, at(0));
        assert_eq!(epochs.turn(at(59_999), true), None);
        assert_eq!(epochs.turn(at(60_000), true), Some(EpochChange::Begun(1)));
        assert_eq!((epochs.newest(), epochs.of_clients()), (1, 0));
        assert_eq!(epochs.turn(at(60_500), false), None);
        assert_eq!(epochs.turn(at(61_000), false), Some(EpochChange::TellClients));
        assert_eq!((epochs.newest(), epochs.of_clients()), (1, 1));
        assert_eq!(epochs.turn(at(70_999), true), None);
        assert_eq!(epochs.turn(at(71_000), true), Some(EpochChange::Over));
        assert_eq!(epochs.next_timeout(), at(120_000));
        assert_eq!(epochs.turn(at(120_000), false), Some(EpochChange::Begun(2)));
        assert_eq!(epochs.turn(at(120_001), true), Some(EpochChange::TellClients), "all did");
        assert_eq!(epochs.begun(), 3);
    }

    #[test]
    fn rt30_who_takes_the_epoch_of_clients_is_known() {
        let mut epochs = Epochs::new(EpochTimes::default(), Time::ZERO);
        assert_eq!((epochs.begun_of_clients(), epochs.begun_with(0)), (1, Some(1)));
        let mut now = Time::ZERO + Duration::from_secs(60);
        assert_eq!(epochs.turn(now, true), Some(EpochChange::Begun(1)));
        assert_eq!((epochs.begun_of_clients(), epochs.begun_with(0)), (1, Some(1)));
        let (first, is_ready) = (epochs.begun(), false);
        let there = Readiness { is_admitted: true, first: 1, heard: 1, is_ready };
        let newcomer = Readiness { is_admitted: true, first, heard: first, is_ready };
        assert!(there.takes(epochs.begun_of_clients()) && !newcomer.takes(1));
        now = now + Duration::from_secs(1);
        assert_eq!(epochs.turn(now, false), Some(EpochChange::TellClients));
        let of_clients = epochs.begun_of_clients();
        assert!(newcomer.takes(of_clients) && !there.takes(of_clients));
        assert!(Readiness { heard: 2, ..there }.takes(of_clients), "it has confirmed it");
        assert!(!Readiness { is_admitted: false, ..newcomer }.takes(of_clients));
        assert_eq!((epochs.begun_with(1), epochs.begun_with(2)), (Some(2), None));
    }

    #[test]
    fn numbers_wrap() {
        let mut epochs = Epochs::new(EpochTimes::default(), Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..EPOCHS {
            now = now + Duration::from_secs(60);
            assert!(matches!(epochs.turn(now, true), Some(EpochChange::Begun(_))));
            epochs.turn(now, true);
            epochs.turn(now + Duration::from_secs(10), true);
        }
        assert_eq!((epochs.newest(), epochs.before()), (0, EPOCHS - 1));
    }
}
