//! The router's part of the control protocol: who is a client or worker of the group.
//!
//! Threat model: anybody who may dial can ask. A client is bounded by its holder's half of all
//! clients (RT39), and its packets go to the address of its own connection (C20); a worker is
//! allowed by name. What they make the router keep goes with their connection, after `outlive`.
//! Numbers are not given to others before two epochs have begun since (RT28).
//!
//! Invariants:
//! - a client or worker of the tables has a place in the plane, and is in a link's list exactly as
//!   long as its connection stands;
//! - what the plane or the judge was asked is `pending` until it has answered, also if its asker is
//!   gone;
//! - a grant that is ready has a link that stands, and its member is there.

mod clients;
mod epochs;
mod judged;
mod operated;
mod places;
mod workers;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use petasos_base::Time;
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_control::{AttachGrant, DataAddress, JoinGrant, RefuseCode, Text};
use petasos_endpoint::Mailbox;
use petasos_endpoint::group_router::{
    AttachParams, GroupEvent, GroupPeer, GroupRouter, JoinParams, Leave, Member, MemberState,
    PeerLink, Refusal, RouterAnswer, RouterAnswers, TellError, Told,
};
use petasos_router::WorkerId;
use petasos_router_plane::{MemberJoin, TableError};
use petasos_router_table::Membership;
use petasos_tls::Holder;

use crate::change_log::ChangeLog;
use crate::config::GroupSettings;
use crate::desk::Desk;
use crate::epochs::{Epochs, Readiness};
use crate::links::{Link, Tables};
use crate::methods::MethodTable;
use crate::numbers::Numbers;
use crate::plane_thread::{PlaneCommand, PlaneReply, Replies, Ticket};
use crate::secrets::{Secrets, epoch_of_client, epoch_of_workers};

/// Until a worker gets requests, so that clients know it first (RT36).
const ADMIT_AFTER: Duration = Duration::from_millis(50);

/// What a router has refused.
#[derive(Debug, Default)]
pub struct Refused {
    /// Attempts to attach.
    pub attaches: AtomicU64,
    /// Attempts to join.
    pub joins: AtomicU64,
}

struct Client {
    link: Option<PeerLink>,
    tag: u32,
    holder: Holder,
    /// Without a connection: how long it stays.
    until: Time,
}

struct Worker {
    link: Option<PeerLink>,
    id: WorkerId,
    tag: u32,
    key: WorkerKey,
    holder: Holder,
    is_primary: bool,
    /// Where clients can dial it (RT37).
    dial: Option<SocketAddr>,
    until: Time,
    readiness: Readiness,
    /// It counts as there for the table, if the group has one, as long as this lives.
    #[expect(dead_code, reason = "it is held, and not looked at")]
    membership: Option<Membership>,
}

/// Who keeps its number when it joins anew (RT34).
type WorkerKey = (u64, Vec<String>, SocketAddr);

/// What the plane, or the table's judge, was asked, for whom.
enum Pending {
    Attach {
        /// `None`: it is gone.
        link: Option<PeerLink>,
        id: u64,
        params: AttachParams,
        holder: Holder,
        names: Vec<String>,
    },
    Join(Joining),
    /// A worker that is being judged by the table, and where its packets go.
    Judged {
        /// `None`: it is gone.
        link: Option<PeerLink>,
        id: u64,
        params: JoinParams,
        address: SocketAddr,
    },
}

/// A worker that waits for its place in the plane.
struct Joining {
    /// `None`: it is gone.
    link: Option<PeerLink>,
    id: u64,
    is_primary: bool,
    dial: Option<SocketAddr>,
    place: MemberJoin,
    key: WorkerKey,
    holder: Holder,
    membership: Option<Membership>,
}

/// An answer that waits until others were told (RT29).
enum Ready {
    Attach { link: PeerLink, id: u64, grant: AttachGrant, passes: u32 },
    Join { link: PeerLink, id: u64, grant: JoinGrant, clients: u64 },
}

/// See the module's documentation.
pub(crate) struct Group {
    settings: GroupSettings,
    /// Where first packets come, and feedback.
    data: [DataAddress; 2],
    plane: Arc<Mailbox<PlaneCommand>>,
    replies: Arc<Replies>,
    refused: Arc<Refused>,
    /// `None`: the group has no table.
    methods: Option<MethodTable>,
    links: BTreeMap<PeerLink, Link>,
    clients: BTreeMap<u32, Client>,
    workers: BTreeMap<u16, Worker>,
    client_log: ChangeLog<u32, Vec<String>>,
    member_log: ChangeLog<u16, MemberState>,
    pending: BTreeMap<Ticket, Pending>,
    next_ticket: Ticket,
    ready: Vec<Ready>,
    client_numbers: Numbers,
    worker_numbers: Numbers,
    /// Numbers that are held back, and when how many epochs had begun.
    held_clients: VecDeque<(u64, u32, Holder)>,
    held_workers: VecDeque<(u64, u16, WorkerKey, Holder)>,
    /// The numbers of workers that are there, were, or wait for a place.
    worker_keys: HashMap<WorkerKey, u16>,
    free_workers: VecDeque<u16>,
    worker_highest: u16,
    /// Workers that are to get requests, by number and tag.
    admit: VecDeque<(Time, u16, u32)>,
    primary: Option<WorkerId>,
    /// The worker that a client was placed at last.
    placed_last: u16,
    /// Workers that an operator has drained. A number that may be another worker's is forgotten.
    drained: BTreeSet<u16>,
    epochs: Epochs,
    /// Of a sealed group.
    secrets: Option<Secrets>,
    /// What operators want.
    desk: Arc<Desk<Group>>,
    /// Who has to leave.
    expelled: Vec<(PeerLink, Leave)>,
    /// Workers were expelled that know the newest epoch.
    has_expelled: bool,
}

impl Group {
    pub(crate) fn new(
        settings: GroupSettings,
        data: [DataAddress; 2],
        (plane, replies): (Arc<Mailbox<PlaneCommand>>, Arc<Replies>),
        refused: Arc<Refused>,
        methods: Option<MethodTable>,
        now: Time,
    ) -> Group {
        let epochs = Epochs::new(settings.epochs, now);
        let secrets = settings.plane.is_sealed.then(|| Secrets::new(settings.cipher));
        let client_numbers = Numbers::new(settings.plane.clients_max as usize);
        let worker_numbers = Numbers::new(settings.plane.core.workers_max);
        let mut group = Group {
            settings,
            data,
            plane,
            replies,
            refused,
            methods,
            links: BTreeMap::new(),
            clients: BTreeMap::new(),
            workers: BTreeMap::new(),
            client_log: ChangeLog::new(),
            member_log: ChangeLog::new(),
            pending: BTreeMap::new(),
            next_ticket: 0,
            ready: Vec::new(),
            client_numbers,
            worker_numbers,
            held_clients: VecDeque::new(),
            held_workers: VecDeque::new(),
            worker_keys: HashMap::new(),
            free_workers: VecDeque::new(),
            worker_highest: 0,
            primary: None,
            placed_last: 0,
            drained: BTreeSet::new(),
            admit: VecDeque::new(),
            epochs,
            secrets,
            desk: Arc::new(Desk::open()),
            expelled: Vec::new(),
            has_expelled: false,
        };
        group.begin_epoch(0);
        group
    }

    /// Where operators leave work.
    pub(crate) fn desk(&self) -> &Arc<Desk<Group>> {
        &self.desk
    }

    fn command(&self, command: PlaneCommand) {
        // If the plane's thread is gone, so is the router.
        let _ = self.plane.post(command);
    }

    fn ask(&mut self, pending: Pending, command: impl FnOnce(Ticket) -> PlaneCommand) {
        self.next_ticket += 1;
        self.pending.insert(self.next_ticket, pending);
        // If the plane's thread is gone, the router is no use any more, and its process ends.
        self.command(command(self.next_ticket));
    }
}

/// What time brings.
impl Group {
    fn payload_bytes(&self) -> u16 {
        self.settings.plane.payload_bytes as u16
    }

    fn on_reply(&mut self, reply: PlaneReply, answers: &mut RouterAnswers) {
        let ticket = match &reply {
            PlaneReply::Attached { ticket, .. } | PlaneReply::Joined { ticket, .. } => *ticket,
            PlaneReply::Worker(event) => return self.on_worker_event(*event),
        };
        match (self.pending.remove(&ticket), reply) {
            (Some(pending), PlaneReply::Attached { result, .. }) => {
                let Pending::Attach { link, id, params, holder, names } = pending else {
                    unreachable!("the plane answers what it was asked");
                };
                self.on_attached((link, id), (params, holder, names), result, answers);
            }
            (Some(Pending::Join(joining)), PlaneReply::Joined { result, .. }) => {
                self.on_joined(joining, result, answers);
            }
            _ => unreachable!("the plane answers what it was asked"),
        }
    }

    /// Gives the answers for which everybody has been told who had to be (RT29).
    fn give_ready(&mut self, now: Time, answers: &mut RouterAnswers) {
        for ready in core::mem::take(&mut self.ready) {
            match ready {
                Ready::Attach { link, id, grant, passes: 0 } => {
                    // Workers hear of it first: at the end of this turn.
                    self.ready.push(Ready::Attach { link, id, grant, passes: 1 });
                }
                Ready::Attach { link, id, grant, .. } => {
                    let Some(at) = self.links.get_mut(&link) else { continue };
                    let epoch = self.epochs.of_clients();
                    let epoch = epoch_of_client(self.secrets.as_mut(), epoch, grant.client);
                    let grant = AttachGrant { epoch, ..grant };
                    at.clients.insert(grant.client, grant.epoch.number);
                    // To the others of the connection it is told all the same, if it is news.
                    if at.clients.len() == 1 {
                        at.active_told = Some(self.settings.active);
                    }
                    let result = Ok((grant, self.settings.active));
                    answers.push((link, RouterAnswer::Attach { id, result }));
                }
                Ready::Join { link, id, grant, clients } => {
                    let Some(at) = self.links.get_mut(&link) else { continue };
                    if at.clients_told < clients || !at.knows(self.methods.as_ref()) {
                        self.ready.push(Ready::Join { link, id, grant, clients });
                        continue;
                    }
                    at.joining.remove(&id);
                    let worker = self.workers.get(&grant.worker);
                    let is_there = |it: &Worker| it.link == Some(link) && it.tag == grant.tag;
                    if !worker.is_some_and(is_there) {
                        // It has ended, or has joined once more.
                        let refusal =
                            Refusal { code: RefuseCode::Internal, detail: Text::default() };
                        answers.push((link, RouterAnswer::Join { id, result: Err(refusal) }));
                        continue;
                    }
                    let epoch = epoch_of_workers(self.secrets.as_mut(), self.epochs.newest());
                    let grant = JoinGrant { epoch, ..grant };
                    at.workers.push(grant.worker);
                    at.epoch_told = Some(grant.epoch.number);
                    self.begin_readiness(grant.worker, link);
                    self.admit.push_back((now + ADMIT_AFTER, grant.worker, grant.tag));
                    answers.push((link, RouterAnswer::Join { id, result: Ok(grant) }));
                }
            }
        }
    }

    fn end_outlived(&mut self, now: Time) {
        let clients = self.clients.iter().filter(|(_, client)| client.until <= now);
        for client in clients.map(|(client, _)| *client).collect::<Vec<_>>() {
            self.end_client(client);
        }
        let workers = self.workers.iter().filter(|(_, worker)| worker.until <= now);
        for worker in workers.map(|(worker, _)| *worker).collect::<Vec<_>>() {
            self.end_worker(worker);
        }
    }

    fn next_timeout(&self, now: Time) -> Time {
        if self.ready.iter().any(|ready| matches!(ready, Ready::Attach { .. })) {
            return now;
        }
        let clients = self.clients.values().map(|client| client.until);
        let workers = self.workers.values().map(|worker| worker.until);
        let admit = self.admit.front().map_or(Time::NEVER, |(at, ..)| *at);
        let until = clients.chain(workers).min().unwrap_or(Time::NEVER);
        until.min(admit).min(self.epochs.next_timeout())
    }
}

impl GroupRouter for Group {
    fn on_event(
        &mut self,
        now: Time,
        peer: &GroupPeer,
        event: GroupEvent,
        answers: &mut RouterAnswers,
    ) {
        let link = peer.link;
        match event {
            GroupEvent::AttachRequested { id, params } => {
                self.links.entry(link).or_insert_with(|| Link::new(peer.clone()));
                if let Err(code) = self.on_attach(now, (link, id), params) {
                    self.refused.attaches.fetch_add(1, Ordering::Relaxed);
                    answers.push((link, RouterAnswer::Attach { id, result: Err(code) }));
                }
            }
            GroupEvent::JoinRequested { id, params } => {
                self.links.entry(link).or_insert_with(|| Link::new(peer.clone()));
                if let Err(refusal) = self.on_join(now, (link, id), params) {
                    self.answer_refused((link, id), refusal, answers);
                }
            }
            GroupEvent::PlaceRequested { id, params } => {
                let result = self.on_place(&params);
                answers.push((link, RouterAnswer::Place { id, result }));
            }
            GroupEvent::EpochHeard { epoch } => self.on_epoch_heard(link, epoch),
            GroupEvent::Left { leave } => match leave.member {
                Member::Client(client) if self.is_of(link, leave) => self.end_client(client),
                Member::Worker(worker) if self.is_of(link, leave) => self.end_worker(worker),
                _ => {}
            },
            _ => {}
        }
    }

    fn on_gone(&mut self, now: Time, link: PeerLink, is_broken: bool) {
        if self.links.remove(&link).is_none() {
            return;
        }
        self.forget_asker(link);
        let until = if is_broken { now + self.settings.outlive } else { now };
        for client in self.clients.values_mut().filter(|it| it.link == Some(link)) {
            (client.link, client.until) = (None, until);
        }
        let mut lost = Vec::new();
        for worker in self.workers.values_mut().filter(|it| it.link == Some(link)) {
            (worker.link, worker.until) = (None, until);
            lost.push(worker.id);
        }
        lost.into_iter().for_each(|id| self.command(PlaneCommand::Disconnect(id)));
        self.expelled.retain(|(to, _)| *to != link);
    }

    fn tell(&mut self, peer: &GroupPeer, tell: &mut dyn FnMut(Told) -> Result<(), TellError>) {
        let Some(link) = self.links.get_mut(&peer.link) else { return };
        let mut tables = Tables {
            secrets: self.secrets.as_mut(),
            members: &self.member_log,
            clients: &self.client_log,
            epochs: (self.epochs.newest(), self.epochs.of_clients()),
            begun: self.epochs.begun(),
            routers: &self.settings.routers,
            active: self.settings.active,
            methods: self.methods.as_ref(),
        };
        match link.tell(&mut tables, tell) {
            // It is asked again when there is room.
            Ok(()) | Err(TellError::Backlogged) => {}
            Err(error) => tracing::debug!(%error, "a member was not told"),
        }
    }

    fn turn(&mut self, now: Time, answers: &mut RouterAnswers) -> Time {
        let replies = {
            let mut replies = self.replies.lock().expect("nothing panics under the lock");
            core::mem::take(&mut *replies)
        };
        for reply in replies {
            self.on_reply(reply, answers);
        }
        self.serve_operators();
        self.take_news(now, answers);
        self.turn_epochs(now);
        self.end_outlived(now);
        while let Some((_, number, tag)) = self.admit.pop_front_if(|(at, ..)| *at <= now) {
            self.admit(number, tag);
        }
        self.give_ready(now, answers);
        let expelled = self.expelled.drain(..);
        answers.extend(expelled.map(|(link, leave)| (link, RouterAnswer::Leave(leave))));
        self.next_timeout(now)
    }
}

impl Group {
    /// A connection is gone, and its number may be another's: nobody waits for its answers, and
    /// nobody has what was not granted yet.
    fn forget_asker(&mut self, link: PeerLink) {
        for pending in self.pending.values_mut() {
            match pending {
                Pending::Attach { link: of, .. } | Pending::Judged { link: of, .. } => {
                    *of = of.filter(|it| *it != link)
                }
                Pending::Join(joining) => {
                    joining.link = joining.link.filter(|it| *it != link);
                }
            }
        }
        let of = |ready: &mut Ready| match ready {
            Ready::Attach { link: of, .. } | Ready::Join { link: of, .. } => *of == link,
        };
        for ready in self.ready.extract_if(.., of).collect::<Vec<_>>() {
            match ready {
                Ready::Attach { grant, .. } => self.end_client(grant.client),
                Ready::Join { grant, .. } => {
                    let worker = self.workers.get(&grant.worker);
                    if worker.is_some_and(|worker| worker.tag == grant.tag) {
                        self.end_worker(grant.worker);
                    }
                }
            }
        }
    }

    /// Whether a member is one of this connection, by this tag.
    fn is_of(&self, link: PeerLink, leave: Leave) -> bool {
        let (of, tag) = match leave.member {
            Member::Client(client) => match self.clients.get(&client) {
                Some(client) => (client.link, client.tag),
                None => return false,
            },
            Member::Worker(worker) => match self.workers.get(&worker) {
                Some(worker) => (worker.link, worker.tag),
                None => return false,
            },
        };
        of == Some(link) && tag == leave.tag
    }
}

/// The data address of a peer: one of its own (C20).
fn own_address(address: &DataAddress, peer: IpAddr) -> Result<SocketAddr, RefuseCode> {
    let ip = address.ip.unwrap_or(peer).to_canonical();
    let is_own = ip == peer.to_canonical() || ip.is_loopback() && peer.is_loopback();
    if !is_own { Err(RefuseCode::NotAuthorised) } else { Ok(SocketAddr::new(ip, address.port)) }
}

fn code(error: &TableError) -> RefuseCode {
    match error {
        TableError::Full => RefuseCode::SessionsFull,
        TableError::Unreachable(_) => RefuseCode::IncompatibleParameters,
        _ => RefuseCode::Internal,
    }
}
