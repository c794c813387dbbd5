//! Frames that no peer should send are dropped and counted, and do not affect others.

use std::net::{IpAddr, SocketAddr};

use petasos_netio::{PacketIo, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_xdp::{XdpConfig, XdpIo, XdpStats, XskConfig, XskSocket};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

mod rig;
use rig::Pair;

const RAW: XskConfig = XskConfig {
    frame_bytes: 2048,
    rx_frames: 64,
    tx_frames: 64,
    huge_pages: false,
    zero_copy: false,
    busy_poll_us: 0,
};

/// The backend on the right, and a raw socket on the left that sends it arbitrary frames.
struct Attack {
    raw: XskSocket,
    io: XdpIo,
    /// A valid datagram for the backend, as another backend would send it.
    sound: Vec<u8>,
    // Kept until the sockets are gone.
    _pair: Pair,
}

const PAYLOAD: [u8; 40] = [0x5a; 40];

impl Attack {
    fn new(host: fn(u8) -> IpAddr) -> Attack {
        let pair = Pair::new();
        let config = XdpConfig { resolve_wait_ms: 10_000, ..XdpConfig::default() };
        let bind = |number| XdpIo::bind(rig::any_port(host(number)), &config);
        let mut io = pair.right.run(|| bind(2)).expect("a fresh interface is free");
        let sound = sound_frame(&pair, &mut io, host);
        let index = pair.left.index("v0");
        let raw = pair.left.run(|| XskSocket::open(index, 0, &RAW)).expect("the queue is free");
        Attack { raw, io, sound, _pair: pair }
    }

    fn send(&mut self, frame: &[u8]) {
        let (_, tx) = self.raw.halves();
        let free = turns().any(|_| tx.frame().is_some());
        assert!(free, "frames come back");
        let place = tx.frame().expect("it was there");
        place[..frame.len()].copy_from_slice(frame);
        tx.push(frame.len());
        tx.flush();
    }

    /// Sends `frame` followed by a valid one. Returns the payloads that arrive before the valid
    /// one's.
    fn arrivals(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let sound = self.sound.clone();
        self.send(frame);
        self.send(&sound);
        let mut arrived = Vec::new();
        for _ in turns() {
            arrived.extend(self.io.receive().frames().map(|frame| frame.bytes.to_vec()));
            if arrived.last().is_some_and(|last| *last == PAYLOAD) {
                arrived.pop();
                return arrived;
            }
            std::thread::yield_now();
        }
        panic!("the sound frame did not arrive: {:?}", self.io.xdp_stats());
    }

    /// Checks that a frame does not arrive, and returns what was counted for it.
    fn refused(&mut self, change: impl FnOnce(&mut Vec<u8>)) -> XdpStats {
        let before = self.io.xdp_stats();
        let mut frame = self.sound.clone();
        change(&mut frame);
        assert_eq!(self.arrivals(&frame), Vec::<Vec<u8>>::new());
        let mut after = self.io.xdp_stats();
        after.rx_short -= before.rx_short;
        after.rx_lengths -= before.rx_lengths;
        after.rx_checksums -= before.rx_checksums;
        after.rx_fragments -= before.rx_fragments;
        after.rx_protocol -= before.rx_protocol;
        after.rx_diverted -= before.rx_diverted;
        after.rx_empty -= before.rx_empty;
        after
    }
}

/// A frame as a backend on the left sends it: found in the memory around its payload.
fn sound_frame(pair: &Pair, io: &mut XdpIo, host: fn(u8) -> IpAddr) -> Vec<u8> {
    let config = XdpConfig { resolve_wait_ms: 10_000, ..XdpConfig::default() };
    let bind = || XdpIo::bind(rig::any_port(host(1)), &config);
    let mut left = pair.left.run(bind).expect("a fresh interface is free");
    let route = left.route(io.local_address()).expect("on the link");
    assert_eq!(left.transmit(&[TxPacket { route, head: &PAYLOAD, body: &[] }]), 1);
    for _ in turns() {
        let batch = io.receive();
        if let Some(chunk) = batch.chunks.first() {
            let headers = if host(1).is_ipv4() { 42 } else { 62 };
            let start = chunk.offset as usize - headers;
            return batch.memory[start..start + headers + PAYLOAD.len()].to_vec();
        }
        std::thread::yield_now();
    }
    panic!("nothing arrived");
}

/// Makes the IPv4 header's checksum right again.
fn repair(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[test]
fn flaws_are_counted_by_their_kind() {
    if !rig::available() {
        return;
    }
    let mut attack = Attack::new(rig::v4);
    let payload = attack.refused(|frame| frame[50] ^= 1);
    assert_eq!((payload.rx_checksums, payload.rx_lengths), (1, 0), "a damaged payload");
    assert_eq!(attack.refused(|frame| frame[40..42].fill(0)).rx_checksums, 1, "no checksum");
    assert_eq!(attack.refused(|frame| frame[22] ^= 1).rx_checksums, 1, "a damaged header");
    let long = attack.refused(|frame| {
        frame[17] += 1;
        repair(frame);
    });
    assert_eq!(long.rx_lengths, 1, "longer than the frame");
    assert_eq!(attack.refused(|frame| frame[39] += 1).rx_lengths, 1, "UDP longer than IP");
    assert_eq!(attack.refused(|frame| frame[39] = 7).rx_lengths, 1, "UDP shorter than its header");
    assert_eq!(attack.io.stats().rx_errors, 6);
    assert_eq!(attack.io.stats().rx_overflows, 0);
}

#[test]
fn what_the_program_leaves_to_the_kernel_does_not_arrive() {
    if !rig::available() {
        return;
    }
    let mut attack = Attack::new(rig::v4);
    let options = |frame: &mut Vec<u8>| {
        // One word of "no operation".
        frame.splice(34..34, [1; 4]);
        frame[14] = 0x46;
        frame[17] += 4;
        frame[24..26].fill(0);
        let words = frame[14..38].chunks(2);
        let sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    };
    let counted = attack.refused(options);
    assert_eq!((counted.rx_diverted, counted.rx_protocol), (1, 0), "options");
    let fragment = |frame: &mut Vec<u8>| {
        frame[20] = 0x20;
        repair(frame);
    };
    assert_eq!(attack.refused(fragment).rx_fragments, 0, "the kernel waits for the rest");
    let tagged = attack.refused(|frame| _ = frame.splice(12..12, [0x81, 0, 0, 7]));
    assert_eq!((tagged.rx_protocol, tagged.rx_diverted), (0, 0), "the kernel has no such VLAN");
    attack.refused(|frame| frame.truncate(30));
    attack.refused(|frame| frame.truncate(14));
    attack.refused(|frame| frame[37] ^= 1);
    assert_eq!(attack.io.stats().rx_errors, 0);
}

#[test]
fn an_empty_datagram_is_no_frame() {
    if !rig::available() {
        return;
    }
    let mut attack = Attack::new(rig::v4);
    let io = attack.io.local_address();
    let counted = attack.refused(|frame| *frame = without_payload(frame, io));
    assert_eq!((counted.rx_empty, counted.rx_checksums), (1, 0));
    assert_eq!(attack.io.stats().rx_errors, 0);
}

/// The frame's datagram without its payload.
fn without_payload(frame: &[u8], to: SocketAddr) -> Vec<u8> {
    assert!(to.is_ipv4());
    let mut short = frame[..42].to_vec();
    short[16..18].copy_from_slice(&28u16.to_be_bytes());
    repair(&mut short);
    short[38..40].copy_from_slice(&8u16.to_be_bytes());
    short[40..42].fill(0);
    let pseudo = [&short[26..42], &[0, 17, 0, 8][..]].concat();
    let words = pseudo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    short[40..42].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    short
}

#[test]
fn damage_of_any_kind_is_survived() {
    if !rig::available() {
        return;
    }
    for host in [rig::v4 as fn(u8) -> IpAddr, rig::v6] {
        let attack = Attack::new(host);
        let headers = attack.sound.len() - PAYLOAD.len();
        // The Ethernet addresses and type stay, so that the frames come so far.
        let changes = proptest::collection::vec((14..headers, any::<u8>()), 1..5);
        let cut = prop_oneof![3 => Just(0usize), 1 => 0usize..80];
        let attack = std::cell::RefCell::new(attack);
        let config = Config { source_file: Some(file!()), ..petasos_cases::kept() };
        let mut runner = TestRunner::new(config);
        let outcome = runner.run(&(changes, cut, any::<bool>()), |(changes, cut, mend)| {
            let mut attack = attack.borrow_mut();
            let mut frame = attack.sound.clone();
            changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
            if mend && headers == 42 {
                repair(&mut frame);
            }
            frame.truncate(frame.len().saturating_sub(cut).max(14));
            for arrived in attack.arrivals(&frame) {
                // Whatever still has a right checksum has the payload that was sent.
                prop_assert!(PAYLOAD.starts_with(&arrived), "{arrived:?}");
            }
            Ok(())
        });
        outcome.expect("no damage gets through");
    }
}
