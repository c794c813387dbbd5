//! Packets of requests to groups: their bytes, and what becomes of cuts and flipped bits.

mod answers;
mod fields;
mod first;
mod golden;

use petasos_wire::{
    Given, Group, HEADER_BYTES, Header, Kind, Malformed, Packet, RoutePolicy, RoutedPacket,
    RoutingBlock, Void,
};

/// A group in plaintext, and a sealed one.
const GROUPS: [Group; 2] = [
    Group { payload_bytes: 1024, is_sealed: false },
    Group { payload_bytes: 1024, is_sealed: true },
];
/// An AEAD's tag, as far as this crate is concerned.
const SEAL: [u8; 16] = *b"sixteen bytes...";

/// Why bytes are not a packet of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Header(Malformed),
    Void(Void),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Refused {
        Refused::Header(malformed)
    }
}

impl From<Void> for Refused {
    fn from(void: Void) -> Refused {
        Refused::Void(void)
    }
}

fn from_client(bytes: &[u8], group: Group) -> Result<RoutedPacket<'_>, Refused> {
    Ok(RoutedPacket::from_client(Packet::parse(bytes)?, group)?)
}

fn from_router(bytes: &[u8], group: Group) -> Result<RoutedPacket<'_>, Refused> {
    Ok(RoutedPacket::from_router(Packet::parse(bytes)?, group)?)
}

/// The header of a first packet from the client of `block`.
fn header(block: &RoutingBlock, message_bytes: u32) -> Header {
    Header::for_session(block.client, 0xbcd_ef01)
        .with_request(Kind::Routed, 0x12_3456_789a, block.transmission())
        .with_client(0, message_bytes, 0xf012)
}

fn block() -> RoutingBlock {
    RoutingBlock {
        policy: RoutePolicy::Hash,
        priority: 9,
        is_claim: true,
        reply: ([10, 1, 2, 3], 8080).into(),
        client: 0x5_1234,
        epoch: 0xabc,
        pair: 0x8_4321,
        pair_tag: 0x765_4321,
        number: 0xab_cdde_f012,
        lifetime_us: Some(0x1122_3344),
        key_hash: 0x5566_7788,
    }
}

/// A first packet of `group`, with `body` behind its block.
fn first(header: Header, block: &RoutingBlock, body: &[u8], group: Group) -> Vec<u8> {
    let header = if group.is_sealed { header.with_checksum() } else { header };
    let seal: &[u8] = if group.is_sealed { &SEAL } else { &[] };
    [&header.to_bytes()[..], &block.to_bytes(), body, seal].concat()
}

/// The same packet on its way from the router.
fn passed_on(mut bytes: Vec<u8>, given: Given) -> Vec<u8> {
    given.write_to(bytes.first_chunk_mut().expect("a first packet has 64 bytes"));
    bytes
}

/// The packet that says what `routed` says, but for the key phase.
fn written_anew(routed: &RoutedPacket<'_>) -> Vec<u8> {
    let block = RoutingBlock {
        policy: routed.policy().unwrap_or_default(),
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
    let packet = routed.header();
    let header = Header::for_session(packet.session(), packet.tag())
        .with_request(packet.kind(), packet.request(), block.transmission())
        .with_client(routed.given(), packet.message_bytes(), packet.method())
        .with_encoding(packet.encoding());
    let header = if packet.has_checksum() { header.with_checksum() } else { header };
    let seal = routed.seal().map_or(&[][..], |seal| seal);
    [&header.to_bytes()[..], &block.to_bytes(), routed.body(), seal].concat()
}

/// `bytes` without what [`written_anew`] cannot write: the key phase, and policies that are not
/// assigned.
fn writable(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[1] &= !1;
    if RoutePolicy::from_number(bytes[HEADER_BYTES] & 0xf).is_none() {
        bytes[HEADER_BYTES] &= 0xf0;
    }
    bytes
}

/// `bytes` with one bit changed, for each bit.
fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..bytes.len() * 8).map(|bit| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        (bit, bytes)
    })
}
