//! Clients and workers that are endpoints, and a plane between them, which take turns.

use core::time::Duration;
use std::net::IpAddr;

use petasos_control::{AttachGrant, DataAddress, Epoch, JoinGrant};
use petasos_endpoint::{
    Backend, CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, Request,
    RouterProcess, Routing, SessionId,
};
use petasos_netio::PacketIo;
use petasos_netio_conformance::turns;
use petasos_router::{Config, Join};
use petasos_router_plane::{MemberJoin, Plane, PlaneConfig};

use crate::PlaneFactory;
use crate::factory::planned;

/// How far a turn moves a virtual clock.
const TURN: Duration = Duration::from_micros(10);

/// The method that workers have: it answers with its request.
pub const ECHO: u16 = 1;

fn epoch() -> Epoch {
    Epoch { number: 0, binds_anew: false, secret: None }
}

fn at(io: &impl PacketIo) -> DataAddress {
    DataAddress::udp(io.local_address().port(), None)
}

/// What a client has.
#[derive(Default)]
pub struct Client {
    /// Calls.
    pub answered: u64,
    /// Calls that have certainly not run: their claims lapsed while this thread was not running,
    /// say. They are made again. Bytes, and whether they may run more than once.
    again: Vec<(usize, bool)>,
}

/// Ends a call.
pub fn count(client: &mut Client, cx: &mut Context<Client>, done: Completion<'_>) {
    match done.result {
        Ok(response) => {
            assert_eq!(response.as_slice(), done.request.as_slice());
            client.answered += 1;
            if let petasos_endpoint::Payload::Buffer(buf) = response {
                cx.free(buf);
            }
        }
        Err(error) => {
            assert!(error.retry_is_safe(), "{error:?}");
            client.again.push((done.request.len(), done.tag == IDEMPOTENT));
        }
    }
    cx.free(done.request);
}

/// The tag of calls that may run more than once.
const IDEMPOTENT: u64 = 1;

/// Runs a call, and counts it.
pub fn echo(handled: &mut u64, cx: &mut Context<u64>, request: Request<'_>) {
    *handled += 1;
    cx.respond_with(request.handle, &request.payload);
    if let petasos_endpoint::Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

/// See the module's documentation.
pub struct Group<I> {
    clock: Clock,
    io: I,
    /// The router.
    pub plane: Plane,
    /// The group's payload size.
    pub payload_bytes: u16,
    clients: Vec<(Endpoint<Client>, SessionId)>,
    /// How many calls each has run.
    pub workers: Vec<Endpoint<u64>>,
}

impl<I: PacketIo + Into<Backend>> Group<I> {
    /// Clients that are attached, and workers that have joined.
    pub fn new<F>(
        factory: &F,
        clock: Clock,
        (clients, workers): (usize, usize),
        policy: &str,
    ) -> Group<I>
    where
        F: PlaneFactory<Io = I>,
    {
        let mut ports = factory.ports(1 + clients + workers).into_iter();
        let mut port = || ports.next().expect("there are so many");
        let (mut io, client) = (port(), port());
        // What fits the path (RT32).
        let route = io.route(client.local_address()).expect("ports reach each other");
        let payload_bytes = io.datagram_bytes_max(route).min(1464) as u16 - 64;
        let core = Config { policy: policy.parse().expect("it is one"), ..Config::default() };
        let payload = payload_bytes.into();
        let config = PlaneConfig { core, payload_bytes: payload, ..PlaneConfig::default() };
        let (plane, _) = planned(factory, &io, &config);
        let mut group =
            Group { clock, io, plane, payload_bytes, clients: Vec::new(), workers: Vec::new() };
        group.attach(client);
        (1..clients).for_each(|_| group.attach(port()));
        (0..workers).for_each(|_| group.join(port()));
        group
    }

    fn router_ip(&self) -> IpAddr {
        self.io.local_address().ip()
    }

    fn attach(&mut self, io: I) {
        let config = EndpointConfig::default();
        let mut client = Endpoint::new(config, io, self.clock.clone(), Client::default());
        let reply = client.local_address();
        let attached = self.plane.attach(&mut self.io, reply).expect("there is room");
        let grant = AttachGrant {
            client: attached.client,
            tag: attached.tag,
            payload_bytes: self.payload_bytes,
            asked_max: 1024,
            has_no_window: false,
            cipher: None,
            epoch: epoch(),
            address: at(&self.io),
        };
        let session = client.attach_group(&grant, reply, self.router_ip());
        let session = session.expect("it is reached");
        self.clients.push((client, session));
    }

    fn join(&mut self, io: I) {
        let config = EndpointConfig::default();
        let mut worker = Endpoint::new(config, io, self.clock.clone(), 0);
        worker.register(ECHO, echo);
        let (offer, number) =
            (worker.offer_membership().expect("one"), self.workers.len() as u16 + 1);
        let joining = MemberJoin {
            worker: number,
            address: worker.local_address(),
            session: offer.session,
            tag: offer.tag,
            join: Join { identity: number.into(), bound: 8, weight: 100 },
            is_primary: false,
        };
        let now = self.clock.now();
        let joined = self.plane.join(&mut self.io, now, &joining).expect("there is room");
        let grant = JoinGrant {
            worker: number,
            session: joined.session,
            tag: joined.tag,
            secret: joined.secret,
            payload_bytes: self.payload_bytes,
            clients_max: 64,
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher: None,
            epoch: epoch(),
            source: at(&self.io),
            feedback: at(&self.io),
        };
        let router = RouterProcess { ip: self.router_ip(), incarnation: 1 };
        worker.join_group(offer.id, &grant, 8, router).expect("it is reached");
        for client in 0..self.clients.len() as u32 {
            worker.set_group_client(offer.id, client, None).expect("there is room");
        }
        for (client, session) in &mut self.clients {
            let told = client.set_group_member(*session, number, worker.local_address());
            told.expect("it is reached");
        }
        self.workers.push(worker);
    }

    /// Each takes a turn. A virtual clock has moved then: no pause of this thread is long.
    pub fn turn(&mut self) {
        if let Clock::Virtual(clock) = &self.clock {
            clock.set(clock.now() + TURN);
        }
        self.clients.iter_mut().for_each(|(client, _)| _ = client.run_once());
        self.plane.turn(&mut self.io, self.clock.now());
        self.workers.iter_mut().for_each(|worker| _ = worker.run_once());
    }

    /// A client makes a call.
    pub fn call(&mut self, client: usize, bytes: usize, is_idempotent: bool) {
        let (client, session) = &mut self.clients[client];
        let (settings, routing) =
            (CallSettings::default(), Routing { is_idempotent, ..Routing::default() });
        let cx = client.context();
        let mut request = cx.alloc(bytes).expect("the pool has room");
        request.fill(7);
        let tag = if is_idempotent { IDEMPOTENT } else { 0 };
        let call = cx.enqueue_routed(*session, ECHO, request, count, tag, &settings, routing);
        call.expect("there is room");
    }

    fn answered(&self) -> u64 {
        self.clients.iter().map(|(client, _)| client.state().answered).sum()
    }

    /// Whatever was lost or repeated: in the end no slot is taken.
    pub fn until_settled(&mut self) {
        for _ in turns() {
            let ids = self.plane.members().map(|(id, _)| id);
            let states = ids.map(|id| self.plane.worker(id).expect("it is there"));
            if states.map(|worker| worker.account.outstanding()).sum::<u64>() == 0 {
                return;
            }
            self.turn();
        }
        panic!("slots come back");
    }

    /// Turns until so many calls were answered.
    pub fn run_until(&mut self, answered: u64) {
        for _ in turns() {
            if self.answered() >= answered {
                return;
            }
            self.turn();
            for at in 0..self.clients.len() {
                let again = core::mem::take(&mut self.clients[at].0.state_mut().again);
                again.into_iter().for_each(|(bytes, may)| self.call(at, bytes, may));
            }
        }
        panic!("{} of {answered}", self.answered());
    }
}
