//! A control connection that broke, while its sessions wait for a replacement (C6, C21).
//!
//! Data packets do not use control connections, so calls continue meanwhile. A lost connection
//! keeps the number of its link: endpoints notice nothing unless the grace period runs out.
//!
//! Threat model: a resumption is a second way into sessions. It requires the ticket, which only the
//! process with the connection has seen; the same process, address, holder and, over TLS, proven
//! names; and a connection that was lost and has not ended. A lost connection still counts for its
//! holder, so that losing connections makes no room for more.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use core::time::Duration;

use petasos_base::Time;
use petasos_control::{Answers, ConnectParams, FailureReason, Hello, SessionRef, Ticket};
use petasos_tls::{Holder, Identity};

use super::link::{Link, Stage};
use super::without_rings::WithoutRings;
use crate::router_list::jittered;
use crate::sessions::PeerId;

/// The most tickets that a dialler remembers: the one that it had, and those of attempts whose
/// outcome it does not know.
const TICKETS_MAX: usize = petasos_control::RESUMES_MAX;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(200);

/// The peer of a link.
pub(super) struct Peer {
    pub(super) holder: Holder,
    ip: IpAddr,
    identity: Option<Arc<Identity>>,
    hello: Hello,
}

impl Peer {
    /// `None` before the peer's hello.
    pub(super) fn of(link: &mut Link) -> Option<Peer> {
        let identity = link.tls.as_mut().and_then(|tls| tls.identity());
        let hello = link.connection()?.peer()?.clone();
        Some(Peer { holder: link.holder.clone(), ip: link.peer_ip, identity, hello })
    }

    /// Whether both are one process, as far as it can prove that. A certificate may have been
    /// renewed meanwhile, but only with the same names.
    pub(super) fn is(&self, other: &Peer) -> bool {
        let is_same = match (self.identity.as_deref(), other.identity.as_deref()) {
            (Some(one), Some(other)) if !one.names.is_empty() => one.names == other.names,
            (one, other) => one == other,
        };
        is_same
            && self.ip == other.ip
            && self.holder == other.holder
            && !self.hello.ends_sessions_of(&other.hello)
    }
}

pub(super) struct Lost {
    /// The address that this process had dialled; `None` if the peer had dialled, and so will dial
    /// again.
    pub(super) server: Option<SocketAddr>,
    pub(super) peer: Peer,
    /// The last one is the most likely to be valid.
    pub(super) tickets: Vec<Ticket>,
    answers: Answers,
    /// As in [`Link`].
    pub(super) waiting: VecDeque<u64>,
    pub(super) repeats: VecDeque<(u64, ConnectParams)>,
    pub(super) disconnects: VecDeque<SessionRef>,
    pub(super) asked: Vec<u16>,
    pub(super) without_rings: WithoutRings,
    /// How the connection was lost.
    pub(super) reason: FailureReason,
    /// When its sessions end.
    pub(super) until: Time,
    /// The link that may replace it.
    pub(super) attempt: Option<PeerId>,
    retry_at: Time,
    backoff: Duration,
}

impl Lost {
    /// The state to be kept of a link; `None` if nothing could replace it.
    pub(super) fn of(
        mut link: Link,
        reason: FailureReason,
        now: Time,
        until: Time,
    ) -> Option<Lost> {
        let peer = Peer::of(&mut link)?;
        let Stage::Talking(mut connection) = link.stage else { return None };
        let unanswered = connection.take_unanswered();
        let mut disconnects = unanswered.disconnects;
        disconnects.extend(link.disconnects);
        let mut repeats = link.repeats;
        repeats.extend(unanswered.connects);
        Some(Lost {
            server: link.server,
            peer,
            tickets: vec![link.ticket?],
            answers: connection.take_answers(),
            waiting: link.waiting,
            repeats,
            disconnects,
            asked: link.asked,
            without_rings: link.without_rings,
            reason,
            until,
            attempt: None,
            retry_at: now + jittered(BACKOFF_MIN),
            backoff: BACKOFF_MIN,
        })
    }

    /// Lets `link` continue in place of the lost one. Answers to connects move along, because the
    /// peer may not have received them.
    pub(super) fn hand_over(self, link: &mut Link) {
        link.server = self.server;
        link.waiting = self.waiting;
        link.repeats = self.repeats;
        link.disconnects = self.disconnects;
        link.asked = self.asked;
        link.without_rings = self.without_rings;
        link.resumes = None;
        // What depends on it is not counted.
        link.has_sessions = true;
        if let Some(connection) = link.connection() {
            connection.inherit_answers(self.answers);
        }
    }

    /// Whether it is time to dial again.
    pub(super) fn dials(&self, now: Time) -> bool {
        self.server.is_some() && self.attempt.is_none() && self.retry_at <= now
    }

    /// Notes that an attempt has ended without an outcome. If the peer may have accepted it, its
    /// ticket counts.
    pub(super) fn retry(&mut self, ticket: Option<Ticket>, now: Time) {
        self.attempt = None;
        self.retry_at = now + jittered(self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        if let Some(ticket) = ticket {
            if self.tickets.len() == TICKETS_MAX {
                // Not the first: if the peer received no attempt, the first is the valid one.
                self.tickets.remove(1);
            }
            self.tickets.push(ticket);
        }
    }

    pub(super) fn next_timeout(&self) -> Time {
        let dials = self.server.is_some() && self.attempt.is_none();
        if dials { self.until.min(self.retry_at) } else { self.until }
    }
}
