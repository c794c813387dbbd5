//! The process before this one, until it has ended.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use petasos_attach::Applicant;
use petasos_attach::reason::RefuseCode;
use petasos_base::Time;

use crate::ports::{Kept, Owner, owner};

use super::wire::{Received, STATES_BYTES_MAX, Said, receive};

/// Others than the predecessor's applications wait no longer than this.
const SETTLE_MAX: Duration = Duration::from_secs(15);
/// So many of them wait.
const HELD_MAX: usize = 64;

/// What the process before this one had.
pub struct Predecessor {
    socket: Option<OwnedFd>,
    applications: Vec<Owner>,
    ports: Vec<(Owner, SocketAddr, OwnedFd)>,
    /// Of policies; none if it is too long.
    states: Option<Vec<u8>>,
    is_settled: bool,
    settled_by: Time,
    held: Vec<Applicant>,
}

impl Predecessor {
    pub(super) fn new() -> Predecessor {
        Predecessor {
            socket: None,
            applications: Vec::new(),
            ports: Vec::new(),
            states: Some(Vec::new()),
            is_settled: false,
            settled_by: Time::NEVER,
            held: Vec::new(),
        }
    }

    pub(super) fn on(mut self, socket: OwnedFd) -> Predecessor {
        self.socket = Some(socket);
        self
    }

    pub(super) fn add(&mut self, owner: Owner) {
        self.applications.push(owner);
    }

    pub(super) fn add_port(&mut self, owner: Owner, address: SocketAddr, file: OwnedFd) {
        self.ports.push((owner, address, file));
    }

    pub(super) fn add_states(&mut self, part: &[u8]) {
        let has_room = |states: &Vec<u8>| states.len() + part.len() <= STATES_BYTES_MAX;
        self.states = self.states.take().filter(has_room);
        self.states.iter_mut().for_each(|states| states.extend_from_slice(part));
    }

    /// Takes the states of its policies.
    ///
    /// # Errors
    /// Why there are none to go on with.
    pub fn take_states(&mut self) -> Result<Vec<u8>, String> {
        match self.states.replace(Vec::new()) {
            Some(states) if states.is_empty() => Err("none were handed over".to_owned()),
            Some(states) => Ok(states),
            None => Err(format!("they have more than {STATES_BYTES_MAX} bytes")),
        }
    }

    /// What to wait for.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// When those that wait are let in.
    pub fn next_due(&self) -> Option<Time> {
        (!self.is_settled && self.settled_by != Time::NEVER).then_some(self.settled_by)
    }

    /// Hears the other process. Returns whether it has ended.
    pub fn hear(&mut self, now: Time) -> bool {
        if self.settled_by == Time::NEVER {
            self.settled_by = now + SETTLE_MAX;
        }
        self.is_settled |= now >= self.settled_by;
        let Some(socket) = &self.socket else { return true };
        match receive(socket.as_fd()) {
            Received::Nothing => false,
            Received::Said(Said::Settled) => {
                self.is_settled = true;
                false
            }
            Received::Said(_) | Received::Garbage | Received::Gone => {
                (self.socket, self.is_settled) = (None, true);
                true
            }
        }
    }

    /// Lets an application wait until those of the other process are here, since it may call them.
    /// Those themselves need not wait. Gives it back if it is let in, or refused already.
    pub fn hold(&mut self, applicant: Applicant) -> Option<Applicant> {
        if self.is_settled || self.moves(&applicant) {
            return Some(applicant);
        }
        match self.held.len() < HELD_MAX {
            true => self.held.push(applicant),
            false => applicant.refuse(RefuseCode::Busy, "too many are attaching"),
        }
        None
    }

    /// Whether an application is one of the other process'. It says so itself, if it can: only its
    /// own calls would suffer from a lie.
    fn moves(&self, applicant: &Applicant) -> bool {
        let (who, hello) = (applicant.credentials(), applicant.hello());
        // A process without a number here cannot be told from others.
        let is_known = who.pid.is_none() || self.applications.contains(&owner(who));
        is_known && hello.may_be_moving()
    }

    /// Whether its applications are here, as far as they will be.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Those that have waited long enough.
    pub fn let_in(&mut self) -> Vec<Applicant> {
        if self.is_settled { std::mem::take(&mut self.held) } else { Vec::new() }
    }

    /// Takes the addresses that its applications serve at, and what keeps them.
    pub fn take_ports(&mut self) -> Vec<Kept> {
        let ports = std::mem::take(&mut self.ports).into_iter();
        ports.map(|(owner, address, file)| Kept { owner, address, file, mover: None }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_are_too_long_are_none() {
        let mut predecessor = Predecessor::new();
        assert!(predecessor.take_states().is_err_and(|why| why.contains("none")));
        [&b"ab"[..], b"c"].iter().for_each(|part| predecessor.add_states(part));
        assert_eq!(predecessor.take_states().as_deref(), Ok(&b"abc"[..]));
        let part = vec![0; STATES_BYTES_MAX / 2];
        (0..3).for_each(|_| predecessor.add_states(&part));
        predecessor.add_states(b"x");
        assert!(predecessor.take_states().is_err_and(|why| why.contains("more than")));
    }
}
