//! A peer that has its region, and writes whatever it likes into it at any time.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_shm::RingShape;
use proptest::prelude::*;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketType, connect, sendmsg, socket,
};

const RINGS: RingShape = RingShape { slots: 16, data_bytes: 8192, record_bytes_max: 4096 };
/// Where the hostile peer claims to be.
const CLAIMED: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

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

fn hand_over(to: SocketAddr, region: &OwnedFd) -> OwnedFd {
    let name = format!("petasos-shm/{to}");
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short");
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    connect(&socket, &name).expect("it listens");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [region.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&socket, &[IoSlice::new(&greeting())], &mut control, SendFlags::empty())
        .expect("there is room");
    socket
}

/// A backend, an honest peer with its route, and the hostile one's memory and socket.
struct Scene {
    io: ShmIo,
    honest: ShmIo,
    to_io: Route,
    to_hostile: Route,
    memory: File,
    _socket: OwnedFd,
}

fn scene() -> Scene {
    let (mut io, mut honest) = (bind(), bind());
    let to_io = honest.route(io.local_address()).expect("it listens");
    let (_, region) = petasos_shm::create(RINGS).expect("the host has memory files");
    let socket = hand_over(io.local_address(), &region);
    // A route looks at the sockets, so the hostile peer is connected then.
    let to_hostile = io.route(SocketAddr::from(CLAIMED)).expect("it is connected");
    assert_eq!(io.links(), 2);
    Scene { io, honest, to_io, to_hostile, memory: File::from(region), _socket: socket }
}

fn write(memory: &File, at: usize, value: u64) {
    memory.write_all_at(&value.to_ne_bytes(), at as u64).expect("it lies in the region");
}

impl Scene {
    /// The honest peer's packets still arrive, whatever else does.
    fn honest_is_heard(&mut self) {
        let bytes = [0xa5; 777];
        let packet = TxPacket { route: self.to_io, head: &bytes, body: &[] };
        assert_eq!(self.honest.transmit(&[packet]), 1);
        let heard = |io: &mut ShmIo| io.receive().frames().any(|frame| frame.bytes == bytes);
        assert!((0..1000).any(|_| heard(&mut self.io)), "an honest packet was lost");
    }
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(200))]

    #[test]
    fn garbage_in_the_region_harms_nobody_else(
        writes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..100),
        aimed: bool,
        lens in prop::collection::vec(1usize..=4000, 1..10),
    ) {
        let mut scene = scene();
        let mut lens = lens.iter().cycle();
        for (index, value) in writes {
            if aimed {
                // Counts, flags and headers, near what an honest peer writes.
                let ring = RINGS.ring_bytes();
                let slots = (0..16).map(|slot| 256 + slot * 64);
                let words = [ring, ring + 128, 128].into_iter();
                let targets: Vec<usize> = words.chain(slots).collect();
                write(&scene.memory, *index.get(&targets), value & 0x0001_0000_1f00_1fff);
            } else {
                write(&scene.memory, index.index(RINGS.region_bytes() / 8) * 8, value);
            }
            let bytes = vec![1; *lens.next().expect("it cycles")];
            scene.io.transmit(&[TxPacket { route: scene.to_hostile, head: &bytes, body: &[] }]);
            for frame in scene.io.receive().frames() {
                prop_assert!((1..=RINGS.record_bytes_max as usize).contains(&frame.bytes.len()));
            }
            scene.io.prepare_to_sleep();
        }
        scene.honest_is_heard();
    }
}

#[test]
fn an_impossible_length_closes_the_link() {
    let mut scene = scene();
    let (first, lap) = (256, 1 << 48);
    write(&scene.memory, first, lap | (5000 << 24) | 5000);
    assert_eq!(scene.io.receive().frames().count(), 0);
    assert_eq!((scene.io.links(), scene.io.link_stats().links_broken), (1, 1));
    scene.honest_is_heard();
}

#[test]
fn an_impossible_count_closes_the_link_once_it_matters() {
    let mut scene = scene();
    write(&scene.memory, RINGS.ring_bytes(), 1 << 40);
    let packet = TxPacket { route: scene.to_hostile, head: &[1; 4000], body: &[] };
    assert_eq!(scene.io.transmit(&[packet; 3]), 3, "dropped, not waiting");
    assert_eq!((scene.io.links(), scene.io.link_stats().links_broken), (1, 1));
    scene.honest_is_heard();
}

#[test]
fn records_without_end_do_not_keep_a_receive_busy() {
    let mut scene = scene();
    for slot in 0..16 {
        write(&scene.memory, 256 + slot * 64, (1 << 48) | (1 << 24) | 1);
    }
    assert_eq!(scene.io.receive().frames().count(), 16);
    scene.honest_is_heard();
}
