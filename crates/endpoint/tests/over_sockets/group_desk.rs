//! A router of which only the control protocol is there: it grants what is asked, keeps what was
//! said, and tells what the test wants told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_base::Time;
use petasos_control::{DataAddress, Epoch};
use petasos_endpoint::group_router::{
    Active, ClientChange, GroupEvent, GroupPeer, GroupRouter, JoinParams, Leave, Member,
    MemberChange, MemberState, PeerLink, PlaceGrant, Refusal, RouterAnswer, RouterAnswers,
    TellError, Told,
};
use petasos_endpoint::{AttachGrant, JoinGrant, Node, NodeConfig, RefuseCode, TlsConfig};

use crate::common::*;

pub const PAYLOAD: u16 = 1024;

/// What clients and workers have said, and what has become of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Attach { client: u32, endpoint: u16 },
    Join { worker: u16, session: u32, tag: u32 },
    Heard(u16),
    Place { avoid: Option<u16> },
    Left(Member),
    Gone { is_broken: bool },
}

#[derive(Default)]
pub struct Desk {
    pub said: Vec<Said>,
    /// Requests are refused so.
    pub refuses: Option<RefuseCode>,
    pub active: Option<u32>,
    /// Where clients are placed. `None`: they wait.
    pub place: Option<Result<PlaceGrant, RefuseCode>>,
    /// What is told on each connection, in this order, and what of it was.
    told: Vec<Told>,
    has_heard: BTreeMap<PeerLink, BTreeSet<usize>>,
    /// Who has to leave.
    expelled: Vec<Leave>,
    standing: BTreeMap<Member, (PeerLink, u32)>,
    numbers: u32,
    /// Every worker has this number: the endpoint is the same.
    pub same_worker: Option<u16>,
    pub epoch: u16,
}

/// A node whose router is a desk. Its data address is a socket that nobody reads.
pub struct Router {
    pub node: Node,
    pub desk: Arc<Mutex<Desk>>,
    pub address: SocketAddr,
}

struct AtDesk {
    desk: Arc<Mutex<Desk>>,
    data: UdpSocket,
}

impl Router {
    pub fn new() -> Router {
        Router::with(None, 1)
    }

    pub fn with(tls: Option<TlsConfig>, first_number: u32) -> Router {
        let listen = Some(SocketAddr::new(localhost(), 0));
        let node = Node::start(NodeConfig { listen, tls, ..NodeConfig::default() });
        let node = node.expect("loopback has ports");
        let desk = Desk { numbers: first_number, ..Desk::default() };
        let desk = Arc::new(Mutex::new(desk));
        let data = UdpSocket::bind((localhost(), 0)).expect("loopback has ports");
        node.set_router(Box::new(AtDesk { desk: desk.clone(), data })).expect("it has none");
        let address = node.local_address().expect("it listens");
        Router { node, desk, address }
    }

    pub fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().expect("nothing panics under it")
    }

    /// Tells everybody.
    pub fn tell(&self, told: Told) {
        self.desk().told.push(told);
        self.node.turn_router();
    }

    pub fn tell_members(&self, workers: &[(u16, Option<u16>)]) {
        let change = |&(worker, port): &(u16, Option<u16>)| MemberChange {
            worker,
            state: port.map_or(MemberState::Gone, |port| {
                MemberState::There(DataAddress::udp(port, Some(localhost())))
            }),
        };
        let changes: Vec<_> = workers.iter().map(change).collect();
        // An empty roster is told as well.
        let chunks = changes.len().div_ceil(300).max(1);
        (0..chunks).for_each(|at| {
            let part = changes.iter().skip(at * 300).take(300);
            self.tell(Told::Members(part.copied().collect()));
        });
    }

    /// Who connects from now on is told nothing of what was said before: a new process would not
    /// know it.
    pub fn forget(&self) {
        let desk = &mut *self.desk();
        desk.told.clear();
        desk.has_heard.values_mut().for_each(BTreeSet::clear);
    }

    pub fn tell_clients(&self, clients: impl Iterator<Item = (u32, bool)>) {
        let change = |(client, is_there): (u32, bool)| ClientChange {
            client,
            names: is_there.then(Vec::new),
        };
        let clients: Vec<_> = clients.map(change).collect();
        clients.chunks(400).for_each(|chunk| self.tell(Told::Clients(chunk.to_vec())));
    }

    /// Makes a member leave.
    pub fn expel(&self, member: Member) {
        let mut desk = self.desk();
        let (_, tag) = desk.standing[&member];
        desk.expelled.push(Leave { member, tag });
        drop(desk);
        self.node.turn_router();
    }

    pub fn heard(&self, is_it: impl Fn(&Said) -> bool) -> usize {
        self.desk().said.iter().filter(|said| is_it(said)).count()
    }
}

pub fn epoch(number: u16) -> Epoch {
    Epoch { number, binds_anew: false, secret: None }
}

impl Desk {
    fn next(&mut self, link: PeerLink, member: impl Fn(u32) -> Member) -> (Member, u32) {
        self.numbers += 1;
        let (member, tag) = (member(self.numbers), 1000 + self.numbers);
        self.standing.insert(member, (link, tag));
        (member, tag)
    }

    fn join(
        &mut self,
        link: PeerLink,
        params: &JoinParams,
        address: DataAddress,
    ) -> Result<JoinGrant, Refusal> {
        if let Some(code) = self.refuses {
            return Err(Refusal { code, detail: petasos_control::Text::new("no") });
        }
        let same = self.same_worker;
        let number = |number| Member::Worker(same.unwrap_or(number as u16));
        let (member, tag) = self.next(link, number);
        let Member::Worker(worker) = member else { unreachable!("it is one") };
        self.said.push(Said::Join { worker, session: params.session, tag: params.tag });
        Ok(JoinGrant {
            worker,
            session: 1,
            tag,
            secret: 7,
            payload_bytes: PAYLOAD,
            clients_max: 20_000,
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher: None,
            epoch: epoch(self.epoch),
            source: address,
            feedback: address,
        })
    }
}

impl GroupRouter for AtDesk {
    fn on_event(
        &mut self,
        _: Time,
        peer: &GroupPeer,
        event: GroupEvent,
        answers: &mut RouterAnswers,
    ) {
        let desk = &mut *self.desk.lock().expect("nothing panics under it");
        let data = self.data.local_addr().expect("it is bound").port();
        let address = DataAddress::udp(data, None);
        desk.has_heard.entry(peer.link).or_default();
        let answer = match event {
            GroupEvent::AttachRequested { id, params } => {
                let active = desk.active.map_or(Active { is_active: false, term: 0 }, |term| {
                    Active { is_active: true, term }
                });
                let granted = desk.refuses.map_or_else(
                    || {
                        let (member, tag) = desk.next(peer.link, Member::Client);
                        let Member::Client(client) = member else { unreachable!("it is one") };
                        desk.said.push(Said::Attach { client, endpoint: params.endpoint });
                        let grant = AttachGrant {
                            client,
                            tag,
                            payload_bytes: PAYLOAD,
                            asked_max: 16,
                            has_no_window: false,
                            cipher: None,
                            epoch: epoch(desk.epoch),
                            address,
                        };
                        Ok((grant, active))
                    },
                    Err,
                );
                RouterAnswer::Attach { id, result: granted }
            }
            GroupEvent::JoinRequested { id, params } => {
                let result = desk.join(peer.link, &params, address);
                RouterAnswer::Join { id, result }
            }
            GroupEvent::PlaceRequested { id, params } => {
                desk.said.push(Said::Place { avoid: params.avoid });
                let Some(result) = desk.place else { return };
                RouterAnswer::Place { id, result }
            }
            GroupEvent::EpochHeard { epoch } => return desk.said.push(Said::Heard(epoch)),
            GroupEvent::Left { leave } => return desk.said.push(Said::Left(leave.member)),
            _ => return,
        };
        answers.push((peer.link, answer));
    }

    fn on_gone(&mut self, _: Time, link: PeerLink, is_broken: bool) {
        let desk = &mut *self.desk.lock().expect("nothing panics under it");
        desk.has_heard.remove(&link);
        desk.said.push(Said::Gone { is_broken });
    }

    fn tell(&mut self, peer: &GroupPeer, tell: &mut dyn FnMut(Told) -> Result<(), TellError>) {
        let desk = &mut *self.desk.lock().expect("nothing panics under it");
        let Some(heard) = desk.has_heard.get_mut(&peer.link) else { return };
        for (at, told) in desk.told.iter().enumerate() {
            if heard.contains(&at) {
                continue;
            }
            match tell(told.clone()) {
                Ok(()) => _ = heard.insert(at),
                Err(TellError::Backlogged) => return,
                // Nobody is there yet whom it concerns.
                Err(_) => {}
            }
        }
    }

    fn turn(&mut self, _: Time, answers: &mut RouterAnswers) -> Time {
        let desk = &mut *self.desk.lock().expect("nothing panics under it");
        for leave in desk.expelled.drain(..) {
            let (link, _) = desk.standing[&leave.member];
            answers.push((link, RouterAnswer::Leave(leave)));
        }
        Time::NEVER
    }
}
