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

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::Time;
use petasos_control::{
    Active, ClientChange, ConnectFailure, Connection, GroupError, GroupEvent, JoinFailure, Leave,
    Member, MemberChange, MemberState, RefuseCode, Told,
};
use petasos_tls::Identity;

use super::{Asking, Attempt, Control};
use crate::enrolment::{Ended, EnrolmentId, Grant, Granted, News, Reminder, Wish};
use crate::error::SessionError;
use crate::group::MEMBERS_MAX;
use crate::mail::{Enrolment, GroupCommand, Mail};
use crate::mailbox::Mailbox;
use crate::sessions::PeerId;

/// The most clients of which one router's connection keeps the names. More are not believed: their
/// requests are refused.
const CLIENTS_MAX: usize = 16 * 1024;

/// What is to be done at a time.
enum Later {
    Enrol(Box<Enrolment>),
    Remind(EnrolmentId, Reminder, Arc<Mailbox<Mail>>),
}

/// A grant that stands.
struct Standing {
    link: PeerId,
    /// By which it ends.
    leave: Leave,
    enrolment: Box<Enrolment>,
    /// The epoch of which it takes requests; a worker.
    taken: Option<u16>,
}

/// What a connection to a router has told, so that later attachments know it as well.
#[derive(Default)]
struct FromRouter {
    members: BTreeMap<u16, petasos_control::DataAddress>,
    has_roster: bool,
    clients: BTreeMap<u32, Option<Arc<Identity>>>,
    routers: Option<Vec<SocketAddr>>,
    is_draining: bool,
    /// The newest epoch that workers were told.
    newest: Option<u16>,
    /// The epoch that all of them take and that is to be confirmed.
    confirm: Option<u16>,
    /// Leaves that wait to be sent.
    leaves: VecDeque<Leave>,
}

/// The enrolments of a process.
#[derive(Default)]
pub(super) struct Enrolments {
    later: Vec<(Time, Later)>,
    standing: HashMap<EnrolmentId, Standing>,
    links: BTreeMap<PeerId, FromRouter>,
}

impl Enrolments {
    /// When something is due.
    pub(super) fn next_timeout(&self) -> Time {
        self.later.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// Those that stand on a connection.
    fn on(&self, link: PeerId) -> impl Iterator<Item = (EnrolmentId, &Standing)> {
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
            GroupCommand::EpochTaken { enrolment, epoch } => self.on_taken(enrolment, epoch),
            GroupCommand::Remind { enrolment, reminder, after, from } => {
                let later = Later::Remind(enrolment, reminder, from);
                self.enrolments.later.push((self.now + after, later));
            }
            GroupCommand::Route(router) => self.router.set(router),
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

    fn withdraw(&mut self, enrolment: EnrolmentId) {
        let is_it = |later: &Later| match later {
            Later::Enrol(it) => it.id == enrolment,
            Later::Remind(id, ..) => *id == enrolment,
        };
        self.enrolments.later.retain(|(_, later)| !is_it(later));
        if let Some(standing) = self.enrolments.standing.remove(&enrolment) {
            return self.queue_leave(standing.link, standing.leave);
        }
        let is_its = |attempt: &Attempt| match &attempt.asking {
            Asking::Group(it) => it.id == enrolment,
            Asking::Session { .. } => false,
        };
        let id = self.attempts.iter().find_map(|(id, attempt)| is_its(attempt).then_some(*id));
        if let Some(id) = id {
            // What was sent already is given back when it is granted.
            self.attempts.remove(&id);
            self.links.values_mut().for_each(|link| link.waiting.retain(|it| *it != id));
            self.lost.values_mut().for_each(|lost| lost.waiting.retain(|it| *it != id));
        }
    }

    /// A worker takes requests of an epoch. Once all of a connection do, that is confirmed.
    fn on_taken(&mut self, enrolment: EnrolmentId, epoch: u16) {
        let Some(standing) = self.enrolments.standing.get_mut(&enrolment) else { return };
        standing.taken = Some(epoch);
        let link = standing.link;
        let is_worker = |it: &Standing| matches!(it.leave.member, Member::Worker(_));
        let workers = self.enrolments.on(link).filter(|(_, it)| is_worker(it));
        let all_take = workers.map(|(_, it)| it.taken).all(|taken| taken == Some(epoch));
        let Some(told) = self.enrolments.links.get_mut(&link) else { return };
        if all_take && told.newest == Some(epoch) {
            told.confirm = Some(epoch);
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
                self.on_wish_answered(number, id, granted.map_err(|error| (error, String::new())));
            }
            GroupEvent::JoinAnswered { id, result } => {
                let granted = result.map(|grant| Grant::Joined(Box::new(grant)));
                let refused = |JoinFailure { reason, detail }| (reason, detail.to_string());
                self.on_wish_answered(number, id, granted.map_err(refused));
            }
            GroupEvent::Told(told) => self.on_told(number, told),
            GroupEvent::Left { leave } => {
                let left = self.enrolments.on(number).find(|(_, it)| it.leave == leave);
                if let Some(id) = left.map(|(id, _)| id) {
                    self.end_enrolment(id, Ended::Left);
                }
            }
            // A leave is confirmed; nobody asks to be placed (RT37); the rest is a router's.
            _ => {}
        }
    }

    fn on_wish_answered(
        &mut self,
        number: PeerId,
        id: u64,
        result: Result<Grant, (ConnectFailure, String)>,
    ) {
        let attempt = self.attempts.remove(&id);
        let enrolment = attempt.and_then(|attempt| match attempt.asking {
            Asking::Group(enrolment) => Some(enrolment),
            Asking::Session { .. } => None,
        });
        match (result, enrolment) {
            (Ok(grant), Some(enrolment)) => self.on_wish_granted(number, enrolment, grant),
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

    fn on_wish_granted(&mut self, number: PeerId, enrolment: Box<Enrolment>, grant: Grant) {
        let leave = leave_of(&grant);
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let (cipher, epoch) = match &grant {
            Grant::Attached(grant) => (grant.cipher, None),
            Grant::Joined(grant) => (grant.cipher, Some(grant.epoch.number)),
        };
        if cipher.is_some() != link.tls.is_some() {
            self.queue_leave(number, leave);
            let text = "the group is sealed and the connection is not, or the reverse".to_owned();
            return not_granted(&enrolment, SessionError::RefusedBy(RefuseCode::Internal), text);
        }
        let (router_ip, local_ip) = (link.peer_ip, link.local_ip());
        let incarnation = link.incarnation().expect("hellos come before grants");
        let granted = Granted { grant, router_ip, local_ip, incarnation };
        let told = self.enrolments.links.entry(number).or_default();
        let is_worker = epoch.is_some();
        told.newest = epoch.or(told.newest);
        let is_heard = enrolment.leave(|news| {
            news.granted = Some(granted);
            news.routers.clone_from(&told.routers);
            news.is_draining = told.is_draining;
            if is_worker {
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

    fn on_told(&mut self, number: PeerId, told: Told) {
        match told {
            Told::Members(changes) => self.on_members(number, &changes),
            Told::Clients(changes) => self.on_clients(number, changes),
            Told::Epoch { client: Some(client), epoch } => {
                self.write_to(
                    number,
                    |member| member == Member::Client(client),
                    |news| {
                        news.epoch = Some(epoch.clone());
                    },
                );
            }
            Told::Epoch { client: None, epoch } => {
                let from_router = self.enrolments.links.entry(number).or_default();
                from_router.newest = Some(epoch.number);
                self.write_to(number, is_worker, |news| news.epoch = Some(epoch.clone()));
            }
            Told::Active(active) => self.on_active(number, active),
            Told::Routers(routers) => {
                self.write_to(number, |_| true, |news| news.routers = Some(routers.clone()));
                self.enrolments.links.entry(number).or_default().routers = Some(routers);
            }
            // Numbers of methods are the endpoint's own until servers join groups.
            Told::Table(_) => {}
        }
    }

    fn on_active(&mut self, number: PeerId, active: Active) {
        self.write_to(number, is_client, |news| news.active = Some(active));
    }

    fn on_members(&mut self, number: PeerId, changes: &[MemberChange]) {
        let from_router = self.enrolments.links.entry(number).or_default();
        from_router.has_roster = true;
        let mut heard = Vec::with_capacity(changes.len());
        for MemberChange { worker, state } in changes {
            let known = &mut from_router.members;
            match state {
                MemberState::There(at) | MemberState::Draining(at) => {
                    if known.len() >= MEMBERS_MAX && !known.contains_key(worker) {
                        tracing::warn!("a router tells of more than {MEMBERS_MAX} workers");
                        continue;
                    }
                    known.insert(*worker, *at);
                    heard.push((*worker, Some(*at)));
                }
                MemberState::Gone => {
                    let was_known = known.remove(worker).is_some();
                    heard.extend(was_known.then_some((*worker, None)));
                }
            }
        }
        self.write_to(number, is_client, |news| {
            news.has_roster = true;
            news.members.extend(heard.iter().copied());
        });
    }

    fn on_clients(&mut self, number: PeerId, changes: Vec<ClientChange>) {
        let known = &mut self.enrolments.links.entry(number).or_default().clients;
        let mut heard = Vec::with_capacity(changes.len());
        for ClientChange { client, names } in changes {
            let Some(names) = names else {
                let was_known = known.remove(&client).is_some();
                heard.extend(was_known.then_some((client, None)));
                continue;
            };
            if known.len() >= CLIENTS_MAX && !known.contains_key(&client) {
                tracing::warn!("a router tells of more than {CLIENTS_MAX} clients");
                continue;
            }
            // The names are the router's word: nobody here has seen a certificate (RT29).
            let identity =
                (!names.is_empty()).then(|| Arc::new(Identity { names, certificate: Vec::new() }));
            known.insert(client, identity.clone());
            heard.push((client, Some(identity)));
        }
        self.write_to(number, is_worker, |news| news.clients.extend(heard.iter().cloned()));
    }

    /// The peer of a connection drains: who is attached there goes elsewhere.
    pub(super) fn on_router_draining(&mut self, number: PeerId) {
        if let Some(from_router) = self.enrolments.links.get_mut(&number) {
            from_router.is_draining = true;
            self.write_to(number, |_| true, |news| news.is_draining = true);
        }
    }

    /// Leaves news for those of a connection that it concerns. An endpoint that is gone leaves.
    fn write_to(
        &mut self,
        number: PeerId,
        concerns: impl Fn(Member) -> bool,
        write: impl Fn(&mut News),
    ) {
        let mut gone = Vec::new();
        for (id, standing) in self.enrolments.on(number) {
            if concerns(standing.leave.member) && !standing.enrolment.leave(&write) {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.withdraw(id));
    }

    /// A connection has ended: so have the enrolments on it.
    pub(super) fn end_enrolments(&mut self, number: PeerId, error: &SessionError) {
        let ids: Vec<_> = self.enrolments.on(number).map(|(id, _)| id).collect();
        for id in ids {
            self.end_enrolment(id, Ended::Broken(error.clone()));
        }
        self.enrolments.links.remove(&number);
    }

    fn end_enrolment(&mut self, id: EnrolmentId, ended: Ended) {
        if let Some(standing) = self.enrolments.standing.remove(&id) {
            // An endpoint that is gone need not be told.
            standing.enrolment.leave(|news| news.ended = Some(ended));
        }
    }

    /// Sends what has waited for the connection to accept it.
    pub(super) fn send_to_router(&mut self, number: PeerId) {
        let Some(from_router) = self.enrolments.links.get_mut(&number) else { return };
        let link = self.links.get_mut(&number).expect("links are removed by their turn only");
        let Some(connection) = link.connection() else { return };
        while let Some(leave) = from_router.leaves.front() {
            match connection.leave(*leave) {
                Err(GroupError::TooManyOutstanding | GroupError::Backlogged) => break,
                // Sent, or it has ended already.
                _ => from_router.leaves.pop_front(),
            };
        }
        if let Some(epoch) = from_router.confirm
            && !matches!(connection.confirm_epoch(epoch), Err(GroupError::Backlogged))
        {
            // What cannot be said now says nothing later either.
            from_router.confirm = None;
        }
    }
}

/// Tells an endpoint that its wish is not granted.
pub(super) fn not_granted(enrolment: &Enrolment, error: SessionError, text: String) {
    // An endpoint that is gone need not be told.
    enrolment.leave(|news| {
        news.ended = Some(Ended::NotGranted(error, text));
    });
}

/// Sends a wish; as `sent` of connects.
pub(super) fn ask(
    connection: &mut Connection,
    id: u64,
    wish: &Wish,
) -> Option<Result<(), RefuseCode>> {
    let asked = match wish {
        Wish::Attach(params) => connection.attach(id, *params),
        Wish::Join(params) => connection.join(id, *params),
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

fn is_client(member: Member) -> bool {
    matches!(member, Member::Client(_))
}

fn is_worker(member: Member) -> bool {
    matches!(member, Member::Worker(_))
}
