//! Connections that replace lost ones (C6, C21).

use petasos_base::{Time, secret_u64};
use petasos_control::{FailureReason, Ticket};
use petasos_tls::HandshakeFailure;

use super::Control;
use crate::error::SessionError;
use crate::node::link::Link;
use crate::node::lost::{Lost, Peer};
use crate::node::quota::count;
use crate::sessions::PeerId;

/// The end of connections.
impl Control {
    /// Handles a failed connection. Its sessions end with it, unless another connection may replace
    /// it.
    pub(super) fn on_failed(&mut self, number: PeerId, reason: FailureReason) {
        if !self.may_lose(number, &reason) {
            let error = self.failure(number, reason);
            return self.end_link(number, error);
        }
        // Attachments and memberships are not resumed (RT35).
        self.end_enrolments(number, &SessionError::ConnectionLost);
        self.on_group_peer_gone(number, true);
        let link = self.links.remove(&number).expect("an event's link exists");
        let until = self.now + self.grace;
        let lost = Lost::of(link, reason, self.now, until).expect("it has a ticket and a peer");
        self.lost.insert(number, lost);
    }

    /// Whether a link is kept as lost. A silent peer has failed (C11), and a peer that violated the
    /// protocol will do so again. It is worth waiting only after a connection that broke, and only
    /// if a session depends on it.
    fn may_lose(&self, number: PeerId, reason: &FailureReason) -> bool {
        let link = &self.links[&number];
        matches!(reason, FailureReason::Eof | FailureReason::Reset)
            && link.ticket.is_some()
            && link.resumes.is_none()
            && link.tls_failure().is_none()
            && !link.is_succeeded
            && (link.server.is_some() || self.listener.is_some() && !link.asked.is_empty())
            && !self.grace.is_zero()
            && self.stop_at.is_none()
    }

    /// Dials again where that is due, and ends lost connections that have waited long enough.
    pub(super) fn turn_lost(&mut self) {
        let numbers: Vec<_> = self.lost.keys().copied().collect();
        for number in numbers {
            let lost = &self.lost[&number];
            if lost.until <= self.now {
                self.end_lost(number, &SessionError::ConnectionLost);
            } else if lost.dials(self.now) {
                self.redial(number);
            }
        }
    }

    fn redial(&mut self, old: PeerId) {
        let lost = self.lost.get_mut(&old).expect("its number was just read");
        let server = lost.server.expect("only a dialler dials again");
        let until = lost.until.min(self.now + self.config.connect_timeout);
        match Link::dial(server, until) {
            Ok(mut link) => {
                link.resumes = Some(old);
                lost.attempt = Some(self.next_link);
                self.links.insert(self.next_link, link);
                self.next_link += 1;
            }
            Err(error) => self.retry(old, None, error),
        }
    }

    /// Handles the end of the link that was to replace `old`. If nothing listens at the address,
    /// the process is gone. If the connection broke again, the next attempt may succeed.
    pub(super) fn retry(&mut self, old: PeerId, ticket: Option<Ticket>, error: SessionError) {
        let Some(lost) = self.lost.get_mut(&old) else { return };
        lost.retry(ticket, self.now);
        let error = match error {
            SessionError::Timeout
            | SessionError::Unreachable(_)
            | SessionError::Tls(HandshakeFailure::Ended)
            | SessionError::PeerFailed(
                FailureReason::Eof | FailureReason::Reset | FailureReason::Timeout,
            ) => return,
            SessionError::Refused => SessionError::PeerFailed(lost.reason.clone()),
            error => error,
        };
        self.end_lost(old, &error);
    }

    /// Ends a lost connection that nothing will replace: everything that depends on it fails.
    pub(super) fn end_lost(&mut self, number: PeerId, error: &SessionError) {
        let Some(lost) = self.lost.remove(&number) else { return };
        if let Some(attempt) = lost.attempt {
            self.links.remove(&attempt);
        }
        if let Some(server) = lost.server
            && self.by_address.get(&server) == Some(&number)
        {
            self.by_address.remove(&server);
        }
        let repeats = lost.repeats.into_iter().map(|(id, _)| id);
        for id in lost.waiting.into_iter().chain(repeats) {
            self.fail_attempt(id, error.clone());
        }
        let asked = lost.server.is_none().then_some(&lost.asked[..]);
        self.tell_lost(number, asked, error);
    }
}

/// What peers say of resumption.
impl Control {
    /// Handles the peer's hello. An acceptor sends a ticket. A dialler that wants to resume checks
    /// whether it has reached the same process.
    pub(super) fn on_hello(&mut self, number: PeerId) {
        let gives = !self.grace.is_zero();
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let Some(old) = link.resumes else {
            let ticket = new_ticket();
            let connection = link.connection().filter(|_| gives);
            if connection.is_some_and(|connection| connection.give_ticket(ticket)) {
                link.ticket = Some(ticket);
            }
            return;
        };
        let Some(lost) = self.lost.get(&old) else { return };
        if Peer::of(link).is_some_and(|peer| lost.peer.is(&peer)) {
            link.untried.clone_from(&lost.tickets);
        } else {
            let error = SessionError::PeerFailed(lost.reason.clone());
            self.begin_anew(number, old, &error);
        }
    }

    /// Handles the acceptor's ticket. From now on the dialler may show its own. If the answer to
    /// that is lost, the new ticket is the valid one.
    pub(super) fn on_ticket(&mut self, number: PeerId, ticket: Ticket) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        link.ticket = Some(ticket);
        if !link.untried.is_empty() {
            self.show_ticket(number);
        }
    }

    fn show_ticket(&mut self, number: PeerId) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let Some(old) = link.resumes else { return };
        if !link.is_open() {
            // The attempt has broken as well; its last event starts another one.
            return;
        }
        if let Some(ticket) = link.untried.pop()
            && link.connection().is_some_and(|connection| connection.resume(ticket))
        {
            link.has_shown = true;
            return;
        }
        self.begin_anew(number, old, &SessionError::ConnectionLost);
    }

    /// Starts over, because the peer does not know the lost connection. New sessions can be set up
    /// on this link.
    fn begin_anew(&mut self, number: PeerId, old: PeerId, error: &SessionError) {
        let lost = self.lost.get_mut(&old).expect("the link seeks it");
        lost.attempt = None;
        let waiting = core::mem::take(&mut lost.waiting);
        let link = self.links.get_mut(&number).expect("an event's link exists");
        (link.resumes, link.waiting) = (None, waiting);
        if let Some(server) = link.server {
            self.by_address.insert(server, number);
        }
        self.end_lost(old, error);
        self.heed_successor(number);
    }

    /// Handles the peer's answer to a ticket. Returns the link's number from now on.
    pub(super) fn on_resume_answered(&mut self, number: PeerId, accepted: bool) -> PeerId {
        let Some(old) = self.links.get(&number).and_then(|link| link.resumes) else {
            return number;
        };
        if accepted {
            return self.put_in_place(number, old);
        }
        if let (Some(lost), Some(link)) = (self.lost.get_mut(&old), self.links.get(&number)) {
            // Tickets that were refused once will be refused again.
            lost.tickets.clone_from(&link.untried);
        }
        self.show_ticket(number);
        number
    }

    /// Handles a ticket that a peer shows. Returns the link's number from now on.
    pub(super) fn on_resume_requested(&mut self, number: PeerId, ticket: Ticket) -> PeerId {
        if !self.links.get_mut(&number).is_some_and(Link::is_open) {
            // The link has broken meanwhile, and could not take over answers (C12). The peer gets
            // no answer and will show the same ticket again.
            return number;
        }
        let found = self.holder_of(number, ticket).filter(|&old| self.may_resume(number, old));
        if let Some(old) = found {
            // A connection that broke only at the peer's end still exists here. This one gets its
            // number.
            self.on_group_peer_gone(old, true);
            self.on_group_peer_gone(number, false);
            if let Some(link) = self.links.remove(&old)
                && let Some(lost) = Lost::of(link, FailureReason::Reset, self.now, self.now)
            {
                self.lost.insert(old, lost);
            }
            count(&self.shared.refused.connections_resumed);
            let number = self.put_in_place(number, old);
            self.answer_resume(number, true);
            return number;
        }
        count(&self.shared.refused.resumptions_refused);
        self.answer_resume(number, false);
        number
    }

    fn answer_resume(&mut self, number: PeerId, accepted: bool) {
        let connection = self.links.get_mut(&number).and_then(Link::connection);
        if let Some(connection) = connection {
            connection.answer_resume(accepted);
        }
    }

    /// The connection for which this process issued `ticket`, unless it is the one that shows it.
    fn holder_of(&self, number: PeerId, ticket: Ticket) -> Option<PeerId> {
        let stands = |(&at, link): (&PeerId, &Link)| {
            let own = link.server.is_none() && link.ticket == Some(ticket) && !link.ended;
            (own && at != number).then_some(at)
        };
        let is_lost = |(&at, lost): (&PeerId, &Lost)| {
            (lost.server.is_none() && lost.tickets.contains(&ticket)).then_some(at)
        };
        self.lost.iter().find_map(is_lost).or_else(|| self.links.iter().find_map(stands))
    }

    /// Whether the peer that shows the right ticket is also the right peer.
    fn may_resume(&mut self, number: PeerId, old: PeerId) -> bool {
        let Some(peer) = self.links.get_mut(&number).and_then(Peer::of) else { return false };
        match self.lost.get(&old) {
            Some(lost) => lost.peer.is(&peer),
            None => self.links.get_mut(&old).and_then(Peer::of).is_some_and(|old| old.is(&peer)),
        }
    }

    /// Gives the link the number of the lost connection, on which its sessions depend.
    fn put_in_place(&mut self, number: PeerId, old: PeerId) -> PeerId {
        let lost = self.lost.remove(&old).expect("the link takes its place");
        let mut link = self.links.remove(&number).expect("an event's link exists");
        for (id, _) in &lost.repeats {
            if let Some(attempt) = self.attempts.get_mut(id) {
                attempt.is_repeated = true;
            }
        }
        lost.hand_over(&mut link);
        link.resume_by = Time::NEVER;
        self.links.insert(old, link);
        self.heed_successor(old);
        old
    }
}

/// An unpredictable number.
fn new_ticket() -> Ticket {
    let number = u128::from(secret_u64()) << 64 | u128::from(secret_u64());
    Ticket::new(number.to_le_bytes())
}
