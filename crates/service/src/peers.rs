//! Numbers by which policies tell applications and peers apart.
//!
//! All applications that call a name have one number for it: what a policy has learnt of a peer
//! from one of them holds for the others. Callers have other numbers: those of this host have those
//! of their applications, and those of other hosts begin at 2^31.
//!
//! An application that attaches again is who it was before, so that it cannot get a new share of a
//! limit by that. It is known by its name if that is [proved](crate::Application::prove_name),
//! otherwise by its user and its name: nobody can use up the share of another user's application.
//! Two at a time count as one.
//!
//! # Invariants
//!
//! - No number is given to two names. A name has its number for as long as an application calls it,
//!   or has it, and longer while there is room.
//! - At most [`NAMES_MAX`] names of either sort have numbers of their own, whatever applications
//!   call. An application whose name has none is known by its own number.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::{Application as Number, Peer};

use crate::numbered::Numbered;
use crate::remembered::Remembered;

/// The numbers of names: up to [`REST`].
pub(crate) const FIRST: u32 = 1 << 30;
/// The numbers of callers of other hosts, from this one on.
pub(crate) const CALLERS_FIRST: u32 = 1 << 31;
/// What has no number of its own: names for which there is no room, and what is no target.
pub(crate) const REST: Peer = Peer::NONE;
/// As many names have numbers of their own.
pub(crate) const NAMES_MAX: usize = 1 << 16;

/// Names that applications call, and applications by their names.
#[derive(Debug)]
pub(crate) struct Peers {
    called: Remembered<str>,
    next: u32,
    applications: Remembered<str>,
    /// Of other hosts, for [`PolicyNames`]: who numbers them knows them itself.
    callers: Vec<(u32, Arc<str>)>,
}

/// What the numbers mean by which policies know applications and peers.
#[derive(Clone, Debug, Default)]
pub struct PolicyNames {
    /// Applications of this host.
    applications: HashMap<u32, Arc<str>>,
    /// Names that they call, and callers of other hosts.
    peers: HashMap<u32, Arc<str>>,
}

impl PolicyNames {
    /// The name of an application of this host.
    pub fn application(&self, number: u32) -> Option<&str> {
        self.applications.get(&number).map(|name| &**name)
    }

    /// The name of a peer: one that is called, or who calls, of this host or another.
    pub fn peer(&self, number: u32) -> Option<&str> {
        self.peers.get(&number).map(|name| &**name).or_else(|| self.application(number))
    }
}

/// The same, as they are remembered.
pub(crate) struct RawNames {
    applications: Vec<(u32, Arc<str>)>,
    peers: Vec<(u32, Arc<str>)>,
}

impl From<RawNames> for PolicyNames {
    fn from(RawNames { applications, peers }: RawNames) -> PolicyNames {
        // Behind the user.
        let own = |key: &str| key.split_once(' ').map_or(key, |(_, name)| name).into();
        let applications = applications.iter().map(|(number, key)| (*number, own(key))).collect();
        PolicyNames { applications, peers: peers.into_iter().collect() }
    }
}

/// As what policies know an application.
pub(crate) struct Policed {
    /// The number of the first with its name.
    pub(crate) number: Number,
    /// Keeps that number its own.
    _key: Option<Arc<str>>,
}

impl Policed {
    /// An application of which nothing is known but its number.
    pub(crate) fn new(number: Number) -> Policed {
        Policed { number, _key: None }
    }
}

impl Default for Peers {
    fn default() -> Peers {
        let (called, applications) = (Remembered::new(NAMES_MAX), Remembered::new(NAMES_MAX));
        Peers { called, next: FIRST, applications, callers: Vec::new() }
    }
}

impl Peers {
    /// The number of a name that an application calls, and the name, which it keeps for as long.
    pub(crate) fn number(&mut self, name: &str) -> (Arc<str>, Peer) {
        let next = &mut self.next;
        let (name, number) = self.called.number(name, || {
            let number = *next;
            *next = REST.0.min(number + 1);
            (Peer(number) != REST).then_some(number)
        });
        (name, number.map_or(REST, Peer))
    }

    /// The names of all numbers.
    pub(crate) fn names(&self) -> RawNames {
        let all = |of: &Remembered<str>| -> Vec<_> {
            of.all().map(|(name, number)| (number, name.clone())).collect()
        };
        let peers = [all(&self.called), self.callers.clone()].concat();
        RawNames { applications: all(&self.applications), peers }
    }

    /// What is called, callers of other hosts, and applications of this one, with their numbers.
    pub(crate) fn numbers(&self) -> [Vec<(Arc<str>, u32)>; 3] {
        let all = |of: &Remembered<str>| -> Vec<_> {
            of.all().map(|(name, number)| (name.clone(), number)).collect()
        };
        let callers = self.callers.iter().map(|(number, name)| (name.clone(), *number));
        [all(&self.called), callers.collect(), all(&self.applications)]
    }

    /// The next number of a name that is called.
    pub(crate) fn next_called(&self) -> u32 {
        self.next
    }

    /// Goes on with the numbers of another process: nobody has any yet.
    pub(crate) fn inherit(
        &mut self,
        called: Numbered<Arc<str>>,
        callers: Vec<(Arc<str>, u32)>,
        applications: Vec<(Arc<str>, u32)>,
    ) {
        self.next = called.next;
        // There is room: they were counted.
        called.known.into_iter().for_each(|(name, number)| self.called.put(name, number));
        applications.into_iter().for_each(|(key, number)| self.applications.put(key, number));
        self.callers = callers.into_iter().map(|(name, number)| (number, name)).collect();
    }

    /// Callers of other hosts that have numbers.
    pub(crate) fn callers(&self) -> &[(u32, Arc<str>)] {
        &self.callers
    }

    /// A caller of another host: whoever gave it the number bounds how many there are.
    pub(crate) fn add_caller(&mut self, peer: Peer, name: Arc<str>) {
        self.callers.push((peer.0, name));
    }

    /// As what policies know an application, which keeps this for as long as it is attached.
    /// `number` is its own.
    pub(crate) fn application(
        &mut self,
        (name, user): (&str, Option<u32>),
        number: Number,
    ) -> Policed {
        let key = match user {
            Some(user) => format!("{user} {name}"),
            // No user's number begins with a space.
            None => format!(" {name}"),
        };
        let (key, first) = self.applications.number(&*key, || Some(number.0));
        Policed { number: first.map_or(number, Number), _key: Some(key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_known_by_its_proved_name_or_by_user_and_name() {
        let mut peers = Peers::default();
        let mut known_as =
            |name, user, number| peers.application((name, user), Number(number)).number.0;
        assert_eq!(known_as("shop", Some(7), 1), 1);
        assert_eq!(known_as("shop", Some(7), 2), 1, "it is back");
        assert_eq!(known_as("shop", Some(8), 3), 3, "another user's");
        assert_eq!(known_as("shop", None, 4), 4, "a proved name is nobody's but its own");
        assert_eq!(known_as("7 shop", None, 5), 5);
        assert_eq!(known_as("shop", None, 6), 4);
        let (_, called) = peers.number("7 called");
        let names = PolicyNames::from(peers.names());
        let application = [1, 2, 3, 4, 5].map(|number| names.application(number));
        assert_eq!(application, [Some("shop"), None, Some("shop"), Some("shop"), Some("7 shop")]);
        assert_eq!([names.peer(called.0), names.peer(1)], [Some("7 called"), Some("shop")]);
        assert_eq!(names.peer(77), None);
    }
}
