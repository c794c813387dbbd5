//! The layouts in the specification, byte by byte.

use petasos_wire::{
    Encoding, Feedback, Given, Header, Kind, Packet, Probe, Ready, RoutingBlock, WorkerBlock,
    WorkerCounts,
};

use super::{GROUPS, block, first, from_client, from_router, header, passed_on};

#[rustfmt::skip]
const FIRST: [u8; 67] = [
    0x51, 0x08, 0x34, 0x12, 0x15, 0xf0, 0xde, 0xbc, // version, kind, flags, session, tag
    0x9a, 0x78, 0x56, 0x34, 0x12, 0x12, 0xf0, 0xde, // request, transmission
    0x00, 0x00, 0x30, 0x00, 0x00, 0x00, 0x12, 0xf0, // index, length, method
    0x92, 0x01, 0x1f, 0x90, 0x34, 0x12, 0xc5, 0xab, // policy, priority, flags, port, client, epoch
    0, 0, 0, 0, 0, 0, 0, 0,                         // address
    0, 0, 0xff, 0xff, 10, 1, 2, 3,
    0x21, 0x43, 0x18, 0x32, 0x54, 0x76, 0xcd, 0xab, // pair, pair tag, number
    0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55, // lifetime, key hash
    b'a', b'b', b'c',
];

#[test]
fn rt1_rt2_a_first_packet_from_a_client() {
    let header = header(&block(), 3).with_encoding(Encoding::Protobuf);
    assert_eq!(first(header, &block(), b"abc", GROUPS[0]), FIRST);
    let routed = from_client(&FIRST, GROUPS[0]).unwrap();
    assert_eq!((routed.message(), routed.seal()), (&b"abc"[..], None));
}

#[test]
fn rt2_an_ipv6_address_no_limit_and_nothing_else() {
    let reply = "[2001:db8::7]:1".parse().unwrap();
    let block = RoutingBlock { reply, lifetime_us: None, is_claim: false, ..block() };
    let bytes = block.to_bytes();
    assert_eq!(bytes[..4], [0x92, 0, 0, 1]);
    assert_eq!(bytes[8..24], [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(bytes[32..36], [0xff; 4]);
}

#[test]
fn rt1_what_the_router_writes() {
    let given =
        Given { session: 0x9_8765, tag: 0x123_4567, number: 0xf_edcb, lifetime_us: Some(5) };
    let mut expected = FIRST;
    expected[2..8].copy_from_slice(&[0x65, 0x87, 0x79, 0x56, 0x34, 0x12]);
    expected[16..19].copy_from_slice(&[0xcb, 0xed, 0x3f]);
    expected[56..60].copy_from_slice(&[5, 0, 0, 0]);
    let bytes = passed_on(FIRST.to_vec(), given);
    assert_eq!(bytes, expected);
    let routed = from_router(&bytes, GROUPS[0]).unwrap();
    assert_eq!((routed.given(), routed.lifetime_us()), (0xf_edcb, Some(5)));
    assert_eq!((routed.client(), routed.number()), (0x5_1234, 0xab_cdde_f012));
}

#[test]
fn a_probe_is_64_bytes_of_almost_nothing() {
    let probe = Probe { session: 0x9_8765, tag: 0x123_4567, number: 7 };
    let mut expected = [0; 64];
    expected[..8].copy_from_slice(&[0x51, 0, 0x65, 0x87, 0x79, 0x56, 0x34, 0x12]);
    expected[16] = 7;
    expected[24] = 15;
    assert_eq!(probe.to_bytes(), expected);
}

#[test]
fn rt7_the_worker_block() {
    let block = WorkerBlock { session: 0x9_8765, tag: 0x123_4567, worker: 0xbeef };
    assert_eq!(block.to_bytes(), [0x65, 0x87, 0x79, 0x56, 0x34, 0x12, 0xef, 0xbe]);
}

#[test]
fn rt9_a_ready() {
    let worker = WorkerBlock { session: 0x9_8765, tag: 0x123_4567, worker: 0xbeef };
    let ready = Ready { echo: 0xde_f012, is_running: true, credits: 32, block: worker };
    let header = Header::for_session(block().pair, block().pair_tag)
        .with_request(Kind::Ready, 0x12_3456_789a, 1)
        .with_server(ready.echo, ready.value(), ready.credits);
    let bytes = [&header.to_bytes()[..], &worker.to_bytes()].concat();
    let expected = [
        0xc1, 0x00, 0x21, 0x43, 0x18, 0x32, 0x54, 0x76, // version, kind, flags, pair, its tag
        0x9a, 0x78, 0x56, 0x34, 0x12, 0x01, 0x00, 0x00, // request, transmission
        0x12, 0xf0, 0xde, 0x01, 0x00, 0x00, 0x00, 0x02, // echo, value, credits
        0x65, 0x87, 0x79, 0x56, 0x34, 0x12, 0xef, 0xbe, // session, tag, worker
    ];
    assert_eq!(bytes, expected);
    assert_eq!(Ready::of(Packet::parse(&expected).unwrap()), Ok(ready));
}

#[test]
fn feedback_is_a_header_and_nothing_else() {
    let feedback = Feedback {
        session: 0x51,
        tag: 2,
        secret: 0x12_3456_789a,
        counts: WorkerCounts { sequence: 3, received: 0xf_edcb, settled: 0xabc_def1, bound: 0x789 },
        failed: 10,
    };
    let expected = [
        0xd1, 0x00, 0x51, 0x00, 0x20, 0x00, 0x00, 0x00, // version, kind, flags, session, tag
        0x9a, 0x78, 0x56, 0x34, 0x12, 0x03, 0x00, 0x00, // secret bits, sequence
        0xcb, 0xed, 0xaf, 0xf1, 0xde, 0xbc, 0x9a, 0x78, // received, failed, settled, n
    ];
    assert_eq!(feedback.to_bytes(), expected);
    assert_eq!(Feedback::of(Packet::parse(&expected).unwrap()), Ok(feedback));
}
