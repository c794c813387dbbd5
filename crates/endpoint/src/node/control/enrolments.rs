//! This process's endpoints at the routers of groups (RT33 to RT36).
//!
//! Threat model: a router is believed in what it tells of its own group, and of nothing else. What
//! it can make this process hold is bounded: [`CLIENTS_MAX`] clients and as many workers as
//! endpoints know of each connection, and of what an endpoint has not read, the newest. What is not
//! sealed although the connection is, or the reverse, is refused: otherwise a router could have
//! calls made in plaintext.
//!
//! Invariants: an enrolment is `later`, an attempt, or `standing`, and in one of them only, until
//! it has ended; the attempt's and the standing one's connection is its link.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use petasos_base::Time;
use petasos_control::{
    ByeReason, ConnectFailure, Connection, FailureReason, GroupError, GroupEvent, JoinFailure,
    Leave, Member, RefuseCode,
};

use super::told::RouterTold;
use super::{Asking, Attempt, Control};
use crate::enrolment::{Ended, EnrolmentId, Grant, Granted, MemberRequest, Reminder};
use crate::error::SessionError;
use crate::mail::{Enrolment, GroupCommand, Mail};
use crate::mailbox::Mailbox;
use crate::sessions::PeerId;

/// How long a router has for an answer. It may bind services first (RT31).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection stays on which nothing is asked or stands any more.
const UNUSED_FOR: Duration = Duration::from_secs(5);

/// What is to be done at a time.
enum Later {
    Enrol(Box<Enrolment>),
    Remind(EnrolmentId, Reminder, Arc<Mailbox<Mail>>),
    /// Give an attempt up that has no answer.
    Expire(PeerId, u64),
    /// Close a connection, if it is still unused.
    CloseUnused(PeerId),
}

/// A grant that stands.
pub(super) struct Standing {
    link: PeerId,
    /// By which it ends.
    pub(super) leave: Leave,
    pub(super) enrolment: Box<Enrolment>,
    /// The epoch of which it takes requests; a worker.
    taken: Option<u16>,
}

/// The enrolments of a process.
#[derive(Default)]
pub(super) struct Enrolments {
    later: Vec<(Time, Later)>,
    standing: HashMap<EnrolmentId, Standing>,
    pub(super) links: BTreeMap<PeerId, RouterTold>,
}

impl Enrolments {
    /// When something is due.
    pub(super) fn next_timeout(&self) -> Time {
        self.later.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    pub(super) fn standing(&self, id: EnrolmentId) -> Option<&Standing> {
        self.standing.get(&id)
    }

    /// The connection of one that stands, and by which number it is a member there.
    pub(super) fn member(&self, id: EnrolmentId) -> Option<(PeerId, Member)> {
        self.standing.get(&id).map(|it| (it.link, it.leave.member))
    }

    /// Those that stand on a connection.
    pub(super) fn on(&self, link: PeerId) -> impl Iterator<Item = (EnrolmentId, &Standing)> {
        let standing = self.standing.iter().filter(move |(_, it)| it.link == link);
        standing.map(|(id, it)| (*id, it))
    }
}

/// Commands.
impl Control {
    pub(super) fn on_group_command(&mut self, command: GroupCommand) {
        match command {
            GroupCommand::Enrol { enrolment, after } => {
                self.enrolments.later.push((self.now + after, Later::Enrol(enrolment)));
            }
            GroupCommand::Withdraw { enrolment } => self.withdraw(enrolment),
            GroupCommand::Place { enrolment, wish } => self.place(enrolment, wish),
            GroupCommand::EpochTaken { enrolment, epoch } => self.on_taken(enrolment, epoch),
            GroupCommand::Remind { enrolment, reminder, after, from } => {
                let is_it = |later: &Later| match later {
                    Later::Remind(id, of, _) => (*id, *of) == (enrolment, reminder),
                    _ => false,
                };
                // One of each kind: a router must not make them pile up.
                self.enrolments.later.retain(|(_, later)| !is_it(later));
                let later = Later::Remind(enrolment, reminder, from);
                self.enrolments.later.push((self.now + after, later));
            }
            GroupCommand::SetRouter(router) => self.router.set(router),
            GroupCommand::TurnRouter => {}
        }
    }

    /// Does what is due.
    pub(super) fn turn_enrolments(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.enrolments.later.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, later) in due {
            match later {
                Later::Enrol(enrolment) => self.enrol(enrolment),
                Later::Remind(enrolment, reminder, from) => {
                    // An endpoint that is gone need not be reminded.
                    let _ = from.post(Mail::GroupReminder { enrolment, reminder });
                }
                Later::Expire(link, id) => self.expire(link, id),
                Later::CloseUnused(link) => self.close_unused(link),
            }
        }
    }

    fn enrol(&mut self, enrolment: Box<Enrolment>) {
        let router = enrolment.router;
        if self.stop_at.is_some() {
            return not_granted(&enrolment, SessionError::NodeEnded, String::new());
        }
        if self.shared.guard.forbids(router.ip()) {
            return not_granted(&enrolment, SessionError::Plaintext(router), String::new());
        }
        let id = self.add_attempt(Asking::Group(enrolment));
        self.wait_for(router, id);
    }

    pub(super) fn withdraw(&mut self, enrolment: EnrolmentId) {
        let is_it = |later: &Later| match later {
            Later::Enrol(it) => it.id == enrolment,
            Later::Remind(id, ..) => *id == enrolment,
            Later::Expire(..) | Later::CloseUnused(_) => false,
        };
        self.enrolments.later.retain(|(_, later)| !is_it(later));
        if let Some(standing) = self.remove_standing(enrolment) {
            return self.queue_leave(standing.link, standing.leave);
        }
        let is_its = |attempt: &Attempt| match &attempt.asking {
            Asking::Group(it) => it.id == enrolment,
            Asking::Session { .. } | Asking::Place(_) => false,
        };
        let id = self.attempts.iter().find_map(|(id, attempt)| is_its(attempt).then_some(*id));
        if let Some(id) = id {
            // What was sent already is given back when it is granted.
            self.attempts.remove(&id);
            self.links.values_mut().for_each(|link| link.waiting.retain(|it| *it != id));
            self.lost.values_mut().for_each(|lost| lost.waiting.retain(|it| *it != id));
            let at = self.now + UNUSED_FOR;
            let dialled = self.links.iter().filter(|(_, link)| link.server.is_some());
            let later = dialled.map(|(link, _)| (at, Later::CloseUnused(*link)));
            self.enrolments.later.extend(later);
        }
    }

    /// Takes a grant that stands off the list. Others may have waited for it.
    fn remove_standing(&mut self, id: EnrolmentId) -> Option<Standing> {
        let standing = self.enrolments.standing.remove(&id)?;
        self.confirm_if_all_take(standing.link);
        let later = Later::CloseUnused(standing.link);
        self.enrolments.later.push((self.now + UNUSED_FOR, later));
        Some(standing)
    }

    /// Closes a connection that was dialled for groups only and is not used for them any more: a
    /// router that tells of ever new routers must not make this process keep connections to all.
    fn close_unused(&mut self, number: PeerId) {
        let is_used = self.enrolments.on(number).next().is_some()
            || self.enrolments.links.get(&number).is_some_and(|told| told.asked > 0);
        let Some(link) = self.links.get_mut(&number) else { return };
        let is_idle = link.waiting.is_empty() && link.repeats.is_empty();
        if is_used || !is_idle || link.has_sessions || link.server.is_none() {
            return;
        }
        match link.connection() {
            Some(connection) => connection.close(ByeReason::Idle),
            None => {
                self.end_link(number, SessionError::NodeEnded);
                self.links.remove(&number);
            }
        }
    }

    /// A worker takes requests of an epoch. Once all of a connection do, that is confirmed.
    fn on_taken(&mut self, enrolment: EnrolmentId, epoch: u16) {
        let Some(standing) = self.enrolments.standing.get_mut(&enrolment) else { return };
        standing.taken = Some(epoch);
        let link = standing.link;
        self.confirm_if_all_take(link);
    }

    fn confirm_if_all_take(&mut self, link: PeerId) {
        let is_worker = |it: &Standing| matches!(it.leave.member, Member::Worker(_));
        let workers = self.enrolments.on(link).filter(|(_, it)| is_worker(it));
        let mut taken: Vec<_> = workers.map(|(_, it)| it.taken).collect();
        taken.dedup();
        let Some(told) = self.enrolments.links.get_mut(&link) else { return };
        if told.newest.is_some() && taken == [told.newest] {
            told.confirm = told.newest;
        }
    }

    /// A request was sent to a router. It has its time for an answer.
    pub(super) fn note_asked(&mut self, link: PeerId, id: u64) {
        self.enrolments.links.entry(link).or_default().asked += 1;
        self.enrolments.later.push((self.now + ANSWER_TIMEOUT, Later::Expire(link, id)));
    }

    /// A router has not answered in time. What it grants later is given back.
    fn expire(&mut self, link: PeerId, id: u64) {
        if self.attempts.contains_key(&id) {
            if let Some(told) = self.enrolments.links.get_mut(&link) {
                told.asked = told.asked.saturating_sub(1);
            }
            self.fail_attempt(id, SessionError::Timeout);
        }
    }

    fn queue_leave(&mut self, link: PeerId, leave: Leave) {
        if self.links.contains_key(&link) {
            self.enrolments.links.entry(link).or_default().leaves.push_back(leave);
        }
    }
}

/// Events of connections.
impl Control {
    /// Handles what a router has said to this process.
    pub(super) fn on_router_said(&mut self, number: PeerId, event: GroupEvent) {
        match event {
            GroupEvent::AttachAnswered { id, result } => {
                let granted = result.map(|grant| Grant::Attached(Box::new(grant)));
                self.on_enrolment_answered(
                    number,
                    id,
                    granted.map_err(|error| (error, String::new())),
                );
            }
            GroupEvent::JoinAnswered { id, result } => {
                let granted = result.map(|grant| Grant::Joined(Box::new(grant)));
                let refused = |JoinFailure { reason, detail }| (reason, detail.to_string());
                self.on_enrolment_answered(number, id, granted.map_err(refused));
            }
            GroupEvent::PlaceAnswered { id, result } => {
                self.on_place_answered(number, id, result);
            }
            GroupEvent::Told(told) => self.on_told(number, told),
            GroupEvent::Left { leave } => {
                let left = self.enrolments.on(number).find(|(_, it)| it.leave == leave);
                if let Some(id) = left.map(|(id, _)| id) {
                    self.end_enrolment(id, Ended::Closed(SessionError::ClosedByPeer));
                }
            }
            // A leave is confirmed; the rest is a router's.
            _ => {}
        }
    }

    fn on_enrolment_answered(
        &mut self,
        number: PeerId,
        id: u64,
        result: Result<Grant, (ConnectFailure, String)>,
    ) {
        if let Some(told) = self.enrolments.links.get_mut(&number) {
            told.asked = told.asked.saturating_sub(1);
        }
        self.enrolments.later.push((self.now + UNUSED_FOR, Later::CloseUnused(number)));
        match &result {
            Ok(Grant::Joined(grant)) => self.on_epoch_of_workers(number, grant.epoch.clone()),
            Ok(Grant::Attached(_)) => {}
            Err(_) => self.enrolments.links.entry(number).or_default().table.begin_anew(),
        }
        let attempt = self.attempts.remove(&id);
        let enrolment = attempt.and_then(|attempt| match attempt.asking {
            Asking::Group(enrolment) => Some(enrolment),
            Asking::Session { .. } | Asking::Place(_) => None,
        });
        match (result, enrolment) {
            (Ok(grant), Some(enrolment)) => self.on_enrolment_granted(number, enrolment, grant),
            // The endpoint does not want it any more.
            (Ok(grant), None) => self.queue_leave(number, leave_of(&grant)),
            (Err((failure, text)), Some(enrolment)) => {
                let error = match failure {
                    ConnectFailure::Refused(code) => SessionError::RefusedBy(code),
                    _ => SessionError::ConnectionLost,
                };
                not_granted(&enrolment, error, text);
            }
            (Err(_), None) => {}
        }
    }

    fn on_enrolment_granted(&mut self, number: PeerId, enrolment: Box<Enrolment>, grant: Grant) {
        let leave = leave_of(&grant);
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let (cipher, is_worker) = match &grant {
            Grant::Attached(grant) => (grant.cipher, false),
            Grant::Joined(grant) => (grant.cipher, true),
        };
        if cipher.is_some() != link.tls.is_some() {
            self.queue_leave(number, leave);
            let text = "the group is sealed and the connection is not, or the reverse".to_owned();
            return not_granted(&enrolment, SessionError::RefusedBy(RefuseCode::Internal), text);
        }
        let (router_ip, local_ip) = (link.peer_ip, link.local_ip());
        let incarnation = link.incarnation().expect("hellos come before grants");
        let granted = Granted { grant, link: number, router_ip, local_ip, incarnation };
        let told = self.enrolments.links.entry(number).or_default();
        let is_heard = enrolment.leave(|news| {
            news.granted = Some(granted);
            news.routers.clone_from(&told.routers);
            news.is_draining = told.is_draining;
            if is_worker {
                news.table = told.table.whole();
                let clients =
                    told.clients.iter().map(|(client, names)| (*client, Some(names.clone())));
                news.clients.extend(clients);
            } else {
                news.has_roster = told.has_roster;
                news.members.extend(told.members.iter().map(|(worker, at)| (*worker, Some(*at))));
            }
        });
        if !is_heard {
            return self.queue_leave(number, leave);
        }
        let id = enrolment.id;
        let standing = Standing { link: number, leave, enrolment, taken: None };
        self.enrolments.standing.insert(id, standing);
    }

    /// A connection has ended: so have the enrolments on it.
    pub(super) fn end_enrolments(&mut self, number: PeerId, error: &SessionError) {
        let ids: Vec<_> = self.enrolments.on(number).map(|(id, _)| id).collect();
        for id in ids {
            let ended = if is_break(error) { Ended::Broken } else { Ended::Closed };
            self.end_enrolment(id, ended(error.clone()));
        }
        self.enrolments.links.remove(&number);
    }

    fn end_enrolment(&mut self, id: EnrolmentId, ended: Ended) {
        if let Some(standing) = self.remove_standing(id) {
            // An endpoint that is gone need not be told.
            standing.enrolment.leave(|news| news.ended = Some(ended));
        }
    }

    /// Sends what has waited for the connection to accept it.
    pub(super) fn send_to_router(&mut self, number: PeerId) {
        let Some(told) = self.enrolments.links.get_mut(&number) else { return };
        let link = self.links.get_mut(&number).expect("links are removed by their turn only");
        let Some(connection) = link.connection() else { return };
        while let Some(leave) = told.leaves.front() {
            match connection.leave(*leave) {
                Err(GroupError::TooManyOutstanding | GroupError::Backlogged) => break,
                // Sent, or it has ended already.
                _ => told.leaves.pop_front(),
            };
        }
        if let Some(epoch) = told.confirm
            && !matches!(connection.confirm_epoch(epoch), Err(GroupError::Backlogged))
        {
            // What cannot be said now says nothing later either.
            told.confirm = None;
        }
    }
}

/// Whether a connection has broken, so that what was agreed on there goes on for a while (RT35): it
/// was not ended on purpose, and its peer is not known to have failed.
pub(super) fn is_break(error: &SessionError) -> bool {
    matches!(
        error,
        SessionError::ConnectionLost
            | SessionError::PeerFailed(FailureReason::Eof | FailureReason::Reset)
    )
}

/// Tells an endpoint that its request is not granted.
pub(super) fn not_granted(enrolment: &Enrolment, error: SessionError, text: String) {
    // An endpoint that is gone need not be told.
    enrolment.leave(|news| {
        news.ended = Some(Ended::NotGranted(error, text));
    });
}

/// Sends a request; as `sent` of connects.
pub(super) fn ask(
    connection: &mut Connection,
    id: u64,
    request: &MemberRequest,
) -> Option<Result<(), RefuseCode>> {
    let asked = match request {
        MemberRequest::Attach(params) => connection.attach(id, *params),
        MemberRequest::Join(params) => connection.join(id, *params),
    };
    match asked {
        Ok(()) => Some(Ok(())),
        Err(GroupError::TooManyOutstanding | GroupError::Backlogged) => None,
        Err(GroupError::PeerDraining) => Some(Err(RefuseCode::Draining)),
        // The process there knows no groups.
        Err(_) => Some(Err(RefuseCode::IncompatibleParameters)),
    }
}

fn leave_of(grant: &Grant) -> Leave {
    match grant {
        Grant::Attached(grant) => Leave { member: Member::Client(grant.client), tag: grant.tag },
        Grant::Joined(grant) => Leave { member: Member::Worker(grant.worker), tag: grant.tag },
    }
}
