//! The plane itself.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::{ReplayWindow, Rng, SecretBlock, Time};
use petasos_netio::{Frame, Origin, PacketIo, RouteError};
use petasos_router::{
    Admission, Affinity, Counts, Event, Output, Request, Router, WorkerId, WorkerState,
};
use petasos_seal::group::{Epochs, GroupSecret};
use petasos_wire::{
    Feedback, Group, HEADER_BYTES, Kind, Packet, REQUEST_NUMBERS, RejectCode, RoutePolicy,
    RoutedPacket, TAG_MAX,
};

use crate::clients::{Client, ClientAttached, ClientCounts, Clients};
use crate::config::{PlaneConfig, PlaneConfigError};
use crate::feedback::HeardElsewhere;
use crate::frames::{FrameId, Frames};
use crate::members::{Member, MemberJoin, MemberJoined, Members};
use crate::outbox::Outbox;
use crate::reject::{RouterLinks, code_of};
use crate::stats::{PlaneStats, RejectionStats};
use crate::tier::{TierMember, Tiered};

/// Timers wait until everything that has arrived was heard: after a pause of the thread, feedback
/// is there that says that nobody is silent. They wait for no more turns than this.
const TURNS_WITHOUT_REST_MAX: u32 = 16;

/// Why a client or worker is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are as many as there may be. A retry may succeed once some have gone.
    #[error("there is no room for another")]
    Full,
    /// Its address cannot be reached.
    #[error("its address cannot be reached: {0}")]
    Unreachable(RouteError),
}

impl From<RouteError> for TableError {
    fn from(error: RouteError) -> TableError {
        TableError::Unreachable(error)
    }
}

/// A router's packets and decisions. See the crate's documentation.
pub struct Plane {
    pub(crate) core: Router<FrameId>,
    pub(crate) group: Group,
    /// Epochs that are taken (RT30): the newest, and the one before.
    pub(crate) epochs: [Option<u16>; 2],
    /// Of a sealed group.
    pub(crate) secrets_of_epochs: Epochs<GroupSecret>,
    pub(crate) clients: Clients,
    pub(crate) members: Members,
    pub(crate) frames: Frames,
    pub(crate) waiting_max: usize,
    pub(crate) out: Outbox,
    /// Turns in a row that have received something.
    turns_without_rest: u32,
    secrets: SecretBlock,
    rng: Rng,
    pub(crate) stats: PlaneStats,
    pub(crate) rejections: RejectionStats,
    /// What decides before it.
    pub(crate) tier: Option<Tiered>,
    /// What another thread hears.
    pub(crate) heard: Option<HeardElsewhere>,
}

impl Plane {
    /// A plane without clients and workers. `seed` is for ties between workers, which are no
    /// secret.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub fn new(config: &PlaneConfig, seed: u64) -> Result<Plane, PlaneConfigError> {
        config.check()?;
        let waiting_max = config.waiting_max();
        let core = petasos_router::Config { waiting_max, ..config.core.clone() };
        Ok(Plane {
            core: Router::new(&core)?,
            group: config.group(),
            epochs: [(!config.is_sealed).then_some(0), None],
            secrets_of_epochs: Epochs::default(),
            clients: Clients::new(config.clients_max),
            members: Members::new(core.workers_max),
            frames: Frames::new(waiting_max, config.frame_bytes()),
            waiting_max,
            out: Outbox::default(),
            turns_without_rest: 0,
            secrets: SecretBlock::new(),
            rng: Rng::new(seed),
            stats: PlaneStats::default(),
            rejections: RejectionStats::default(),
            tier: None,
            heard: None,
        })
    }

    /// A client attaches, with the address that its first packets come from (RT33).
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn attach(
        &mut self,
        io: &mut impl PacketIo,
        address: SocketAddr,
    ) -> Result<ClientAttached, TableError> {
        if !self.clients.has_room() {
            return Err(TableError::Full);
        }
        let route = io.route(address)?;
        let (tag, origin) = (self.tag(), io.origin(route));
        let mut window = ReplayWindow::new();
        // Numbers begin with 1.
        window.insert(0);
        let (waiting, counts) = (0, ClientCounts::default());
        let (reply, links) = (address.into(), RouterLinks::default());
        let client = Client { tag, reply, route, origin, window, waiting, counts, links };
        let client = self.clients.add(client).ok_or(TableError::Full)?;
        if let Some(Tiered { tier, .. }) = &mut self.tier {
            tier.attach(client, tag, address);
        }
        Ok(ClientAttached { client, tag })
    }

    /// A client is gone. Its number is not given again before [`Plane::give_back`]. Returns whether
    /// it was there.
    pub fn detach(&mut self, io: &mut impl PacketIo, client: u32) -> bool {
        let gone = self.clients.remove(client);
        if let Some(gone) = &gone {
            io.release_route(gone.route);
            if let Some(Tiered { tier, .. }) = &mut self.tier {
                tier.detach(client);
            }
        }
        gone.is_some()
    }

    /// The number of a client that is gone may be another's (RT28). Returns whether it was held.
    pub fn give_back(&mut self, client: u32) -> bool {
        self.clients.give_back(client)
    }

    /// A worker joins (RT34).
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn join(
        &mut self,
        io: &mut impl PacketIo,
        now: Time,
        joining: &MemberJoin,
    ) -> Result<MemberJoined, TableError> {
        let route = io.route(joining.address)?;
        let Ok(id) = self.core.handle_join(now, joining.join) else {
            io.release_route(route);
            return Err(TableError::Full);
        };
        if joining.is_primary {
            self.core.set_primary(Some(id));
        }
        let (own_tag, secret) = (self.tag(), self.secrets.next_u64() % REQUEST_NUMBERS);
        let MemberJoin { worker, session, tag, address, .. } = *joining;
        let place = id.index();
        if let Some(Tiered { tier, .. }) = &mut self.tier {
            tier.join(&TierMember { place, address, named: (session, tag), own_tag, secret });
        }
        if let Some(elsewhere) = &self.heard {
            elsewhere.board().begin(id);
        }
        let origin = io.origin(route);
        let member = Member { id, worker, route, origin, session, tag, own_tag, secret };
        if let Some(before) = self.members.put(member) {
            // The core has said that it is gone, and it was not ended yet.
            io.release_route(before.route);
        }
        Ok(MemberJoined { id, session: id.index() as u32, tag: own_tag, secret })
    }

    /// A membership has ended, whether the core says so ([`Event::Gone`], [`Event::Left`]) or the
    /// caller. Returns the worker's number if it was there.
    pub fn end(&mut self, io: &mut impl PacketIo, id: WorkerId) -> Option<u16> {
        let member = self.members.take(id)?;
        self.core.handle_end(id);
        io.release_route(member.route);
        Some(member.worker)
    }

    /// First packets of this epoch are taken from now on, and of the one before until
    /// [`Plane::end_epoch`] (RT30). There is a secret exactly if the group is sealed. A plane
    /// begins with epoch 0, a sealed one when the secret of that is given.
    ///
    /// # Panics
    /// If the epoch is not newer than those before, or the secret is missing.
    pub fn begin_epoch(&mut self, epoch: u16, secret: Option<GroupSecret>) {
        assert_eq!(secret.is_some(), self.group.is_sealed, "sealed groups have secrets");
        if let Some(secret) = secret {
            self.secrets_of_epochs.begin(epoch, secret).expect("epochs count up");
        }
        let [newest, _] = self.epochs;
        self.epochs = [Some(epoch), newest.filter(|newest| *newest != epoch)];
        self.tell_epochs();
    }

    /// First packets of the epoch before the newest are not taken any more.
    pub fn end_epoch(&mut self) {
        self.epochs[1] = None;
        self.secrets_of_epochs.end_before();
        self.tell_epochs();
    }

    fn tell_epochs(&mut self) {
        if let Some(Tiered { tier, .. }) = &mut self.tier {
            tier.set_epochs(self.epochs);
        }
    }

    /// Handles one batch of packets, and what is due. Returns whether there was anything to do.
    pub fn turn(&mut self, io: &mut impl PacketIo, now: Time) -> bool {
        let is_deaf = self.out.is_backed_up();
        self.stats.backed_up += u64::from(is_deaf);
        self.learn_from_tier(now);
        let has_heard = self.learn_heard(now);
        let received = !is_deaf && self.receive(io, now) || has_heard;
        self.turns_without_rest = if received { self.turns_without_rest + 1 } else { 0 };
        let has_heard_all = !received || self.turns_without_rest >= TURNS_WITHOUT_REST_MAX;
        if !is_deaf && has_heard_all && self.core.next_timeout() <= now {
            self.turns_without_rest = 0;
            self.core.handle_timeout(now);
        }
        self.decide(now);
        self.take_from_tier(now);
        let sends = !self.out.is_empty();
        self.tell_tier(now, received || sends);
        if sends {
            self.out.flush(io);
        }
        received || sends
    }

    /// When [`Plane::turn`] has something to do at the latest if nothing arrives.
    pub fn next_turn_at(&self, now: Time) -> Time {
        let look_at = self.tier.as_ref().map_or(Time::NEVER, |tiered| tiered.look_at);
        if self.out.is_empty() { self.core.next_timeout().min(look_at) } else { now }
    }

    /// What has happened to a worker. Take all after each turn; a worker that is gone or has left
    /// is to be ended.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.poll_event()
    }

    /// What was decided so far.
    pub fn counts(&self) -> &Counts {
        self.core.counts()
    }

    /// What is known of a worker.
    pub fn worker(&self, worker: WorkerId) -> Option<WorkerState> {
        self.core.worker(worker)
    }

    /// Gives a worker no more requests, or again.
    pub fn drain(&mut self, worker: WorkerId, is_draining: bool) -> bool {
        self.core.drain(worker, is_draining)
    }

    /// Names the primary (RT5), instead of an earlier one.
    pub fn set_primary(&mut self, worker: Option<WorkerId>) {
        self.core.set_primary(worker);
    }

    /// Gives a worker no requests yet, or from now on (RT30, RT36).
    pub fn hold_back(&mut self, worker: WorkerId, is_held_back: bool) -> bool {
        self.core.hold_back(worker, is_held_back)
    }

    /// A worker's control connection is lost. It gets nothing until it is heard, and
    /// [`Event::Gone`] says if that takes too long (RT35). Returns whether it is a member.
    pub fn disconnect(&mut self, now: Time, worker: WorkerId) -> bool {
        self.core.handle_disconnect(now, worker)
    }

    /// The members, and their numbers.
    pub fn members(&self) -> impl Iterator<Item = (WorkerId, u16)> {
        self.members.iter().map(|member| (member.id, member.worker))
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.frames.used()
    }

    /// What was done so far.
    pub fn stats(&self) -> &PlaneStats {
        &self.stats
    }

    fn tag(&mut self) -> u32 {
        (self.secrets.next_u64() % u64::from(TAG_MAX)) as u32
    }

    /// Takes a batch: feedback, then first packets.
    fn receive(&mut self, io: &mut impl PacketIo, now: Time) -> bool {
        let batch = io.receive();
        // Feedback is a header (RT20); first packets are longer.
        let is_feedback = |bytes: &[u8]| bytes.len() == HEADER_BYTES;
        let mut frames = batch.frames();
        while let Some(Frame { bytes, .. }) = frames.next() {
            if is_feedback(bytes) {
                self.on_feedback(bytes, frames.origin(), now);
            }
        }
        let mut frames = batch.frames();
        while let Some(Frame { bytes, .. }) = frames.next() {
            if !is_feedback(bytes) {
                self.on_first(bytes, frames.origin(), now);
            }
        }
        !batch.chunks.is_empty()
    }

    /// RT22.
    fn on_feedback(&mut self, bytes: &[u8], origin: Option<Origin>, now: Time) {
        let told = Packet::parse(bytes).ok().and_then(|packet| Feedback::of(packet).ok());
        let member = told.and_then(|told| {
            let member = self.members.at(told.session as usize)?;
            let is_its = (member.own_tag, member.secret) == (told.tag, told.secret);
            (is_its && member.origin.is_of(origin)).then_some((member.id, told))
        });
        let Some((id, told)) = member else {
            self.stats.void_feedback += 1;
            return;
        };
        // What cannot be, and what is not new, is counted there.
        let is_heeded = self.core.handle_feedback(now, id, &told.counts).is_ok();
        if is_heeded && told.failed > 0 {
            self.core.handle_failure(now, id, told.failed.into());
        }
    }

    /// RT24, until the core decides.
    fn on_first(&mut self, bytes: &[u8], origin: Option<Origin>, now: Time) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) if packet.kind() == Kind::Routed => packet,
            _ => {
                self.stats.malformed += 1;
                return;
            }
        };
        let Ok(first) = RoutedPacket::from_client(packet, self.group) else {
            self.stats.void += 1;
            return;
        };
        let number = first.client();
        let client = self.clients.get_mut(number).filter(|client| {
            client.tag == packet.tag()
                && first.replies_to(&client.reply)
                && client.origin.is_of(origin)
        });
        let Some(client) = client else {
            self.stats.from_strangers += 1;
            return;
        };
        let tier = self.tier.as_mut();
        let by_tier = tier.and_then(|tiered| tiered.tier.take_number(number, first.number()));
        if !by_tier.unwrap_or_else(|| client.take_number(first.number())) {
            self.stats.repeated += 1;
            return;
        }
        client.counts.requests += 1;
        let waiting = client.waiting;
        match self.judge(&first, waiting, now) {
            Ok((affinity, expires)) => self.route(bytes, &first, affinity, expires, now),
            Err(code) => self.reject(bytes, number, code),
        }
    }

    /// Whether a first packet may be given to anybody, as far as the core does not know.
    #[inline]
    pub(crate) fn judge(
        &self,
        first: &RoutedPacket<'_>,
        waiting: usize,
        now: Time,
    ) -> Result<(Affinity, Time), RejectCode> {
        let ([newest, before], epoch) = (self.epochs, Some(first.epoch()));
        if epoch != newest && epoch != before {
            return Err(RejectCode::Again);
        }
        let expires = match first.lifetime_us() {
            None => Time::NEVER,
            Some(0) => return Err(RejectCode::Expired),
            Some(us) => now + Duration::from_micros(us.into()),
        };
        let affinity = match first.policy() {
            Some(RoutePolicy::Any) => Affinity::Any,
            Some(RoutePolicy::Primary) => Affinity::Primary,
            Some(RoutePolicy::Hash) => Affinity::Key(first.key_hash().into()),
            None | Some(RoutePolicy::Probe) => return Err(RejectCode::UnknownPolicy),
        };
        // A client may have as much of the queue as it leaves free (RT24).
        if waiting > 0 && waiting >= self.waiting_max.saturating_sub(self.core.waiting()) {
            return Err(RejectCode::QueueFull);
        }
        Ok((affinity, expires))
    }

    /// Gives a request to a worker, or lets it wait.
    #[inline]
    fn route(
        &mut self,
        bytes: &[u8],
        first: &RoutedPacket<'_>,
        affinity: Affinity,
        expires: Time,
        now: Time,
    ) {
        let (token, priority, client) = (self.frames.take(), first.priority(), first.client());
        let request = Request { token, affinity, priority, expires };
        match self.core.route(now, request, &mut self.rng) {
            Ok(assignment) => {
                self.frames.give(token);
                self.give(&assignment, bytes, first.lifetime_us());
            }
            Err(Admission::Admitted) => self.keep(token, bytes, client, expires),
            Err(Admission::Displaced(other)) => {
                self.keep(token, bytes, client, expires);
                self.reject_waiting(other, RejectCode::QueueFull);
            }
            Err(Admission::Refused(token, why)) => {
                self.frames.give(token);
                self.reject(bytes, client, code_of(why));
            }
        }
    }

    pub(crate) fn keep(&mut self, token: FrameId, bytes: &[u8], number: u32, expires: Time) {
        if let Some(client) = self.clients.get_mut(number) {
            client.waiting += 1;
            self.frames.keep(token, bytes, (number, client.tag), expires);
        }
    }

    /// Takes the core's decisions.
    pub(crate) fn decide(&mut self, now: Time) {
        while let Some(output) = self.core.poll(now, &mut self.rng) {
            match output {
                Output::Give(assignment) => self.give_waiting(&assignment, now),
                Output::Probe { worker, number } => self.probe(worker, number),
                Output::Dropped(token, why) => self.reject_waiting(token, code_of(why)),
            }
        }
    }
}
