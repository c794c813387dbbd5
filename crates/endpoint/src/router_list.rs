//! The routers of one group: those that the program names, and those that they tell of (RT36).

use std::net::SocketAddr;

use core::time::Duration;

use petasos_base::secret_u64;

use crate::enrolment::EnrolmentId;
use crate::error::SessionError;

/// The most routers of a group (RT38).
pub(crate) const ROUTERS_MAX: usize = petasos_control::ROUTERS_MAX;

/// Until a router that has refused, or could not be reached, is asked again: doubled each time.
const AGAIN_MIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);

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
    /// How often in a row there was no grant.
    failures: u32,
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
        RouterEntry { address, is_named, tellers, asked, failures: 0, error }
    }

    pub(crate) fn note_granted(&mut self) {
        (self.asked, self.failures, self.error) = (None, 0, None);
    }

    /// Notes why there is no grant, or no more. Returns when to ask again.
    pub(crate) fn note_failure(&mut self, error: RouterFailure) -> Duration {
        (self.asked, self.error) = (None, Some(error));
        let wait = AGAIN_MIN.saturating_mul(1 << self.failures.min(16)).min(AGAIN_MAX);
        self.failures += 1;
        // Who was cut off together does not come back together.
        let half_ns = wait.as_nanos() as u64 / 2;
        Duration::from_nanos(half_ns + secret_u64() % half_ns.max(1))
    }
}

/// The routers of a group.
#[derive(Debug)]
pub(crate) struct RouterList(Vec<RouterEntry>);

impl RouterList {
    /// Those that the program names, each once. `None` if there is none, or too many.
    pub(crate) fn new(named: &[SocketAddr]) -> Option<RouterList> {
        let mut list = RouterList(Vec::new());
        for &address in named {
            if list.get_mut(address).is_none() {
                list.0.push(RouterEntry::new(address, true));
            }
        }
        (1..=ROUTERS_MAX).contains(&list.0.len()).then_some(list)
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

    /// A router tells of routers. Returns those that are new, and what is asked of those that
    /// nobody tells of any more. There is room for [`ROUTERS_MAX`]; named ones stay.
    pub(crate) fn hear(
        &mut self,
        teller: SocketAddr,
        told: &[SocketAddr],
    ) -> (Vec<SocketAddr>, Vec<RouterEntry>) {
        for entry in &mut self.0 {
            entry.tellers.retain(|it| *it != teller);
            if told.contains(&entry.address) {
                entry.tellers.push(teller);
            }
        }
        let is_left = |entry: &mut RouterEntry| !entry.is_named && entry.tellers.is_empty();
        let left = self.0.extract_if(.., is_left).collect();
        let mut new = Vec::new();
        for &address in told {
            if self.get_mut(address).is_none() && self.0.len() < ROUTERS_MAX {
                let mut entry = RouterEntry::new(address, false);
                entry.tellers.push(teller);
                self.0.push(entry);
                new.push(address);
            }
        }
        (new, left)
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
        assert!(RouterList::new(&[]).is_none());
        assert!(RouterList::new(&(1..=9).map(at).collect::<Vec<_>>()).is_none());
        let mut list = RouterList::new(&[at(1), at(2), at(1)]).expect("two are named");
        assert_eq!(list.iter().count(), 2);
        let (new, left) = list.hear(at(1), &(1..=30).map(at).collect::<Vec<_>>());
        assert_eq!(new, (3..=8).map(at).collect::<Vec<_>>());
        assert!(left.is_empty());
        // A second teller keeps what the first one drops.
        assert_eq!(list.hear(at(2), &[at(5)]).0, []);
        let (new, left) = list.hear(at(1), &[at(9)]);
        let left: Vec<_> = left.iter().map(|entry| entry.address).collect();
        assert_eq!(left, [3, 4, 6, 7, 8].map(at));
        assert_eq!(new, [at(9)]);
        let (_, left) = list.hear(at(2), &[]);
        assert_eq!(left.iter().map(|entry| entry.address).collect::<Vec<_>>(), [at(5)]);
        list.hear(at(1), &[]);
        assert_eq!(list.iter().map(|entry| entry.address).collect::<Vec<_>>(), [at(1), at(2)]);
    }

    #[test]
    fn who_refuses_is_asked_less_and_less_often() {
        let mut entry = RouterEntry::new(at(1), true);
        let failure = RouterFailure { error: SessionError::Refused, detail: String::new() };
        let waits: Vec<_> = (0..40).map(|_| entry.note_failure(failure.clone())).collect();
        assert!(waits[0] >= AGAIN_MIN / 2 && waits[0] < AGAIN_MIN);
        assert!(waits[39] >= AGAIN_MAX / 2 && waits[39] < AGAIN_MAX);
        entry.note_granted();
        assert!(entry.note_failure(failure) < AGAIN_MIN);
    }
}
