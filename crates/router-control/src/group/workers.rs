//! Workers: who joins, and by which number (RT34, RT35).

use std::net::SocketAddr;

use petasos_base::Time;
use petasos_base::sync::Ordering;
use petasos_control::{DataAddress, JoinGrant, RefuseCode, Text};
use petasos_endpoint::group_router::{
    JoinParams, Leave, Member, MemberState, PeerLink, Refusal, RouterAnswer, RouterAnswers,
};
use petasos_router::{Event, Join};
use petasos_router_plane::{MemberJoin, MemberJoined, TableError};

use super::{ADMIT_AFTER, Group, Pending, Ready, Worker, WorkerKey, code, own_address};
use crate::links::epoch;
use crate::plane_thread::PlaneCommand;

impl Group {
    pub(super) fn on_join(
        &mut self,
        link: PeerLink,
        id: u64,
        params: JoinParams,
    ) -> Result<(), Refusal> {
        let at = &self.links[&link];
        let refused = |code, text: &str| Refusal { code, detail: Text::new(text) };
        if params.payload_bytes_max < self.payload_bytes() {
            let (theirs, ours) = (params.payload_bytes_max, self.payload_bytes());
            let text = format!("payload_bytes_max is {theirs}, and the group's payloads {ours}");
            return Err(refused(RefuseCode::IncompatibleParameters, &text));
        }
        let is_on = |list: &Option<Vec<String>>| {
            let names = at.names();
            list.as_ref().is_none_or(|list| names.iter().any(|name| list.contains(name)))
        };
        if !is_on(&self.settings.workers.allowed) {
            return Err(refused(RefuseCode::NotAuthorised, "it may not be a worker"));
        }
        if params.is_primary && !is_on(&self.settings.workers.primaries) {
            return Err(refused(RefuseCode::NotAuthorised, "it may not be primary"));
        }
        let address = own_address(&params.address, at.peer.ip)
            .map_err(|code| refused(code, "the data address is not the worker's"))?;
        let key = (at.peer.incarnation, at.names().to_vec(), address);
        let Some(number) = self.number_for(&key) else {
            return Err(refused(RefuseCode::SessionsFull, "there are too many workers"));
        };
        let joining = MemberJoin {
            worker: number,
            address,
            session: params.session,
            tag: params.tag,
            join: Join {
                identity: identity_of(at.names(), address),
                bound: params.bound,
                weight: params.weight.min(100) as u8,
            },
            is_primary: params.is_primary,
        };
        self.links.get_mut(&link).expect("it was just there").joining += 1;
        let pending = Pending::Join { link, id, params, number, key };
        self.ask(pending, |ticket| PlaneCommand::Join { ticket, joining });
        Ok(())
    }

    /// The number of a worker: the one that it has or had, or another.
    fn number_for(&self, key: &WorkerKey) -> Option<u16> {
        let standing = self.workers.iter().find(|(_, worker)| worker.key == *key);
        let known = standing.map(|(number, _)| *number).or_else(|| self.former.get(key).copied());
        let joining = |number| {
            let mut joins = self.pending.values();
            joins.any(|it| matches!(it, Pending::Join { number: other, .. } if *other == number))
        };
        let is_held = |number| self.held.iter().any(|(_, it)| *it == Member::Worker(number));
        let is_free = |number: &u16| {
            !self.workers.contains_key(number) && !is_held(*number) && !joining(*number)
        };
        known.or_else(|| (1..=u16::MAX).find(is_free))
    }

    pub(super) fn on_joined(
        &mut self,
        (link, id): (PeerLink, u64),
        (params, number, key): (JoinParams, u16, WorkerKey),
        (now, result): (Time, Result<MemberJoined, TableError>),
        answers: &mut RouterAnswers,
    ) {
        let joined = match result {
            Ok(joined) => joined,
            Err(error) => {
                self.refused.joins.fetch_add(1, Ordering::Relaxed);
                if let Some(at) = self.links.get_mut(&link) {
                    at.joining -= 1;
                }
                let detail = Text::new(&error.to_string());
                let result = Err(Refusal { code: code(&error), detail });
                return answers.push((link, RouterAnswer::Join { id, result }));
            }
        };
        // An earlier membership of the same endpoint has ended (RT34).
        if let Some(before) = self.workers.remove(&number) {
            self.unlink_worker(&before, number);
            self.command(PlaneCommand::End(before.id));
        }
        self.former.remove(&key);
        self.held.retain(|(_, member)| *member != Member::Worker(number));
        let (_, _, address) = key;
        if !self.links.contains_key(&link) {
            // Nobody waits for it any more. Clients may know its number.
            self.command(PlaneCommand::End(joined.id));
            self.member_log.set(number, None);
            return self.held.push_back((self.epochs.begun(), Member::Worker(number)));
        }
        let (tag, until) = (joined.tag, Time::NEVER);
        let worker = Worker { link: Some(link), id: joined.id, tag, key, until };
        self.workers.insert(number, worker);
        let data = DataAddress::udp(address.port(), Some(address.ip()));
        self.member_log.set(number, Some(MemberState::There(data)));
        self.admit.push_back((now + ADMIT_AFTER, joined.id));
        let grant = JoinGrant {
            worker: number,
            session: joined.session,
            tag,
            secret: joined.secret,
            payload_bytes: params.payload_bytes_max.min(self.payload_bytes()),
            clients_max: self.settings.plane.clients_max,
            beat_us: self.settings.beat_us,
            hole_us: self.settings.hole_us,
            claim_us: self.settings.claim_us,
            cipher: None,
            epoch: epoch(self.epochs.newest()),
            source: self.data,
            feedback: self.data,
        };
        let clients = self.client_log.version();
        self.ready.push(Ready::Join { link, id, grant, clients });
    }

    fn unlink_worker(&mut self, worker: &Worker, number: u16) {
        if let Some(at) = worker.link.and_then(|link| self.links.get_mut(&link)) {
            at.workers.retain(|it| *it != number);
        }
    }

    /// A worker's membership has ended. The plane may know that.
    pub(super) fn end_worker(&mut self, number: u16) {
        if let Some(gone) = self.workers.remove(&number) {
            self.unlink_worker(&gone, number);
            self.member_log.set(number, None);
            self.command(PlaneCommand::End(gone.id));
            self.held.push_back((self.epochs.begun(), Member::Worker(number)));
            self.former.insert(gone.key, number);
        }
    }

    /// The plane says that a worker is no member any more.
    pub(super) fn on_worker_event(&mut self, event: Event) {
        let (Event::Gone { worker: id, .. } | Event::Left { worker: id }) = event else { return };
        let gone = self.workers.iter().find(|(_, worker)| worker.id == id);
        let Some((&number, worker)) = gone else { return };
        if let Some(link) = worker.link {
            let leave = Leave { member: Member::Worker(number), tag: worker.tag };
            self.expelled.push((link, leave));
        }
        self.end_worker(number);
    }
}

/// What names a worker to policies that keep keys where they were.
fn identity_of(names: &[String], address: SocketAddr) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (names, address).hash(&mut hasher);
    hasher.finish()
}
