//! The routers of one group: those that the program names, and those that they tell of (RT36).

use std::net::SocketAddr;

use core::time::Duration;

use petasos_base::{Time, secret_u64};
use petasos_control::RefuseCode;

use crate::enrolment::EnrolmentId;
use crate::error::SessionError;
use crate::group::GroupError;

/// The most routers of a group (RT38).
pub(crate) const ROUTERS_MAX: usize = petasos_control::ROUTERS_MAX;

/// Until a router that has refused, or could not be reached, is asked again: doubled each time.
pub(crate) const AGAIN_MIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// A grant that has stood for so long was one.
const STANDS: Duration = Duration::from_secs(5);

/// A router, and the attempt to be a member there.
#[derive(Debug)]
pub(crate) struct RouterEntry {
    /// Its control address.
    pub(crate) address: SocketAddr,
    is_named: bool,
    /// The routers that tell of it.
    tellers: Vec<SocketAddr>,
    /// What waits for an answer.
    pub(crate) asked: Option<EnrolmentId>,
    /// How often in a row there was no grant, or none that stood for [`STANDS`].
    failures: u32,
    /// When there was the last grant.
    granted_at: Option<Time>,
    /// The membership at the same router process that was granted by way of another address.
    pub(crate) alias_of: Option<EnrolmentId>,
    /// Why there was none, or why the last one ended.
    pub(crate) error: Option<RouterFailure>,
}

/// Why an endpoint is no member at a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterFailure {
    /// The reason, for programs.
    pub error: SessionError,
    /// The router's words, for people; may be empty.
    pub detail: String,
}

impl RouterFailure {
    /// Why a grant is of no use.
    pub(crate) fn of(error: &GroupError) -> RouterFailure {
        let kind = match error {
            GroupError::Unreachable(_) => SessionError::NoRoute,
            _ => SessionError::RefusedBy(RefuseCode::IncompatibleParameters),
        };
        RouterFailure::here(kind, &error.to_string())
    }

    /// What this process has found, in its own words.
    pub(crate) fn here(error: SessionError, detail: &str) -> RouterFailure {
        RouterFailure { error, detail: detail.to_owned() }
    }
}

impl core::fmt::Display for RouterFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.detail.as_str() {
            "" => self.error.fmt(f),
            detail => write!(f, "{}: {detail}", self.error),
        }
    }
}

impl std::error::Error for RouterFailure {}

impl RouterEntry {
    fn new(address: SocketAddr, is_named: bool) -> RouterEntry {
        let (tellers, asked, error) = (Vec::new(), None, None);
        let (granted_at, alias_of) = (None, None);
        RouterEntry { address, is_named, tellers, asked, failures: 0, granted_at, alias_of, error }
    }

    pub(crate) fn note_granted(&mut self, now: Time) {
        (self.asked, self.error, self.granted_at) = (None, None, Some(now));
    }

    /// Notes why there is no grant, or no more. Returns when to ask again. A router that grants and
    /// soon breaks is asked less and less often, as one that refuses.
    pub(crate) fn note_failure(&mut self, now: Time, error: RouterFailure) -> Duration {
        if self.failures.is_power_of_two() || self.failures == 0 {
            tracing::warn!(router = %self.address, %error, "not a member of its group");
        }
        (self.asked, self.error) = (None, Some(error));
        self.next_wait(now)
    }

    /// Notes that a grant is to be replaced. Returns when to ask.
    pub(crate) fn note_outdated(&mut self, now: Time) -> Duration {
        self.asked = None;
        self.next_wait(now)
    }

    fn next_wait(&mut self, now: Time) -> Duration {
        if self.granted_at.take().is_some_and(|at| now - at >= STANDS) {
            self.failures = 0;
        }
        let wait = AGAIN_MIN.saturating_mul(1 << self.failures.min(16)).min(AGAIN_MAX);
        self.failures += 1;
        jittered(wait)
    }
}

/// At least half of `wait`, the rest at random: who was cut off together does not come back
/// together.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let half_ns = wait.as_nanos() as u64 / 2;
    Duration::from_nanos(half_ns + secret_u64() % half_ns.max(1))
}

/// The routers of a group.
#[derive(Debug)]
pub(crate) struct RouterList(Vec<RouterEntry>);

impl RouterList {
    /// Those that the program names, each once. `None` if there are too many.
    pub(crate) fn new(named: &[SocketAddr]) -> Option<RouterList> {
        let mut list = RouterList(Vec::new());
        for &address in named {
            if list.get_mut(address).is_none() {
                list.0.push(RouterEntry::new(address, true));
            }
        }
        (list.0.len() <= ROUTERS_MAX).then_some(list)
    }

    /// Others are named from now on. Returns those that are new, and those that are neither named
    /// nor told of any more. There are at most `routers_max`. An empty list changes nothing.
    pub(crate) fn rename(
        &mut self,
        named: &[SocketAddr],
        routers_max: usize,
    ) -> (Vec<SocketAddr>, Vec<RouterEntry>) {
        if named.is_empty() {
            return (Vec::new(), Vec::new());
        }
        self.0.iter_mut().for_each(|entry| entry.is_named = named.contains(&entry.address));
        let left = self.take_untold();
        let mut new = Vec::new();
        for &address in named {
            if self.get_mut(address).is_none() && self.0.len() < routers_max {
                self.0.push(RouterEntry::new(address, true));
                new.push(address);
            }
        }
        (new, left)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RouterEntry> {
        self.0.iter()
    }

    pub(crate) fn get_mut(&mut self, address: SocketAddr) -> Option<&mut RouterEntry> {
        self.0.iter_mut().find(|entry| entry.address == address)
    }

    /// The router that was asked by this enrolment.
    pub(crate) fn asked_by(&mut self, enrolment: EnrolmentId) -> Option<&mut RouterEntry> {
        self.0.iter_mut().find(|entry| entry.asked == Some(enrolment))
    }

    /// A router tells of routers. What it says of itself says nothing. Returns those that are new,
    /// and those that nobody tells of any more. There are at most `routers_max`; named ones stay.
    pub(crate) fn hear(
        &mut self,
        teller: SocketAddr,
        told: &[SocketAddr],
        routers_max: usize,
    ) -> (Vec<SocketAddr>, Vec<RouterEntry>) {
        for entry in &mut self.0 {
            entry.tellers.retain(|it| *it != teller);
            if told.contains(&entry.address) && entry.address != teller {
                entry.tellers.push(teller);
            }
        }
        let left = self.take_untold();
        let mut new = Vec::new();
        for &address in told.iter().filter(|address| **address != teller) {
            if self.get_mut(address).is_none() && self.0.len() < routers_max {
                let mut entry = RouterEntry::new(address, false);
                entry.tellers.push(teller);
                self.0.push(entry);
                new.push(address);
            }
        }
        (new, left)
    }

    /// A router is gone for good: what it told does not count any more, unless the program names
    /// it. Otherwise a program that names a single router would leave all others with that one.
    /// Returns the routers that nobody tells of now.
    pub(crate) fn forget_teller(&mut self, teller: SocketAddr) -> Vec<RouterEntry> {
        if self.get_mut(teller).is_some_and(|entry| entry.is_named) {
            return Vec::new();
        }
        self.0.iter_mut().for_each(|entry| entry.tellers.retain(|it| *it != teller));
        self.take_untold()
    }

    /// Takes out those that are neither named nor told of, nor told of only by such.
    fn take_untold(&mut self) -> Vec<RouterEntry> {
        let mut reached: Vec<_> =
            self.0.iter().filter(|it| it.is_named).map(|it| it.address).collect();
        let mut at = 0;
        while let Some(&teller) = reached.get(at) {
            let told = self.0.iter().filter(|it| it.tellers.contains(&teller));
            let told: Vec<_> = told.map(|it| it.address).collect();
            reached.extend(
                told.iter().filter(|it| !reached.contains(it)).copied().collect::<Vec<_>>(),
            );
            at += 1;
        }
        self.0.extract_if(.., |entry| !reached.contains(&entry.address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn rt38_at_most_eight_routers_are_known_and_named_ones_stay() {
        assert_eq!(RouterList::new(&[]).expect("none are few").iter().count(), 0);
        assert!(RouterList::new(&(1..=9).map(at).collect::<Vec<_>>()).is_none());
        let mut list = RouterList::new(&[at(1), at(2), at(1)]).expect("two are named");
        assert_eq!(list.iter().count(), 2);
        let (new, left) = list.hear(at(1), &(1..=30).map(at).collect::<Vec<_>>(), 8);
        assert_eq!(new, (3..=8).map(at).collect::<Vec<_>>());
        assert!(left.is_empty());
        // A second teller keeps what the first one drops.
        assert_eq!(list.hear(at(2), &[at(5)], 8).0, []);
        let (new, left) = list.hear(at(1), &[at(9)], 8);
        let left: Vec<_> = left.iter().map(|entry| entry.address).collect();
        assert_eq!(left, [3, 4, 6, 7, 8].map(at));
        assert_eq!(new, [at(9)]);
        let (_, left) = list.hear(at(2), &[], 8);
        assert_eq!(left.iter().map(|entry| entry.address).collect::<Vec<_>>(), [at(5)]);
        list.hear(at(1), &[], 8);
        assert_eq!(list.iter().map(|entry| entry.address).collect::<Vec<_>>(), [at(1), at(2)]);
    }

    #[test]
    fn rt38_routers_that_only_each_other_tell_of_are_forgotten() {
        let mut list = RouterList::new(&[at(1)]).expect("one is named");
        let everybody: Vec<_> = (1..=4).map(at).collect();
        for teller in 1..=4 {
            list.hear(at(teller), &everybody, 8);
        }
        assert_eq!(list.iter().count(), 4);
        // The fourth is taken out of service: the others do not tell of it any more. What it said
        // of itself does not keep it.
        for teller in 1..=3 {
            list.hear(at(teller), &everybody[..3], 8);
        }
        assert_eq!(list.iter().count(), 3);
        // The first stops telling of anybody, and the second and third keep each other not.
        let left = list.hear(at(1), &[], 8).1;
        assert_eq!(left.len(), 2);
        // One that is gone tells of nobody, but for one that is named.
        list.hear(at(1), &[at(5)], 8);
        list.hear(at(5), &[at(6)], 8);
        assert_eq!(list.forget_teller(at(5)).len(), 1);
        assert_eq!(list.forget_teller(at(1)).len(), 0);
        assert_eq!(list.iter().count(), 2);
    }

    #[test]
    fn who_refuses_is_asked_less_and_less_often() {
        let mut entry = RouterEntry::new(at(1), true);
        let failure = RouterFailure { error: SessionError::Refused, detail: String::new() };
        let now = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let again = |entry: &mut RouterEntry, ms| entry.note_failure(now(ms), failure.clone());
        let waits: Vec<_> = (0..40).map(|_| again(&mut entry, 0)).collect();
        assert!(waits[0] >= AGAIN_MIN / 2 && waits[0] < AGAIN_MIN);
        assert!(waits[39] >= AGAIN_MAX / 2 && waits[39] < AGAIN_MAX);
        entry.note_granted(now(100));
        assert!(again(&mut entry, 200) >= AGAIN_MAX / 2, "it broke at once");
        entry.note_granted(now(300));
        assert!(again(&mut entry, 5300) < AGAIN_MIN, "it stood");
    }
}
