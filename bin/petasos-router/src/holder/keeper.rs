//! What is kept, and for whom. Knows no sockets and no programs, so that all of it can be tried.

use std::time::Duration;

use petasos_base::Time;
use petasos_netio_xdp::InterfacePlace;

/// How long a program goes on without its process (RT35).
pub const OUTLIVE: Duration = Duration::from_secs(10);
/// The most that is kept at a time.
const KEPT_MAX: usize = 64;

/// A connection.
pub type Peer = u64;

/// See the module's documentation.
#[derive(Debug)]
pub struct Keeper<H> {
    all: Vec<Entry<H>>,
}

#[derive(Debug)]
struct Entry<H> {
    place: InterfacePlace,
    held: H,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Its router runs.
    Runs(Peer),
    /// Its router is gone, until when it is kept, and who has asked for it.
    Gone(Time, Option<Peer>),
}

impl<H> Default for Keeper<H> {
    fn default() -> Keeper<H> {
        Keeper { all: Vec::new() }
    }
}

impl<H> Keeper<H> {
    /// What a router that is gone has left there, for this one alone.
    pub fn ask(&mut self, peer: Peer, place: InterfacePlace) -> Option<&H> {
        let entry = self.all.iter_mut().find(|entry| entry.place == place)?;
        match &mut entry.owner {
            Owner::Gone(_, asked) if asked.is_none_or(|it| it == peer) => *asked = Some(peer),
            _ => return None,
        }
        Some(&entry.held)
    }

    /// Keeps something for a router, in the place of what was there.
    ///
    /// # Errors
    /// Why it may not.
    pub fn keep(&mut self, peer: Peer, place: InterfacePlace, held: H) -> Result<(), &'static str> {
        let is_other = |it: &Entry<H>| it.owner == Owner::Runs(peer) && it.place != place;
        if self.all.iter().any(is_other) {
            return Err("a connection is for one interface");
        }
        let (owner, is_full) = (Owner::Runs(peer), self.all.len() >= KEPT_MAX);
        match self.all.iter_mut().find(|entry| entry.place == place) {
            Some(entry) => match entry.owner {
                Owner::Runs(other) if other != peer => {
                    return Err("another router runs there");
                }
                Owner::Gone(_, Some(other)) if other != peer => {
                    return Err("another router is taking over there");
                }
                _ => (entry.held, entry.owner) = (held, owner),
            },
            None if is_full => return Err("there is no room for more"),
            None => self.all.push(Entry { place, held, owner }),
        }
        Ok(())
    }

    /// Whether something is kept for a router that runs.
    pub fn keeps_for(&self, peer: Peer) -> bool {
        self.all.iter().any(|entry| entry.owner == Owner::Runs(peer))
    }

    /// A router ends in order. Gives what was kept for it.
    pub fn forget(&mut self, peer: Peer) -> Vec<H> {
        let is_it = |entry: &mut Entry<H>| entry.owner == Owner::Runs(peer);
        self.all.extract_if(.., is_it).map(|entry| entry.held).collect()
    }

    /// A connection has ended without a word. Gives what has no router from now on.
    pub fn lose(&mut self, peer: Peer, now: Time) -> Option<&H> {
        let mut left = None;
        for entry in &mut self.all {
            match &mut entry.owner {
                Owner::Runs(it) if *it == peer => {
                    entry.owner = Owner::Gone(now + OUTLIVE, None);
                    left = Some(&entry.held);
                }
                Owner::Gone(_, asked) if *asked == Some(peer) => *asked = None,
                _ => {}
            }
        }
        left
    }

    /// What has been without a router for too long.
    pub fn lapse(&mut self, now: Time) -> Vec<H> {
        let is_over =
            |entry: &mut Entry<H>| matches!(entry.owner, Owner::Gone(until, _) if until <= now);
        self.all.extract_if(.., is_over).map(|entry| entry.held).collect()
    }

    /// When that is the case next.
    pub fn next_due(&self) -> Time {
        let due = |entry: &Entry<H>| match entry.owner {
            Owner::Gone(until, _) => until,
            Owner::Runs(_) => Time::NEVER,
        };
        self.all.iter().map(due).min().unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn place(interface: u32) -> InterfacePlace {
        InterfacePlace { namespace: 1, interface }
    }

    #[test]
    fn rt35_what_a_router_has_left_is_kept_for_a_while_and_for_one_successor() {
        let mut keeper = Keeper::default();
        assert_eq!(keeper.ask(1, place(1)), None);
        keeper.keep(1, place(1), "first").expect("it is free");
        assert_eq!((keeper.next_due(), keeper.ask(2, place(1))), (Time::NEVER, None));
        keeper.keep(2, place(1), "other").expect_err("its router runs");
        assert_eq!(keeper.lose(1, NOW), Some(&"first"));
        assert_eq!(keeper.next_due(), NOW + OUTLIVE);
        assert_eq!(keeper.ask(2, place(2)), None, "that is another interface");
        assert_eq!(keeper.ask(2, place(1)), Some(&"first"));
        assert_eq!(keeper.ask(3, place(1)), None, "another one is taking over");
        keeper.keep(3, place(1), "third").expect_err("and only that may");
        // It dies before it has: the next one may, and there is no more time than before.
        assert_eq!(keeper.lose(2, NOW), None);
        assert_eq!(keeper.ask(3, place(1)), Some(&"first"));
        assert_eq!(keeper.next_due(), NOW + OUTLIVE);
        keeper.keep(3, place(1), "second").expect("it has asked");
        assert!(keeper.keeps_for(3) && !keeper.keeps_for(2));
        assert!(keeper.lapse(NOW + OUTLIVE).is_empty(), "it has a router");
        assert_eq!(keeper.lose(3, NOW), Some(&"second"));
        assert!(keeper.lapse(NOW).is_empty());
        assert_eq!(keeper.lapse(NOW + OUTLIVE), ["second"]);
        assert_eq!(keeper.ask(4, place(1)), None);
    }

    #[test]
    fn who_ends_in_order_leaves_nothing_and_takes_nothing_of_others() {
        let mut keeper = Keeper::default();
        keeper.keep(1, place(1), 1).expect("it is free");
        keeper.keep(2, place(2), 2).expect("it is free");
        keeper.keep(1, place(3), 3).expect_err("it has one");
        keeper.keep(1, place(1), 4).expect("it is its own");
        assert_eq!(keeper.forget(1), [4]);
        assert_eq!(keeper.lose(1, NOW), None);
        assert_eq!(keeper.ask(3, place(1)), None);
        assert_eq!(keeper.lose(2, NOW), Some(&2));
        assert!(keeper.forget(2).is_empty(), "it is gone");
        for interface in 10..9 + KEPT_MAX as u32 {
            keeper.keep(interface.into(), place(interface), 0).expect("there is room");
        }
        keeper.keep(9, place(9), 0).expect_err("there is none");
        assert_eq!(keeper.lapse(NOW + OUTLIVE), [2]);
        keeper.keep(9, place(9), 0).expect("there is room again");
    }
}
