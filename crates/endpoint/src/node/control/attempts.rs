//! What endpoints ask other processes for, until it is sent.

use std::net::SocketAddr;

use petasos_control::{ConnectError, DisconnectError, RefuseCode};

use super::{Asking, Attempt, Control, enrolments};
use crate::error::SessionError;
use crate::mail::Mail;
use crate::node::link::{Link, Stage};
use crate::sessions::PeerId;

impl Control {
    pub(super) fn add_attempt(&mut self, asking: Asking) -> u64 {
        let id = self.next_attempt;
        self.next_attempt += 1;
        self.attempts.insert(id, Attempt { asking, is_repeated: false, is_moved: false });
        id
    }

    /// Lets an attempt wait for the connection to a server, which is dialled if there is none.
    pub(super) fn wait_for(&mut self, server: SocketAddr, id: u64) {
        let number = match self.by_address.get(&server) {
            Some(&number) => number,
            None => match Link::dial(server, self.now + self.config.connect_timeout) {
                Ok(link) => {
                    let number = self.next_link;
                    self.next_link += 1;
                    self.links.insert(number, link);
                    self.by_address.insert(server, number);
                    number
                }
                Err(error) => return self.fail_attempt(id, error),
            },
        };
        let waiting = match self.links.get_mut(&number) {
            Some(link) => &mut link.waiting,
            None => &mut self.lost.get_mut(&number).expect("addresses name links").waiting,
        };
        waiting.push_back(id);
    }

    /// Sends connects and disconnects that have waited for the connection to accept them.
    pub(super) fn send_waiting(&mut self, number: PeerId) {
        let now = self.now;
        let (mut failed, mut asked) = (Vec::new(), Vec::new());
        let link = self.links.get_mut(&number).expect("links are removed by their turn only");
        let Stage::Talking(connection) = &mut link.stage else { return };
        if !connection.is_open() {
            return;
        }
        while let Some(session) = link.disconnects.front() {
            match connection.disconnect(*session) {
                Err(DisconnectError::TooManyOutstanding | DisconnectError::Backlogged) => break,
                // Sent, or impossible for good: then the connection's end has the same effect.
                _ => link.disconnects.pop_front(),
            };
        }
        while let Some(&(id, params)) = link.repeats.front() {
            let Some(sent) = sent(connection.connect_again(id, params, now)) else { break };
            link.repeats.pop_front();
            failed.extend(sent.err().map(|code| (id, code)));
        }
        while let Some(&id) = link.waiting.front() {
            let attempt = self.attempts.get(&id).expect("a waiting id has an attempt");
            let sent = match &attempt.asking {
                Asking::Session { offer, .. } => {
                    let params = link.without_rings.apply(offer.params, now);
                    sent(connection.connect(id, params, now))
                }
                Asking::Group(enrolment) => enrolments::ask(connection, id, &enrolment.request),
                Asking::Place(_) => unreachable!("it is asked on a connection that stands"),
            };
            let Some(sent) = sent else { break };
            link.waiting.pop_front();
            match attempt.asking {
                Asking::Session { .. } => link.has_sessions = true,
                Asking::Group(_) if sent.is_ok() => asked.push(id),
                Asking::Group(_) | Asking::Place(_) => {}
            }
            failed.extend(sent.err().map(|code| (id, code)));
        }
        for (id, code) in failed {
            self.fail_attempt(id, SessionError::RefusedBy(code));
        }
        asked.into_iter().for_each(|id| self.note_asked(number, id));
        self.send_to_router(number);
    }

    pub(super) fn fail_attempt(&mut self, id: u64, error: SessionError) {
        match self.attempts.remove(&id).map(|attempt| attempt.asking) {
            Some(Asking::Session { offer, from }) => {
                // If the endpoint is gone, so is the session.
                let _ = from.post(Mail::Connected { offer, outcome: Err(error) });
            }
            Some(Asking::Group(enrolment)) => {
                enrolments::not_granted(&enrolment, error, String::new());
            }
            Some(Asking::Place(enrolment)) => self.tell_placed(enrolment, Err(error)),
            None => {}
        }
    }
}

/// Whether a connection has sent a connect, or why it never will; `None` if it may do so later.
fn sent(result: Result<(), ConnectError>) -> Option<Result<(), RefuseCode>> {
    match result {
        Ok(()) => Some(Ok(())),
        Err(ConnectError::TooManyOutstanding | ConnectError::Backlogged) => None,
        Err(ConnectError::PeerDraining) => Some(Err(RefuseCode::Draining)),
        Err(_) => Some(Err(RefuseCode::IncompatibleParameters)),
    }
}
