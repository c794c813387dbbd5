//! A process that shares rings and writes what it likes into them, and what it says when it
//! connects (ADR 5).
//!
//! Records that are handed out have possible lengths, and an honest peer beside it is still heard.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_shm::RingShape;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketType, connect, sendmsg, socket,
};

use crate::{Input, Seed};

const RINGS: RingShape = RingShape { slots: 16, data_bytes: 8192, record_bytes_max: 4096 };
/// Where the hostile peer claims to be.
const CLAIMED: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

/// A byte of choices (whether the greeting is altered), then operations.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (mut io, mut honest) = (bind(), bind());
    let to_io = honest.route(io.local_address()).expect("it listens");
    let (_, region) = petasos_shm::create(RINGS).expect("the host has memory files");
    let mut greeting = greeting();
    if input.bool() {
        let altered = input.bytes(48);
        greeting.iter_mut().zip(altered).for_each(|(byte, by)| *byte ^= by);
        greeting.truncate(usize::from(input.u8()));
    }
    let mut hostile = Hostile { socket: None, memory: File::from(region) };
    hostile.connect(io.local_address(), &greeting);
    // A route looks at the sockets, so the hostile peer is connected then.
    let to_hostile = io.route(SocketAddr::from(CLAIMED)).ok();
    while !input.is_empty() {
        step(&mut io, &mut hostile, to_hostile, &mut input);
    }
    is_heard(&mut honest, to_io, &mut io);
}

struct Hostile {
    socket: Option<OwnedFd>,
    memory: File,
}

impl Hostile {
    fn connect(&mut self, to: SocketAddr, greeting: &[u8]) {
        let name = format!("petasos-shm/{to}");
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short");
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        connect(&socket, &name).expect("it listens");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.memory.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let _ = sendmsg(&socket, &[IoSlice::new(greeting)], &mut control, SendFlags::empty());
        self.socket = Some(socket);
    }

    fn write(&self, at: usize, value: u64) {
        let _ = self.memory.write_all_at(&value.to_ne_bytes(), at as u64);
    }
}

fn step(io: &mut ShmIo, hostile: &mut Hostile, route: Option<Route>, input: &mut Input<'_>) {
    match input.u8() % 8 {
        // Anywhere.
        0 => {
            let at = input.u16() as usize * 8 % RINGS.region_bytes();
            hostile.write(at, input.u64());
        }
        // A slot's header of either ring: lap and lengths, near what is right.
        1 | 2 => {
            let (slot, ring) = (usize::from(input.u8() % 16), usize::from(input.u8() % 2));
            let (lap, len, train) = (input.u8(), input.u16(), input.u16());
            let header = u64::from(lap % 4) << 48 | u64::from(train) << 24 | u64::from(len);
            hostile.write(ring * RINGS.ring_bytes() + 256 + slot * 64, header);
        }
        // Counts and flags.
        3 => {
            let word = [0, 64, 128, 192][usize::from(input.u8() % 4)];
            let ring = usize::from(input.u8() % 2) * RINGS.ring_bytes();
            hostile.write(ring + word, u64::from(input.u16()));
        }
        4 => {
            let socket = hostile.socket.take();
            if let Some(socket) = socket.filter(|_| input.bool()) {
                let mut none = SendAncillaryBuffer::default();
                let said = [IoSlice::new(input.short())];
                let _ = sendmsg(&socket, &said, &mut none, SendFlags::DONTWAIT);
                hostile.socket = Some(socket);
            }
        }
        5 => {
            let bytes = vec![1; usize::from(input.u16()) % 4000 + 1];
            if let Some(route) = route {
                io.transmit(&[TxPacket { route, head: &bytes, body: &[] }]);
            }
        }
        6 => {
            io.prepare_to_sleep();
        }
        _ => {
            for frame in io.receive().frames() {
                assert!((1..=RINGS.record_bytes_max as usize).contains(&frame.bytes.len()));
            }
        }
    }
}

/// The honest peer's packets still arrive, whatever else does.
fn is_heard(honest: &mut ShmIo, to_io: Route, io: &mut ShmIo) {
    let bytes = [0xa5; 777];
    assert_eq!(honest.transmit(&[TxPacket { route: to_io, head: &bytes, body: &[] }]), 1);
    let heard = |io: &mut ShmIo| io.receive().frames().any(|frame| frame.bytes == bytes);
    assert!((0..1000).any(|_| heard(io)), "an honest packet was lost");
}

fn bind() -> ShmIo {
    let config = ShmConfig { rings: RINGS, datagram_bytes_max: 4000, ..ShmConfig::default() };
    ShmIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config).expect("a name is free")
}

/// A proper greeting, so that the region is mapped.
fn greeting() -> Vec<u8> {
    let mut bytes = b"PETASHM1".to_vec();
    for number in [RINGS.slots, RINGS.data_bytes, RINGS.record_bytes_max, 4000] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(4u16.to_ne_bytes());
    bytes.extend(CLAIMED.1.to_ne_bytes());
    bytes.extend(Ipv4Addr::from(CLAIMED.0).to_ipv6_mapped().octets());
    bytes.resize(48, 0);
    bytes
}

/// Records as an honest peer writes them, and some that cannot be.
pub fn seeds() -> Vec<Seed> {
    vec![
        ("record", vec![0, 1, 0, 0, 1, 5, 0, 1, 0, 7, 7]),
        ("endless", vec![0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 7]),
        ("too-long", vec![0, 1, 0, 0, 1, 0xff, 0x1f, 0xff, 0x1f, 7]),
        ("count", vec![0, 3, 0, 1, 0xff, 0xff, 5, 0xf0, 0, 5, 0xf0, 0, 7]),
        ("sleep", vec![0, 6, 4, 1, 3, 1, 1, 1, 7, 6, 5, 9, 0]),
        ("gone", vec![0, 4, 0, 7, 5, 9, 0, 7]),
        ("greeting", [&[1][..], &[0; 8], &[1, 0, 0, 0, 0, 0], &[0; 34], &[48], &[7]].concat()),
        ("short-greeting", [&[1][..], &[0; 48], &[20], &[7]].concat()),
    ]
}
