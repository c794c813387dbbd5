//! Pulls from a hostile client: what they cost its server is bounded (W19).

use petasos_endpoint::CongestionConfig;
use petasos_netio::Ecn;
use petasos_wire::{Kind, Packet};

use crate::joined::*;

const RESPONSE_BYTES: u32 = 16 << 20;
const CREDITS_MAX: usize = 256;
/// The server's number in the hub: its port is the first.
const SERVER: u32 = 0;

/// A pair whose client asks for all that a client may, with a response waiting at the server, and
/// the client's first pull of it.
fn waiting() -> (Joined, Vec<u8>) {
    let mut pair = Joined::captured(|config| {
        config.congestion = Some(CongestionConfig::none());
        config.session.credits = petasos_wire::CREDITS_MAX;
        config.session.datagram_bytes_max = 1500;
    });
    pair.call(LONG, &RESPONSE_BYTES.to_le_bytes(), 1);
    let mut pull = None;
    for _ in 0..100 {
        pair.advance_ns(100_000);
        pair.client.run_once();
        pair.server.run_once();
        let mut packets = Vec::new();
        pair.hub.take_captured(&mut packets);
        for packet in packets {
            let kind = Packet::parse(&packet.bytes).expect("it is a packet").kind();
            if kind == Kind::Pull {
                pull.get_or_insert(packet.bytes);
                continue;
            }
            pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
        }
        if pull.is_some() {
            break;
        }
    }
    (pair, pull.expect("the client pulls the response"))
}

/// What the server sends in one turn after it got `pulls`.
fn answers(pair: &mut Joined, pulls: &[Vec<u8>]) -> usize {
    for pull in pulls {
        pair.hub.deliver(SERVER, pull, Ecn::NotCapable);
    }
    pair.advance_ns(1_000);
    pair.server.run_once();
    let mut packets = Vec::new();
    pair.hub.take_captured(&mut packets);
    packets.len()
}

/// `pull`, asking for packets `start..end`.
fn asking(pull: &[u8], start: u32, end: u32) -> Vec<u8> {
    let packet = Packet::parse(pull).expect("it is a packet");
    let word = u64::from(start) | u64::from(end) << 20 | u64::from(packet.method()) << 48;
    let mut pull = pull.to_vec();
    pull[16..24].copy_from_slice(&word.to_le_bytes());
    pull
}

/// Issue 10: a pull might ask for 4095 packets, whatever the server grants.
#[test]
fn w19_issue_10_a_pull_brings_no_more_than_the_server_ever_grants() {
    let (mut pair, pull) = waiting();
    let all = asking(&pull, 1, 1 + petasos_wire::CREDITS_MAX);
    let sent = answers(&mut pair, &[all]);
    assert_eq!(sent, CREDITS_MAX);
    assert_eq!(pair.server.stats().event_loop.pulls_cut, 1);
}

/// Issue 10: repeated pulls were free, and all of a turn's were expanded before any packet left.
#[test]
fn w19_issue_10_repeated_pulls_bring_a_turn_no_more() {
    let (mut pair, pull) = waiting();
    let pulls: Vec<_> = (0..64).map(|at| asking(&pull, 1 + at, 257 + at)).collect();
    let sent = answers(&mut pair, &pulls);
    assert_eq!(sent, CREDITS_MAX);
    assert_eq!(pair.server.stats().event_loop.pulls_cut, 63);
    let sent = answers(&mut pair, &pulls[..1]);
    assert_eq!(sent, CREDITS_MAX, "the next turn is a new one");
}

/// Issue 10: while the packet I/O took nothing, every turn made the queue longer.
#[test]
fn issue_10_a_queue_that_is_not_taken_does_not_grow_for_ever() {
    const TURNS: u32 = 300;
    let (mut pair, pull) = waiting();
    pair.hub.block(true);
    for turn in 0..TURNS {
        let sent = answers(&mut pair, &[asking(&pull, 1 + turn, 257 + turn)]);
        assert_eq!(sent, 0);
    }
    let turns_backed_up = pair.server.stats().event_loop.turns_backed_up;
    assert!(turns_backed_up > u64::from(TURNS / 2), "{turns_backed_up} turns");
    pair.hub.block(false);
    let sent = answers(&mut pair, &[]);
    assert!(sent > 0 && sent <= 17_000, "{sent} packets were queued");
    assert!(answers(&mut pair, &[]) > 0, "what waited is received once there is room");
}
