//! Arbitrary fields, and arbitrary bytes.

use core::net::{IpAddr, SocketAddr};

use petasos_wire::{
    CLAIM_BYTES_MAX, CLIENTS_MAX, EPOCHS, FAILED_MAX, FIRST_NUMBERS, Feedback, GIVEN_NUMBERS,
    Given, Header, Kind, PRIORITIES, Packet, REQUEST_NUMBERS, Ready, RoutePolicy, RoutedPacket,
    RoutingBlock, SESSIONS_MAX, SETTLED_NUMBERS, TAG_MAX, TRANSMISSION_NUMBERS, WorkerBlock,
    WorkerCounts,
};
use proptest::prelude::*;

use super::{GROUPS, first, from_client, from_router, header, passed_on, writable, written_anew};

fn policy() -> impl Strategy<Value = RoutePolicy> {
    prop::sample::select(vec![RoutePolicy::Any, RoutePolicy::Primary, RoutePolicy::Hash])
}

/// Canonical, as it is read: what is mapped is IPv4.
fn reply() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
}

fn block() -> impl Strategy<Value = RoutingBlock> {
    let picked = (policy(), 0..PRIORITIES, any::<bool>(), reply());
    let named = (0..CLIENTS_MAX, 0..EPOCHS, 0..SESSIONS_MAX, 0..TAG_MAX);
    let limit = prop::option::of(0..u32::MAX);
    (picked, named, 0..FIRST_NUMBERS, limit, any::<u32>()).prop_map(
        |(picked, named, number, lifetime_us, key_hash)| RoutingBlock {
            policy: picked.0,
            priority: picked.1,
            is_claim: picked.2,
            reply: picked.3,
            client: named.0,
            epoch: named.1,
            pair: named.2,
            pair_tag: named.3,
            number,
            lifetime_us,
            key_hash,
        },
    )
}

fn given() -> impl Strategy<Value = Given> {
    let numbers = (0..SESSIONS_MAX, 0..TAG_MAX, 0..GIVEN_NUMBERS);
    (numbers, prop::option::of(0..u32::MAX)).prop_map(|((session, tag, number), lifetime_us)| {
        Given { session, tag, number, lifetime_us }
    })
}

/// The block that was read.
fn read(routed: &RoutedPacket<'_>) -> RoutingBlock {
    RoutingBlock {
        policy: routed.policy().expect("it is assigned"),
        priority: routed.priority(),
        is_claim: routed.is_claim(),
        reply: routed.reply(),
        client: routed.client(),
        epoch: routed.epoch(),
        pair: routed.pair(),
        pair_tag: routed.pair_tag(),
        number: routed.number(),
        lifetime_us: routed.lifetime_us(),
        key_hash: routed.key_hash(),
    }
}

/// Addresses that differ from `address` in one bit of its port, or of its first or last byte.
fn others(address: SocketAddr) -> [SocketAddr; 3] {
    let with_ip = |flip: fn(&mut [u8])| {
        let ip = match address.ip() {
            IpAddr::V4(ip) => {
                let mut octets = ip.octets();
                flip(&mut octets);
                IpAddr::from(octets)
            }
            IpAddr::V6(ip) => {
                let mut octets = ip.octets();
                flip(&mut octets);
                IpAddr::from(octets)
            }
        };
        SocketAddr::new(ip, address.port())
    };
    let first = with_ip(|octets| octets[0] ^= 0x80);
    let last = with_ip(|octets| *octets.last_mut().expect("an address has bytes") ^= 1);
    [SocketAddr::new(address.ip(), address.port() ^ 1), first, last]
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// What a client writes is what the router and the worker read, but for what the router writes.
    #[test]
    fn rt1_rt2_first_packets_survive(
        block in block(), given in given(), sealed in any::<bool>(),
        message in prop::collection::vec(any::<u8>(), 0..200), padding in 0..100usize,
    ) {
        let group = GROUPS[usize::from(sealed)];
        let most = if block.is_claim { CLAIM_BYTES_MAX } else { usize::MAX };
        let carried = message.len().min(most);
        let body = [&message[..carried], &vec![0; padding]].concat();
        let bytes = first(header(&block, message.len() as u32), &block, &body, group);
        let routed = from_client(&bytes, group).unwrap();
        prop_assert_eq!(read(&routed), block);
        prop_assert!(routed.replies_to(&block.reply.into()));
        for other in others(block.reply) {
            prop_assert!(!routed.replies_to(&other.into()), "{other}");
        }
        prop_assert_eq!(routed.message(), &message[..carried]);
        prop_assert_eq!(routed.body(), &body[..]);
        prop_assert_eq!(routed.seal().is_some(), sealed);
        let passed = passed_on(bytes.clone(), given);
        // What the router writes is all that it changes, and can be taken out at both ends.
        let nothing = Given { session: 0, tag: 0, number: 0, lifetime_us: Some(0) };
        prop_assert_eq!(passed_on(passed.clone(), nothing), passed_on(bytes, nothing));
        let routed = from_router(&passed, group).unwrap();
        prop_assert_eq!(read(&routed), RoutingBlock { lifetime_us: given.lifetime_us, ..block });
        let header = routed.header();
        prop_assert_eq!((header.session(), header.tag()), (given.session, given.tag));
        prop_assert_eq!(routed.given(), given.number);
        prop_assert_eq!(header.message_bytes(), message.len() as u32);
        prop_assert_eq!(routed.message(), &message[..carried]);
    }

    /// Any bytes behind a plausible start are refused, or are a packet that can be written again.
    #[test]
    fn rt1_rt2_rt7_rt9_arbitrary_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..160), sealed in any::<bool>(),
        kind in 0..5usize, plausible in any::<bool>(),
    ) {
        let kind = [Kind::Routed, Kind::Response, Kind::Reject, Kind::Ready, Kind::Feedback][kind];
        if plausible && let [first, second, ..] = bytes.as_mut_slice() {
            (*first, *second) = ((kind as u8) << 4 | 1, *second & 0x10);
        }
        let group = GROUPS[usize::from(sealed)];
        let Ok(packet) = Packet::parse(&bytes) else { return Ok(()) };
        for read in [from_client, from_router] {
            if let Ok(routed) = read(&bytes, group) {
                prop_assert_eq!(written_anew(&routed), writable(bytes.clone()));
                prop_assert!(routed.message().len() <= routed.body().len());
            }
        }
        if let Ok((block, rest)) = WorkerBlock::split(packet) {
            prop_assert_eq!(&block.to_bytes()[..], &bytes[24..32]);
            prop_assert_eq!(rest.payload(), &bytes[32..]);
        }
        prop_assert!(Ready::of(packet).is_err() || packet.kind() == Kind::Ready);
        if let Ok(feedback) = Feedback::of(packet) {
            prop_assert_eq!(&feedback.to_bytes()[..], &bytes[..]);
        }
    }

    /// What a worker writes is what client and router read.
    #[test]
    fn rt7_rt9_answers_survive(
        (session, tag, worker) in (1..SESSIONS_MAX, 0..TAG_MAX, 1..=u16::MAX),
        (echo, is_running, credits) in (0..TRANSMISSION_NUMBERS, any::<bool>(), 0..4096u32),
    ) {
        let block = WorkerBlock { session, tag, worker };
        let ready = Ready { echo, is_running, credits, block };
        let header = Header::for_session(5, 6).with_request(Kind::Ready, 7, 8);
        let header = header.with_server(echo, ready.value(), credits);
        let bytes = [&header.to_bytes()[..], &block.to_bytes()].concat();
        prop_assert_eq!(Ready::of(Packet::parse(&bytes).unwrap()), Ok(ready));
    }

    #[test]
    fn feedback_survives(
        (session, tag, secret) in (0..SESSIONS_MAX, 0..TAG_MAX, 0..REQUEST_NUMBERS),
        (sequence, received) in (0..TRANSMISSION_NUMBERS, 0..GIVEN_NUMBERS),
        (settled, bound, failed) in (0..SETTLED_NUMBERS, 0..4096u16, 0..=FAILED_MAX),
    ) {
        let counts = WorkerCounts { sequence, received, settled, bound };
        let feedback = Feedback { session, tag, secret, counts, failed };
        let bytes = feedback.to_bytes();
        prop_assert_eq!(Feedback::of(Packet::parse(&bytes).unwrap()), Ok(feedback));
    }
}
