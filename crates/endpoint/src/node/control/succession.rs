//! Processes in the place of others at the same address (C22): this process's own successor, and
//! those of servers.
//!
//! Threat model: a server says that it has a successor on the connection that its own sessions
//! depend on, so it speaks for nobody else. What its word costs this process is bounded: beside the
//! connection to an address, [`PREDECESSORS_MAX`] others to it stand at a time, and an attempt goes
//! on from one process to the next once. Whoever is at the address then is judged as if the address
//! was dialled for the first time.

use petasos_base::Time;

use super::{Attempt, Control};
use crate::error::SessionError;
use crate::mail::Mail;
use crate::sessions::PeerId;

/// The most connections to an address whose processes have successors there. One is usual.
const PREDECESSORS_MAX: usize = 4;

/// This process's own successor.
impl Control {
    /// Accepts nobody yet.
    pub(in crate::node) fn without_accepting(mut self) -> Control {
        self.accept_at = Time::NEVER;
        self
    }

    /// Leaves the listener to another process. It is closed before anybody hears of it, so that who
    /// dials again finds the other process.
    pub(super) fn hand_over(&mut self) {
        self.listener = None;
        for connection in self.links.values_mut().filter_map(|link| link.connection()) {
            connection.announce_successor();
        }
    }
}

/// Successors of servers.
impl Control {
    /// Handles a server's word that another process is at its address.
    pub(super) fn on_succeeded(&mut self, number: PeerId) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        link.has_successor = true;
        self.heed_successor(number);
    }

    /// Leaves a link to the sessions that depend on it, if its server has a successor. The next
    /// session is asked for at the address, which is dialled again.
    pub(super) fn heed_successor(&mut self, number: PeerId) {
        let Some(link) = self.links.get(&number) else { return };
        // One that may yet replace a lost connection is not the one to the address.
        let Some(server) = link.server.filter(|_| link.has_successor && link.resumes.is_none())
        else {
            return;
        };
        let is_former = |link: &&super::Link| link.is_succeeded && link.server == Some(server);
        if self.links.values().filter(is_former).count() >= PREDECESSORS_MAX {
            // It drains, and is asked for nothing.
            return;
        }
        if self.by_address.get(&server) == Some(&number) {
            self.by_address.remove(&server);
        }
        // Attachments and memberships are made anew with the other process.
        self.end_enrolments(number, &SessionError::ConnectionLost);
        let link = self.links.get_mut(&number).expect("it was just there");
        link.is_succeeded = true;
        for id in core::mem::take(&mut link.waiting) {
            self.go_on(server, id);
        }
        for member in self.shared.members().list.iter().flatten() {
            // An endpoint that is gone need not be told.
            let _ = member.mailbox.post(Mail::Succeeded { link: number });
        }
    }

    /// Asks the successor for a session that a server has refused, under another id: it is another
    /// attempt (C12).
    pub(super) fn ask_successor(&mut self, number: PeerId, id: u64) {
        let server = self.links[&number].server.expect("only dialled servers have successors");
        let Some(attempt) = self.attempts.remove(&id) else { return };
        let id = self.next_attempt;
        self.next_attempt += 1;
        self.attempts.insert(id, Attempt { is_repeated: false, ..attempt });
        self.go_on(server, id);
    }

    /// Lets an attempt wait for the successor at `server`, unless it comes from another one.
    fn go_on(&mut self, server: std::net::SocketAddr, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if core::mem::replace(&mut attempt.is_moved, true) {
            let draining = SessionError::RefusedBy(petasos_control::RefuseCode::Draining);
            return self.fail_attempt(id, draining);
        }
        self.wait_for(server, id);
    }
}
