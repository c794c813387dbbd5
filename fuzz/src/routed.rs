//! Packets of requests to groups: first packets at the router and at a worker, answers with a
//! worker block, and feedback (RT1, RT2, RT7, RT9).
//!
//! What is accepted is written again as it stood, so no bit is ignored; and what the router passes
//! on is what the client has sent, but for what the router writes.

use petasos_wire::{
    FIRST_BYTES, Feedback, GIVEN_NUMBERS, Given, Group, HEADER_BYTES, Header, Kind, Packet, Probe,
    Ready, RoutePolicy, RoutedPacket, RoutingBlock, SESSIONS_MAX, TAG_MAX, WorkerBlock,
    WorkerCounts,
};

use crate::{Input, Seed};

/// A byte that says whether the group is sealed, what the router writes, then a datagram.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let group = Group { payload_bytes: 1024, is_sealed: input.bool() };
    let given = Given {
        session: input.u32() % SESSIONS_MAX,
        tag: input.u32() % TAG_MAX,
        number: input.u32() % GIVEN_NUMBERS,
        lifetime_us: input.bool().then_some(u32::from(input.u16())),
    };
    let bytes = input.rest();
    let Ok(packet) = Packet::parse(bytes) else { return };
    if let Ok(routed) = RoutedPacket::from_client(packet, group) {
        assert!(routed.client() == packet.session() && routed.given() == 0);
        check(bytes, &routed);
        pass_on(bytes, &routed, given, group);
    }
    if let Ok(routed) = RoutedPacket::from_router(packet, group) {
        check(bytes, &routed);
    }
    answers(bytes, packet);
}

fn check(bytes: &[u8], routed: &RoutedPacket<'_>) {
    assert!(routed.message().len() <= routed.body().len() && routed.body().len() <= 1024);
    assert_eq!(routed.seal().is_some(), routed.header().has_checksum());
    let Some(policy) = routed.policy() else { return };
    let block = RoutingBlock {
        policy,
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
    };
    assert_eq!(block.transmission(), routed.header().transmission());
    assert_eq!(block.to_bytes(), bytes[HEADER_BYTES..FIRST_BYTES]);
}

/// The packet as a worker gets it.
fn pass_on(bytes: &[u8], sent: &RoutedPacket<'_>, given: Given, group: Group) {
    let mut bytes = bytes.to_vec();
    given.write_to(bytes.first_chunk_mut().expect("it was accepted"));
    let packet = Packet::parse(&bytes).expect("its form stays");
    assert_eq!((packet.session(), packet.tag()), (given.session, given.tag));
    if sent.policy() == Some(RoutePolicy::Probe) {
        return; // A router rejects it.
    }
    let got = RoutedPacket::from_router(packet, group).expect("its form stays");
    assert_eq!((got.given(), got.lifetime_us()), (given.number, given.lifetime_us));
    assert_eq!((got.number(), got.reply()), (sent.number(), sent.reply()));
    assert_eq!((got.message(), got.seal()), (sent.message(), sent.seal()));
}

fn answers(bytes: &[u8], packet: Packet<'_>) {
    let split = WorkerBlock::split(packet);
    if let Ok((block, rest)) = split {
        assert!(WorkerBlock::is_in(&packet));
        assert_eq!([&block.to_bytes()[..], rest.payload()].concat(), bytes[HEADER_BYTES..]);
    }
    if let Ok(ready) = Ready::of(packet) {
        assert!(ready.block.names_session() && ready.block.worker != WorkerBlock::ROUTER);
        assert_eq!((ready.echo, ready.credits), (packet.echo(), packet.credits()));
        assert_eq!((Ok(ready.block), ready.value()), (split.map(|it| it.0), packet.value()));
    }
    if let Ok(feedback) = Feedback::of(packet) {
        assert_eq!(feedback.to_bytes()[..], *bytes);
    }
}

/// A packet of every kind that members of a group send.
pub fn seeds() -> Vec<Seed> {
    let block = RoutingBlock {
        policy: RoutePolicy::Hash,
        priority: 9,
        is_claim: false,
        reply: ([10, 1, 2, 3], 8080).into(),
        client: 3,
        epoch: 5,
        pair: 0x8_0007,
        pair_tag: 0x0abc_def1,
        number: 0x11_2200_0044,
        lifetime_us: Some(1_000_000),
        key_hash: 0x5566_7788,
    };
    let named = RoutingBlock { reply: "[2001:db8::7]:1".parse().expect("it is one"), ..block };
    let first = |block: RoutingBlock, bytes: u32, body: &[u8], is_sealed: bool| {
        let header = Header::for_session(block.client, 0x0123_4567)
            .with_request(Kind::Routed, 8, block.transmission())
            .with_client(0, bytes, 7);
        let header = if is_sealed { header.with_checksum() } else { header };
        said(is_sealed, &[&header.to_bytes()[..], &block.to_bytes(), body].concat())
    };
    let claim = RoutingBlock { is_claim: true, lifetime_us: None, ..block };
    let worker = WorkerBlock { session: 0x8_0001, tag: 7, worker: 300 };
    let answer = |kind, value, block: WorkerBlock, payload: &[u8]| {
        let header = Header::for_session(0x8_0007, 0x0abc_def1).with_request(kind, 8, 1);
        let header = header.with_server(0x44, value, 32);
        said(false, &[&header.to_bytes()[..], &block.to_bytes(), payload].concat())
    };
    let router = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
    let counts = WorkerCounts { sequence: 4, received: 5, settled: 6, bound: 7 };
    let feedback = Feedback { session: 1, tag: 2, secret: 3, counts, failed: 8 };
    vec![
        ("whole", first(block, 5, b"hello", false)),
        ("whole-sealed", first(named, 5, &[7; 5 + 16], true)),
        ("claim", first(claim, 1 << 20, &[7; 64], false)),
        ("claim-short-padded", first(claim, 3, &[7; 20], false)),
        ("probe", said(true, &Probe { session: 3, tag: 4, number: 5 }.to_bytes())),
        ("response", answer(Kind::Response, 5, worker, b"hello")),
        ("ready", answer(Kind::Ready, 1, worker, b"")),
        ("reject", answer(Kind::Reject, 7, worker, b"")),
        ("reject-router", answer(Kind::Reject, 8, router, b"")),
        ("feedback", said(false, &feedback.to_bytes())),
    ]
}

/// `packet` behind the choices.
fn said(is_sealed: bool, packet: &[u8]) -> Vec<u8> {
    [&[u8::from(is_sealed)][..], &[9; 15], packet].concat()
}
