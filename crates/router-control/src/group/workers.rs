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
use petasos_router_table::Membership;
use petasos_tls::Holder;

use super::{Group, Joining, Pending, Ready, Worker, WorkerKey, code, own_address};
use crate::epochs::Readiness;
use crate::plane_thread::PlaneCommand;
use crate::secrets::epoch_of_workers;

impl Group {
    pub(super) fn on_join(
        &mut self,
        now: Time,
        (link, id): (PeerLink, u64),
        params: JoinParams,
    ) -> Result<(), Refusal> {
        let address = self.check_join(link, &params)?;
        self.judge_first(now, (link, id), (params, address))
    }

    /// Asks the plane for a place of a worker that may join.
    pub(super) fn place(
        &mut self,
        now: Time,
        (link, id): (PeerLink, u64),
        (params, address): (JoinParams, SocketAddr),
        membership: Option<Membership>,
    ) -> Result<(), Refusal> {
        let at = &self.links[&link];
        let key = (at.peer.incarnation, at.names().to_vec(), address);
        let (holder, identity) = (at.holder.clone(), identity_of(at.names(), address));
        // The same endpoint keeps its number, also one that is held back.
        let number = match self.worker_keys.get(&key) {
            Some(&number) => number,
            None => self.new_number(now, &key, &holder)?,
        };
        self.ask_to_join((link, id), (params, key, holder, identity), number, membership);
        Ok(())
    }

    fn new_number(&mut self, now: Time, key: &WorkerKey, holder: &Holder) -> Result<u16, Refusal> {
        if let Err(code) = self.worker_numbers.take(holder) {
            self.epochs.hasten(now);
            let detail = Text::new("there are, or were lately, too many workers");
            return Err(Refusal { code, detail });
        }
        let number = self.free_workers.pop_front().unwrap_or_else(|| {
            self.worker_highest += 1;
            self.worker_highest
        });
        self.worker_keys.insert(key.clone(), number);
        Ok(number)
    }

    /// Whether a worker waits for its place by this number.
    pub(super) fn is_joining(&self, number: u16) -> bool {
        let mut pending = self.pending.values();
        pending.any(|it| matches!(it, Pending::Join(joining) if joining.place.worker == number))
    }

    /// Who may join, and where its packets go.
    fn check_join(&self, link: PeerLink, params: &JoinParams) -> Result<SocketAddr, Refusal> {
        let at = &self.links[&link];
        let refused = |code, text: &str| Refusal { code, detail: Text::new(text) };
        if params.payload_bytes_max < self.payload_bytes() {
            let (theirs, ours) = (params.payload_bytes_max, self.payload_bytes());
            let text = format!("payload_bytes_max is {theirs}, and the group's payloads {ours}");
            return Err(refused(RefuseCode::IncompatibleParameters, &text));
        }
        let workers = &self.settings.workers;
        if !workers.may_join(at.names()) {
            return Err(refused(RefuseCode::NotAuthorised, "it may not be a worker"));
        }
        if params.is_primary && !workers.may_be_primary(at.names()) {
            return Err(refused(RefuseCode::NotAuthorised, "it may not be primary"));
        }
        own_address(&params.address, at.peer.ip)
            .map_err(|code| refused(code, "the data address is not the worker's"))
    }

    fn ask_to_join(
        &mut self,
        (link, id): (PeerLink, u64),
        (params, key, holder, identity): (JoinParams, WorkerKey, Holder, u64),
        number: u16,
        membership: Option<Membership>,
    ) {
        let (_, _, address) = key;
        let place = MemberJoin {
            worker: number,
            address,
            session: params.session,
            tag: params.tag,
            join: Join { identity, bound: params.bound, weight: params.weight.min(100) as u8 },
            // It is named once it is admitted.
            is_primary: false,
        };
        self.links.get_mut(&link).expect("it was just there").joining.insert(id);
        let is_primary = params.is_primary;
        let dial = params.dial_port.map(|port| SocketAddr::new(self.links[&link].peer.ip, port));
        let link = Some(link);
        let joining = Joining { link, id, is_primary, dial, place, key, holder, membership };
        self.ask(Pending::Join(joining), |ticket| PlaneCommand::Join { ticket, joining: place });
    }

    pub(super) fn on_joined(
        &mut self,
        joining: Joining,
        result: Result<MemberJoined, TableError>,
        answers: &mut RouterAnswers,
    ) {
        let number = joining.place.worker;
        // An earlier membership of the same endpoint has ended (RT34), or makes room.
        let before = self.workers.remove(&number);
        let had_before = before.is_some();
        if let Some(before) = before {
            self.unlink_worker(&before, number);
            self.command(PlaneCommand::End(before.id));
            self.name_primary();
        }
        let joined = match result {
            Ok(joined) => joined,
            Err(TableError::Full) if had_before => {
                let place = joining.place;
                let command = |ticket| PlaneCommand::Join { ticket, joining: place };
                return self.ask(Pending::Join(joining), command);
            }
            Err(error) => return self.refuse_join(joining, &error, answers),
        };
        let Joining { link, id, is_primary, dial, key, holder, membership, .. } = joining;
        self.revive(number, &holder);
        let (_, _, address) = key;
        let (tag, until) = (joined.tag, Time::NEVER);
        let id_there = joined.id;
        let readiness = Readiness::default();
        self.workers.insert(
            number,
            Worker {
                link,
                id: id_there,
                tag,
                key,
                holder,
                is_primary,
                dial,
                until,
                readiness,
                membership,
            },
        );
        let Some(link) = link else {
            // Nobody waits for it any more.
            return self.end_worker(number);
        };
        let data = DataAddress::udp(address.port(), Some(address.ip()));
        let (_, names, _) = &self.workers[&number].key;
        if !self.settings.workers.may_join(names) {
            // It was allowed when it asked.
            self.end_worker(number);
            let detail = Text::new("it may not be a worker any more");
            let refusal = Refusal { code: RefuseCode::NotAuthorised, detail };
            return self.answer_refused((link, id), refusal, answers);
        }
        self.member_log.set(number, Some(MemberState::There(data)));
        let grant = self.grant(number, &joined);
        let clients = self.client_log.version();
        self.ready.push(Ready::Join { link, id, grant, clients });
    }

    fn grant(&mut self, number: u16, joined: &MemberJoined) -> JoinGrant {
        JoinGrant {
            worker: number,
            session: joined.session,
            tag: joined.tag,
            secret: joined.secret,
            payload_bytes: self.payload_bytes(),
            clients_max: self.settings.plane.clients_max,
            beat_us: self.settings.beat_us,
            hole_us: self.settings.hole_us,
            claim_us: self.settings.claim_us,
            cipher: self.cipher(),
            // It is the newest when the grant is given.
            epoch: epoch_of_workers(self.secrets.as_mut(), self.epochs.newest()),
            source: self.data[0],
            feedback: self.data[1],
        }
    }

    fn refuse_join(&mut self, joining: Joining, error: &TableError, answers: &mut RouterAnswers) {
        let Joining { link, id, place, key, holder, .. } = joining;
        let number = place.worker;
        let is_held = self.held_workers.iter().any(|(_, held, ..)| *held == number);
        if !is_held && !self.is_joining(number) {
            self.hold_worker(number, key, holder);
        }
        let Some(link) = link else {
            self.refused.joins.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let detail = Text::new(&error.to_string());
        self.answer_refused((link, id), Refusal { code: code(error), detail }, answers);
    }

    /// Says to a worker that it may not join.
    pub(super) fn answer_refused(
        &mut self,
        (link, id): (PeerLink, u64),
        refusal: Refusal,
        answers: &mut RouterAnswers,
    ) {
        self.refused.joins.fetch_add(1, Ordering::Relaxed);
        if let Some(at) = self.links.get_mut(&link) {
            at.on_join_refused(id);
        }
        answers.push((link, RouterAnswer::Join { id, result: Err(refusal) }));
    }

    fn unlink_worker(&mut self, worker: &Worker, number: u16) {
        if let Some(at) = worker.link.and_then(|link| self.links.get_mut(&link)) {
            at.workers.retain(|it| *it != number);
        }
    }

    /// A worker's membership has ended. The plane may know that.
    pub(super) fn end_worker(&mut self, number: u16) {
        let Some(gone) = self.workers.remove(&number) else { return };
        self.unlink_worker(&gone, number);
        self.member_log.set(number, None);
        self.command(PlaneCommand::End(gone.id));
        self.name_primary();
        self.hold_worker(number, gone.key, gone.holder);
    }

    fn hold_worker(&mut self, number: u16, key: WorkerKey, holder: Holder) {
        self.worker_numbers.hold(&holder);
        self.held_workers.push_back((self.epochs.begun(), number, key, holder));
    }

    /// A number that was held back is in use again, by the same endpoint.
    fn revive(&mut self, number: u16, holder: &Holder) {
        let at = self.held_workers.iter().position(|(_, held, ..)| *held == number);
        if let Some((.., before)) = at.and_then(|at| self.held_workers.remove(at)) {
            self.worker_numbers.revive(&before, holder);
        }
    }

    /// A number that was held back for long enough may be anybody's.
    pub(super) fn free_number(&mut self, number: u16, key: &WorkerKey) {
        if self.worker_keys.get(key) == Some(&number) {
            self.worker_keys.remove(key);
        }
        self.free_workers.push_back(number);
        self.drained.remove(&number);
        self.command(PlaneCommand::Forget(number));
    }

    /// A worker whose grant was given may get requests, once it has confirmed their epoch.
    pub(super) fn admit(&mut self, number: u16, tag: u32) {
        let worker = self.workers.get_mut(&number).filter(|worker| worker.tag == tag);
        if let Some(worker) = worker {
            let (id, is_primary) = (worker.id, worker.is_primary);
            worker.readiness.is_admitted = true;
            self.turn_readiness_of(number);
            if is_primary {
                self.primary = Some(id);
                self.command(PlaneCommand::SetPrimary(Some(id)));
            }
        }
    }

    /// If the primary is gone, names another one that has joined as such.
    fn name_primary(&mut self) {
        let Some(primary) = self.primary else { return };
        if self.workers.values().any(|worker| worker.id == primary) {
            return;
        }
        let other = self.workers.values().find(|worker| worker.is_primary);
        self.primary = other.map(|worker| worker.id);
        self.command(PlaneCommand::SetPrimary(self.primary));
    }

    /// The plane says that a worker is no member any more.
    pub(super) fn on_worker_event(&mut self, event: Event) {
        let (Event::Gone { worker: id, .. } | Event::Left { worker: id }) = event else { return };
        let gone = self.workers.iter().find(|(_, worker)| worker.id == id);
        if let Some((&number, _)) = gone {
            self.expel(number);
        }
    }

    /// Ends a worker's membership, and tells it.
    fn expel(&mut self, number: u16) {
        let Some(worker) = self.workers.get(&number) else { return };
        if let Some(link) = worker.link {
            let leave = Leave { member: Member::Worker(number), tag: worker.tag };
            self.expelled.push((link, leave));
        }
        self.end_worker(number);
    }

    /// Other workers are allowed now: those that are not, or may not be primary as they are, leave,
    /// and a new epoch begins, of which they have no secret (RT30).
    pub(super) fn expel_others(&mut self) {
        let workers = &self.settings.workers;
        let is_wrong = |worker: &Worker| {
            let (_, names, _) = &worker.key;
            let is_primary = worker.is_primary && !workers.may_be_primary(names);
            is_primary || !workers.may_join(names)
        };
        let there = self.workers.iter().filter(|(_, worker)| is_wrong(worker));
        let wrong: Vec<u16> = there.map(|(number, _)| *number).collect();
        self.has_expelled |= !wrong.is_empty();
        wrong.into_iter().for_each(|number| self.expel(number));
    }
}

/// What names a worker to policies that keep keys where they were.
pub(super) fn identity_of(names: &[String], address: SocketAddr) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (names, address).hash(&mut hasher);
    hasher.finish()
}
