//! The process that runs: who may take over from it, and how far that is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use petasos_attach::{Bound, Credentials};
use petasos_base::Time;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::wire::{NOT_EXPECTED, Offer, Output, Received, Said, offered, receive};

/// How long the taker has for each packet that it owes; for *serving*, it may have to load
/// plug-ins.
const PATIENCE: Duration = Duration::from_secs(5);
const START_MAX: Duration = Duration::from_secs(60);
/// So long nobody is let in after the system had no descriptor or memory left for it.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not said hello.
    Hello,
    /// It has got the offer, and has not said that it serves.
    Offered,
    /// It serves, and is being told of the applications.
    Giving,
    /// It knows all.
    Given,
}

/// The process that takes over.
struct Taker {
    socket: OwnedFd,
    who: Credentials,
    phase: Phase,
    /// It goes on with the states of policies. Earlier versions do not.
    takes_states: bool,
    output: Output,
    due: Time,
}

/// What the daemon has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A process may take over, and wants the offer: [`Giver::offer`], or [`Giver::refuse`].
    Wants(Credentials),
    /// It serves: [`Giver::give`].
    Serves(Credentials),
    /// It knows all that it has to know.
    Knows,
    /// It was refused, or has failed before it served. All is as before.
    Failed(Credentials, String),
    /// It has failed when it had said that it serves.
    Crashed(String),
}

/// Listens for a process that takes over.
pub struct Giver {
    /// None once it was given.
    bound: Option<Bound>,
    taker: Option<Taker>,
    /// When somebody may be let in again.
    accepts_from: Time,
}

impl Giver {
    /// Listens at a path.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub fn listen(path: &Path) -> Result<Giver, String> {
        let bound = Bound::packets(path, 0o600);
        let failed = |error| format!("cannot listen at {}: {error}", path.display());
        bound.map(Giver::on).map_err(failed)
    }

    /// Listens at a socket that was taken over.
    pub fn on(bound: Bound) -> Giver {
        Giver { bound: Some(bound), taker: None, accepts_from: Time::ZERO }
    }

    /// Descriptors for the process that takes over.
    ///
    /// # Errors
    /// There are none, or no room for them.
    pub fn shared(&self) -> Result<[OwnedFd; 2], String> {
        let bound = self.bound.as_ref().ok_or("another process has taken over")?;
        bound.shared().map_err(|error| error.to_string())
    }

    /// Descriptors to wait for.
    pub fn descriptors(&self, now: Time) -> impl Iterator<Item = BorrowedFd<'_>> {
        let taker = self.taker.iter().map(|taker| taker.socket.as_fd());
        let bound = self.bound.iter().filter(move |_| now >= self.accepts_from);
        bound.map(AsFd::as_fd).chain(taker)
    }

    /// Whether something is to be sent, so that no sleep should be long.
    pub fn is_busy(&self) -> bool {
        self.taker.as_ref().is_some_and(|taker| !taker.output.is_empty())
    }

    /// Whether the taker has got what is in force.
    pub fn has_offered(&self) -> bool {
        self.taker.as_ref().is_some_and(|taker| taker.phase != Phase::Hello)
    }

    /// Whether the taker goes on with the states of policies.
    pub fn takes_states(&self) -> bool {
        self.taker.as_ref().is_some_and(|taker| taker.takes_states)
    }

    /// By when the taker has to have said something.
    pub fn next_due(&self) -> Option<Time> {
        self.taker.as_ref().map(|taker| taker.due).filter(|due| *due != Time::NEVER)
    }

    /// Hears who wants to take over.
    pub fn turn(&mut self, now: Time) -> Option<Step> {
        let accepted = self.accept(now);
        if accepted.is_some() {
            return accepted;
        }
        let taker = self.taker.as_mut()?;
        if taker.output.flush(taker.socket.as_fd()).is_err() {
            return Some(self.failed("it is gone"));
        }
        let taker = self.taker.as_mut()?;
        if taker.phase == Phase::Giving && taker.output.is_empty() {
            (taker.phase, taker.due) = (Phase::Given, Time::NEVER);
            return Some(Step::Knows);
        }
        match (receive(taker.socket.as_fd()), taker.phase) {
            (Received::Said(Said::Hello { takes_states }), Phase::Hello) => {
                taker.takes_states = takes_states;
                Some(Step::Wants(taker.who))
            }
            (Received::Said(Said::Serving), Phase::Offered) if taker.output.is_empty() => {
                Some(Step::Serves(taker.who))
            }
            (Received::Said(_) | Received::Garbage, _) => Some(self.failed(NOT_EXPECTED)),
            (Received::Gone, _) => Some(self.failed("it is gone")),
            (Received::Nothing, _) if taker.due <= now => Some(self.failed("it takes too long")),
            (Received::Nothing, _) => None,
        }
    }

    /// Gives the taker what it wants.
    pub fn offer(&mut self, offer: Offer, now: Time) {
        let Some(taker) = &mut self.taker else { return };
        offered(offer).for_each(|said| taker.output.push(said));
        (taker.phase, taker.due) = (Phase::Offered, now + START_MAX);
        // That it is gone shows in the next turn.
        let _ = taker.output.flush(taker.socket.as_fd());
    }

    /// Does not give anything.
    pub fn refuse(&mut self, why: &str) {
        if let Some(taker) = self.taker.take() {
            refuse(taker.socket.as_fd(), why);
        }
    }

    /// Leaves the path to the taker, and tells it of the applications, and what it takes besides.
    pub fn give(&mut self, all: impl Iterator<Item = Said>, now: Time) {
        if let Some(bound) = self.bound.take() {
            bound.give();
        }
        let Some(taker) = &mut self.taker else { return };
        all.chain([Said::Given]).for_each(|said| taker.output.push(said));
        (taker.phase, taker.due) = (Phase::Giving, now + PATIENCE);
    }

    /// Tells the taker that all applications are attached to it, as far as they will be.
    pub fn settle(&mut self) {
        if let Some(taker) = &mut self.taker {
            taker.output.push(Said::Settled);
            let _ = taker.output.flush(taker.socket.as_fd());
        }
    }

    fn failed(&mut self, why: &str) -> Step {
        let Some(taker) = self.taker.take() else { return Step::Crashed(why.to_owned()) };
        match taker.phase {
            Phase::Hello | Phase::Offered => {
                refuse(taker.socket.as_fd(), why);
                Step::Failed(taker.who, why.to_owned())
            }
            Phase::Giving | Phase::Given => Step::Crashed(why.to_owned()),
        }
    }

    /// Lets in one process that may take over. All others are told why they may not.
    fn accept(&mut self, now: Time) -> Option<Step> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let bound = self.bound.as_ref().filter(|_| now >= self.accepts_from)?;
        let socket = match accept_with(bound, flags) {
            Ok(socket) => socket,
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => return None,
            Err(error) => {
                eprintln!("petasosd: nobody can take over for a while: {error}");
                self.accepts_from = now + PAUSE;
                return None;
            }
        };
        let who = Credentials::of(socket.as_fd()).ok()?;
        let why = match self.taker {
            _ if !may_take_over(who.uid, rustix::process::geteuid().as_raw()) => {
                "only the service's user and root may take over"
            }
            Some(_) => "another process is taking over",
            None => {
                let (phase, output, due) = (Phase::Hello, Output::default(), now + PATIENCE);
                let takes_states = false;
                self.taker = Some(Taker { socket, who, phase, takes_states, output, due });
                return None;
            }
        };
        refuse(socket.as_fd(), why);
        Some(Step::Failed(who, why.to_owned()))
    }
}

fn refuse(socket: BorrowedFd<'_>, why: &str) {
    let mut output = Output::default();
    output.push(Said::Refuse(why.to_owned()));
    // It is closed right after this, with or without a word.
    let _ = output.flush(socket);
}

/// Who may have everything that the service has.
fn may_take_over(uid: u32, own: u32) -> bool {
    uid == own || uid == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_services_user_may_take_over() {
        assert!(may_take_over(0, 1000) && may_take_over(1000, 1000) && may_take_over(0, 0));
        assert!(!may_take_over(1001, 1000) && !may_take_over(1000, 0));
    }
}
