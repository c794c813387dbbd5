//! A program whose client and workers are addresses, and frames from them.

use core::time::Duration;
use std::net::SocketAddrV4;

use petasos_router_xdp::{HEADERS_BYTES, PlaceNames, ProgramConfig, RouterProgram};
use petasos_wire::{
    FIRST_BYTES, Feedback, Header, Kind, Packet, RoutePolicy, RoutedPacket, RoutingBlock,
    WorkerCounts,
};

/// The group's payload size.
pub const PAYLOAD: u32 = 1024;
/// The client's number and the router's tag for it.
pub const CLIENT: (u32, u32) = (3, 0x0abc_def1);
/// The interface's Ethernet address, and the gateway's.
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// Nobody gets it.
    Dropped,
    /// It goes to the process, as it was.
    Passed,
    /// It leaves: where to, and the datagram.
    Sent(SocketAddrV4, Vec<u8>),
}

/// See the module's documentation.
pub struct Rig {
    pub program: RouterProgram,
    pub config: ProgramConfig,
    pub client: SocketAddrV4,
    next: u64,
}

pub fn config() -> ProgramConfig {
    ProgramConfig {
        address: "10.0.0.1:9000".parse().expect("it is an address"),
        payload_bytes: PAYLOAD,
        is_sealed: false,
        clients_max: 8,
        parked_max: 4,
        age_max: Duration::from_secs(60),
        partial_checksums: false,
    }
}

/// Whether programs can be loaded here; if not, the calling test is recorded as skipped.
pub fn rig(config: ProgramConfig) -> Option<Rig> {
    let program = match RouterProgram::load(&config) {
        Ok(program) => program,
        Err(error @ petasos_netio_xdp::XdpError::Privilege { .. }) => {
            petasos_skips::skip("root", error);
            return None;
        }
        Err(error) => panic!("the program is refused: {error}"),
    };
    program.start(true);
    program.set_epochs([Some(0), None]);
    let client = "10.0.0.7:7000".parse().expect("it is an address");
    program.attach_client(CLIENT.0, CLIENT.1, client);
    Some(Rig { program, config, client, next: 1 })
}

pub fn worker_address(worker: usize) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 1, worker as u8].into(), 8000)
}

pub fn names(worker: usize) -> PlaceNames {
    let number = worker as u32;
    PlaceNames {
        address: worker_address(worker),
        named: ((1 << 19) + number, 0x0f00_0000 + number),
        own_tag: 0x0123_4567 + number,
        secret: 0xab_cdef_0123 + u64::from(number),
    }
}

impl Rig {
    /// A worker that takes `bound` at a time, and that was heard once.
    pub fn join(&self, worker: usize, bound: u16) {
        self.program.begin_place(worker, bound);
        self.program.name_place(worker, &names(worker));
        self.program.set_limit(worker, bound, 100);
        assert_eq!(self.feed_back(worker, 1, (0, 0), bound), Became::Dropped);
        assert!(self.program.knows(worker));
    }

    /// A worker tells: its message's number, what it has received and settled, and *n*.
    pub fn feed_back(&self, worker: usize, sequence: u32, counts: (u32, u32), n: u16) -> Became {
        self.run(&self.told(worker, sequence, counts, n))
    }

    /// The frame of that.
    pub fn told(&self, worker: usize, sequence: u32, counts: (u32, u32), bound: u16) -> Vec<u8> {
        let PlaceNames { address, own_tag, secret, .. } = names(worker);
        let counts = WorkerCounts { sequence, received: counts.0, settled: counts.1, bound };
        let told = Feedback { session: worker as u32, tag: own_tag, secret, counts, failed: 0 };
        self.frame(address, &told.to_bytes())
    }

    /// The client's next first packet.
    pub fn first(&mut self, message: &[u8], change: impl FnOnce(&mut RoutingBlock)) -> Vec<u8> {
        let mut block = RoutingBlock {
            policy: RoutePolicy::Any,
            priority: 0,
            is_claim: false,
            reply: self.client.into(),
            client: CLIENT.0,
            epoch: 0,
            pair: (1 << 19) + 7,
            pair_tag: 77,
            number: self.next,
            lifetime_us: None,
            key_hash: 0,
        };
        self.next += 1;
        change(&mut block);
        let header = Header::for_session(block.client, CLIENT.1)
            .with_request(Kind::Routed, 123, block.transmission())
            .with_client(0, message.len() as u32, 5);
        [&header.to_bytes()[..], &block.to_bytes(), message].concat()
    }

    /// The client asks with a packet that has nothing special.
    pub fn ask(&mut self, message: &[u8]) -> Became {
        let packet = self.first(message, |_| {});
        self.run(&self.frame(self.client, &packet))
    }

    /// A datagram to the router in a frame.
    pub fn frame(&self, source: SocketAddrV4, datagram: &[u8]) -> Vec<u8> {
        frame(source, self.config.address, datagram)
    }

    /// Runs the program. What it passes on has to be as it was, and what it sends has to be right.
    pub fn run(&self, frame: &[u8]) -> Became {
        let mut out = vec![0; 4096];
        let run = self.program.run(frame, &mut out, 1).expect("the kernel takes such frames");
        let out = &out[..run.len];
        match run.verdict {
            1 => Became::Dropped,
            2 => {
                assert!(out == frame || out.len() > frame.len(), "it is as it was");
                assert_eq!(&out[..frame.len()], frame, "it is as it was");
                Became::Passed
            }
            3 => {
                let (address, datagram) = self.check(out);
                Became::Sent(address, datagram)
            }
            other => panic!("verdict {other}"),
        }
    }

    /// Checks what is sent, and gives the destination and the datagram.
    fn check(&self, frame: &[u8]) -> (SocketAddrV4, Vec<u8>) {
        assert_eq!((&frame[..6], &frame[6..12]), (&GATEWAY_MAC[..], &ROUTER_MAC[..]));
        let ip = &frame[ETHERNET_BYTES..];
        assert_eq!(fold(sum(&ip[..IP_BYTES])), 0xffff, "the header's checksum is right");
        let address = |at: usize, port: usize| {
            let ip: [u8; 4] = ip[at..at + 4].try_into().expect("it has four");
            SocketAddrV4::new(ip.into(), u16::from_be_bytes([frame[port], frame[port + 1]]))
        };
        assert_eq!(address(12, 34), self.config.address, "it comes from the router");
        let udp = &ip[IP_BYTES..];
        let is_without = udp[6..8] == [0, 0];
        assert_eq!(is_without, self.config.partial_checksums, "checksums are as configured");
        if !is_without {
            let sum = sum(&ip[12..20]) + 17 + udp.len() as u64 + sum(udp);
            assert_eq!(fold(sum), 0xffff, "the datagram's checksum is right");
        }
        (address(16, 36), frame[HEADERS_BYTES..].to_vec())
    }
}

/// The number that a worker was given, and the rest of a first packet; that is as the client has
/// sent it but for what a router may change.
pub fn given(sent: &Became, worker: usize, asked: &[u8]) -> u32 {
    let Became::Sent(address, datagram) = sent else { panic!("nothing is sent: {sent:?}") };
    assert_eq!(*address, worker_address(worker));
    let packet = Packet::parse(datagram).expect("it is a packet");
    assert_eq!((packet.session(), packet.tag()), names(worker).named);
    let group = petasos_wire::Group { payload_bytes: PAYLOAD, is_sealed: packet.has_checksum() };
    let first = RoutedPacket::from_router(packet, group).expect("it is a first packet");
    let mut plain: [Vec<u8>; 2] = [datagram.clone(), asked.to_vec()];
    let none = petasos_wire::Given { session: 0, tag: 0, number: 0, lifetime_us: Some(0) };
    for bytes in &mut plain {
        none.write_to(bytes.first_chunk_mut::<FIRST_BYTES>().expect("it has a block"));
    }
    assert_eq!(plain[0], plain[1], "what a router does not change is as it was");
    first.given()
}

/// A frame with one datagram.
pub fn frame(source: SocketAddrV4, destination: SocketAddrV4, datagram: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS_BYTES];
    bytes[..6].copy_from_slice(&ROUTER_MAC);
    bytes[6..12].copy_from_slice(&GATEWAY_MAC);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[26..30].copy_from_slice(&source.ip().octets());
    bytes[30..34].copy_from_slice(&destination.ip().octets());
    bytes[34..36].copy_from_slice(&source.port().to_be_bytes());
    bytes[36..38].copy_from_slice(&destination.port().to_be_bytes());
    bytes.extend_from_slice(datagram);
    seal(&mut bytes);
    bytes
}

/// Sets lengths and checksums.
pub fn seal(frame: &mut [u8]) {
    let len = frame.len() - ETHERNET_BYTES;
    frame[16..18].copy_from_slice(&(len as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((len - IP_BYTES) as u16).to_be_bytes());
    frame[24..26].fill(0);
    let header = !fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[40..42].fill(0);
    let udp = sum(&frame[26..34]) + 17 + (len - IP_BYTES) as u64 + sum(&frame[34..]);
    let udp = match !fold(udp) {
        0 => 0xffff,
        other => other,
    };
    frame[40..42].copy_from_slice(&udp.to_be_bytes());
}

fn sum(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let whole: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    whole + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
