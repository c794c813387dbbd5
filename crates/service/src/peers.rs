//! Numbers of what applications call, by which policies tell peers apart.
//!
//! All applications that call a name have one number for it: what a policy has learnt of a peer
//! from one of them holds for the others. Callers have other numbers: those of this host have those
//! of their applications, and those of other hosts begin at 2^31.
//!
//! # Invariants
//!
//! - No number is given to two names. A name has its number for as long as an application calls it,
//!   and longer while there is room.
//! - At most [`NAMES_MAX`] names have numbers of their own, whatever applications call.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::Peer;

/// The numbers of names: up to [`REST`].
const FIRST: u32 = 1 << 30;
/// What has no number of its own: names for which there is no room, and what is no target.
pub(crate) const REST: Peer = Peer((1 << 31) - 1);
/// As many names have numbers of their own.
const NAMES_MAX: usize = 1 << 16;

/// Names that applications call.
#[derive(Debug)]
pub(crate) struct Peers {
    by_name: HashMap<Arc<str>, u32>,
    next: u32,
    names_max: usize,
    /// Names that came since those were forgotten last that nobody calls any more.
    since_forgotten: usize,
}

impl Default for Peers {
    fn default() -> Peers {
        Peers::new(NAMES_MAX)
    }
}

impl Peers {
    fn new(names_max: usize) -> Peers {
        Peers { by_name: HashMap::new(), next: FIRST, names_max, since_forgotten: names_max }
    }

    /// The number of a name that an application calls, and the name, which it keeps for as long.
    pub(crate) fn number(&mut self, name: &str) -> (Arc<str>, Peer) {
        if let Some((name, number)) = self.by_name.get_key_value(name) {
            return (name.clone(), Peer(*number));
        }
        self.since_forgotten = self.since_forgotten.saturating_add(1);
        // It looks at all names: not for each that comes.
        if self.by_name.len() >= self.names_max && self.since_forgotten > self.names_max / 4 {
            self.by_name.retain(|name, _| Arc::strong_count(name) > 1);
            self.since_forgotten = 0;
        }
        let name: Arc<str> = name.into();
        if self.by_name.len() >= self.names_max || Peer(self.next) == REST {
            return (name, REST);
        }
        self.by_name.insert(name.clone(), self.next);
        self.next += 1;
        (name, Peer(self.next - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_no_other_has_it() {
        let mut peers = Peers::new(4);
        let all: Vec<_> = ["a", "b", "c", "d"].map(|name| peers.number(name)).into();
        for (name, number) in &all {
            assert_eq!(peers.number(name), (name.clone(), *number));
        }
        let numbers: std::collections::BTreeSet<_> = all.iter().map(|(_, number)| number).collect();
        assert_eq!(numbers.len(), 4);
        // There is no room until names are called no more.
        for other in ["e", "f", "g"] {
            assert_eq!(peers.number(other).1, REST);
        }
        let (_, kept) = all[3];
        drop(all);
        let held = peers.number("d");
        let given = ["h", "i"].map(|name| peers.number(name).1);
        assert!(given.iter().any(|number| *number != REST), "{given:?}");
        assert_eq!(held.1, kept, "it is still called");
        assert_eq!(peers.number("d"), held);
    }

    #[test]
    fn many_names_take_bounded_memory_and_time() {
        let mut peers = Peers::new(64);
        for number in 0..10_000 {
            let (_, _) = peers.number(&number.to_string());
            assert!(peers.by_name.len() <= 64);
        }
    }
}
