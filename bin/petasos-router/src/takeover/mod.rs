//! Taking a group's virtual address over (ADR 41): a thread for each group that has one.
//!
//! The thread watches the group's other router (`watch`), decides (`rule`), and does what is
//! decided: it gives the address to the interface and announces it, and has the group's clients
//! told who is active.
//!
//! Invariants:
//! - clients are told after the address is there, and told that the router stands by before the
//!   address goes: who hears that somebody is active can reach it;
//! - the address is there for [`LIFETIME`] at most after this process was killed;
//! - what the system refuses costs the address, and not the router: members that are attached hear
//!   all the same who is active.

mod rule;
mod settings;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Clock, Time};
use petasos_netlink::{AddressError, VirtualAddress};
use petasos_router_control::{Active, Operator};

use crate::said::say;
use rule::{Change, Rule, Seen, Why};
pub use settings::{Subnetted, TakeoverSettings};
use watch::{Watch, Watchtower};

/// For how long the address is taken at a time.
const LIFETIME: Duration = Duration::from_secs(3);
/// How often it is taken again.
const REFRESH: Duration = Duration::from_secs(1);
/// When it is announced: at once, after the time for which hosts do not believe in another change
/// (a second, in Linux), and when the one before has lost it by itself.
const ANNOUNCE_AFTER: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(1200), Duration::from_millis(4500)];
const NOTHING: [Time; ANNOUNCE_AFTER.len()] = [Time::NEVER; ANNOUNCE_AFTER.len()];
/// How long to wait for news of the other router at a time.
const LOOK: Duration = Duration::from_millis(10);

/// A group's part in having the address. Dropping it gives the address up.
pub struct Takeover {
    ends: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Takeover {
    /// Begins to watch and to take over.
    ///
    /// # Errors
    /// A text that says what the system refuses.
    pub fn start(
        settings: TakeoverSettings,
        listen: SocketAddr,
        operator: Operator,
    ) -> Result<Takeover, String> {
        let TakeoverSettings { shared, own, peer, is_first, failure, node } = settings;
        // One that was killed may have left it. And who may not take it away may not take it.
        shared.give_up().map_err(|error| format!("{}: {error}", shared.address()))?;
        let tower = Watchtower::build(node, own, peer, failure)?;
        let ends = Arc::new(AtomicBool::new(false));
        let heard = ends.clone();
        let run = move || {
            let clock = Clock::system();
            let holding = Holding { shared, refresh_at: Time::ZERO, announce_at: NOTHING };
            let rule = Rule::new(clock.now(), is_first);
            let (names, trouble) = ((listen, peer), String::new());
            match tower.watch() {
                Ok(watch) => {
                    Turns { rule, holding, operator, clock, names, trouble }.run(watch, &heard)
                }
                Err(error) => say(&format!("group at {listen}: {peer} is not watched: {error}")),
            }
        };
        let thread = std::thread::Builder::new().name("petasos-takeover".to_owned());
        let thread = thread.spawn(run).map_err(|error| format!("no thread: {error}"))?;
        Ok(Takeover { ends, thread: Mutex::new(Some(thread)) })
    }

    /// Whether its thread runs.
    pub fn is_running(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Gives the address up, and does not take it any more.
    pub fn end(&self) {
        // The thread reads nothing else that was written here.
        self.ends.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If it panicked, that was reported.
        thread.map(JoinHandle::join).map(drop).unwrap_or_default();
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread.
struct Turns {
    rule: Rule,
    holding: Holding,
    operator: Operator,
    clock: Clock,
    /// Of the group, and of the other router.
    names: (SocketAddr, SocketAddr),
    /// What the system has refused last, which is said once.
    trouble: String,
}

impl Turns {
    fn run(mut self, mut watch: Watch, ends: &AtomicBool) {
        let mut seen = None;
        while !ends.load(Ordering::Relaxed) {
            let before = seen;
            seen = watch.look(before, LOOK);
            let now = self.clock.now();
            self.turn(now, before, seen);
        }
        if self.rule.is_active() {
            self.stand_by(self.rule.term());
        }
    }

    fn turn(&mut self, now: Time, before: Option<Seen>, seen: Option<Seen>) {
        let change = self.rule.turn(now, seen);
        let (listen, peer) = self.names;
        let address = self.holding.shared.address();
        match change {
            Some(Change::Take(term, why)) => {
                self.holding.begin(now);
                self.hold(now);
                self.operator.set_active(Active { is_active: true, term }, || {});
                let why = match why {
                    Why::Gone => format!("{peer} is gone"),
                    Why::StandsBy => format!("{peer} stands by"),
                    Why::Alone => format!("{peer} was not reached"),
                };
                say(&format!("group at {listen}: active at {address}, term {term}: {why}"));
            }
            Some(Change::GiveUp(term)) => {
                self.stand_by(term);
                say(&format!("group at {listen}: stands by: {peer} is active, term {term}"));
            }
            None if self.rule.is_active() => {
                if before != seen && seen.is_some() {
                    // It may have had the address, and have announced it.
                    self.holding.begin(now);
                }
                self.hold(now);
            }
            None => {}
        }
    }

    fn hold(&mut self, now: Time) {
        let held = self.holding.turn(now);
        self.note(held);
    }

    fn stand_by(&mut self, term: u32) {
        self.operator.set_active(Active { is_active: false, term }, || {});
        let given_up = self.holding.shared.give_up().map(drop);
        self.note(given_up);
    }

    fn note(&mut self, done: Result<(), AddressError>) {
        let trouble = done.err().map(|error| error.to_string()).unwrap_or_default();
        if !trouble.is_empty() && trouble != self.trouble {
            let (listen, address) = (self.names.0, self.holding.shared.address());
            say(&format!("group at {listen}: {address}: {trouble}"));
        }
        self.trouble = trouble;
    }
}

/// The address, as long as the router is active.
struct Holding {
    shared: VirtualAddress,
    refresh_at: Time,
    /// When it has to be announced.
    announce_at: [Time; ANNOUNCE_AFTER.len()],
}

impl Holding {
    /// The address has to be taken and announced.
    fn begin(&mut self, now: Time) {
        self.refresh_at = now;
        self.announce_at = ANNOUNCE_AFTER.map(|after| now + after);
    }

    /// Does what is due.
    fn turn(&mut self, now: Time) -> Result<(), AddressError> {
        if now >= self.refresh_at {
            self.refresh_at = now + REFRESH;
            self.shared.take(LIFETIME)?;
        }
        for at in self.announce_at.iter_mut().filter(|at| **at <= now) {
            *at = Time::NEVER;
            self.shared.announce()?;
        }
        Ok(())
    }
}
