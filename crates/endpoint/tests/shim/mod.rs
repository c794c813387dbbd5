//! A client and a worker of a group in one thread's memory, and between them the least that a
//! router can be: it gives each first packet to the worker, and drops feedback. For what is
//! counted: it allocates nothing.

use petasos_control::{AttachGrant, Cipher, DataAddress, Epoch, JoinGrant, Secret};
use petasos_endpoint::{
    Clock, CongestionConfig, Endpoint, EndpointConfig, RouterProcess, SessionId, VirtualClock,
};
use petasos_netio::memory::{Hub, MemoryConfig, MemoryIo};
use petasos_netio::{PacketIo, Route};
use petasos_seal::group::GroupSecret;
use petasos_wire::{Given, Kind, Packet};

const PAYLOAD: u16 = 1024;
const CLIENT: u32 = 1;

pub struct Shim {
    io: MemoryIo,
    worker: Route,
    session: u32,
    tag: u32,
    given: u32,
    train: Vec<u8>,
}

/// Both ends, and the client's attachment.
pub struct Ends<C, W> {
    pub time: VirtualClock,
    pub client: Endpoint<C>,
    pub worker: Endpoint<W>,
    pub shim: Shim,
    pub session: SessionId,
}

fn address(port: &MemoryIo) -> DataAddress {
    let address = MemoryIo::address(port.number());
    DataAddress::udp(address.port(), Some(address.ip()))
}

/// The group's secret, in a sealed one.
const SECRET: [u8; 32] = [9; 32];

fn epoch(secret: Option<[u8; 32]>) -> Epoch {
    let secret = secret.map(Secret::new);
    Epoch { number: 0, binds_anew: false, secret }
}

impl<C, W> Ends<C, W> {
    /// With packets that are sealed by this cipher, if there is one.
    pub fn new(client: C, worker: W, cipher: Option<Cipher>) -> Ends<C, W> {
        let group = GroupSecret::new(petasos_endpoint::Cipher::Aes128Gcm, SECRET);
        let of_client = cipher.map(|_| *group.client(CLIENT).bytes());
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let hub = Hub::direct(MemoryConfig::default());
        let congestion = Some(CongestionConfig::none());
        let config = || EndpointConfig { seed: Some(1), congestion, ..EndpointConfig::default() };
        let mut io = hub.port();
        let at = address(&io);
        let ip = at.ip.expect("it was given");
        let mut client = Endpoint::new(config(), hub.port(), clock.clone(), client);
        let mut worker = Endpoint::new(config(), hub.port(), clock.clone(), worker);
        let grant = AttachGrant {
            client: CLIENT,
            tag: 1,
            payload_bytes: PAYLOAD,
            asked_max: 256,
            has_no_window: false,
            cipher,
            epoch: epoch(of_client),
            address: at,
        };
        let own = client.local_address();
        let session = client.attach_group(&grant, own, ip).expect("the hub reaches every port");
        let told = client.set_group_member(session, 1, worker.local_address());
        told.expect("the hub reaches every port");
        let offer = worker.offer_membership().expect("there is room");
        let grant = JoinGrant {
            worker: 1,
            session: 2,
            tag: 2,
            secret: 2,
            payload_bytes: PAYLOAD,
            clients_max: 4,
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher,
            epoch: epoch(cipher.map(|_| SECRET)),
            source: at,
            feedback: at,
        };
        let router = RouterProcess { ip, incarnation: 1 };
        worker.join_group(offer.id, &grant, 256, router).expect("the hub reaches every port");
        worker.set_group_client(offer.id, CLIENT, None).expect("there is room");
        let to = io.route(worker.local_address()).expect("the hub reaches every port");
        let train = Vec::with_capacity(1 << 20);
        let (at, tag) = (offer.session, offer.tag);
        let shim = Shim { io, worker: to, session: at, tag, given: 0, train };
        Ends { time, client, worker, shim, session }
    }

    /// A turn of each.
    pub fn turn(&mut self) {
        self.client.run_once();
        self.shim.turn();
        self.worker.run_once();
    }
}

impl Shim {
    fn turn(&mut self) {
        let (session, tag) = (self.session, self.tag);
        let mut segment_bytes = 0;
        self.train.clear();
        for frame in self.io.receive().frames() {
            let packet = Packet::parse(frame.bytes).expect("both ends keep to the rules");
            if packet.kind() != Kind::Routed {
                continue;
            }
            self.given += 1;
            let number = self.given % petasos_wire::GIVEN_NUMBERS;
            let at = self.train.len();
            self.train.extend_from_slice(frame.bytes);
            let first = self.train[at..].first_chunk_mut().expect("it has a block");
            Given { session, tag, number, lifetime_us: None }.write_to(first);
            segment_bytes = frame.bytes.len();
        }
        if segment_bytes > 0 {
            self.io.transmit_train(self.worker, &self.train, segment_bytes);
        }
    }
}
