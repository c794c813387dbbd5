//! A client, its router and a worker with one group's secret, and somebody between them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use petasos_seal::group::{
    ClientSecret, FirstOpenError, FirstOpener, FirstSealer, GroupSecret, Link,
};
use petasos_seal::{Cipher, End, KeyLife, NotNewer, OpenError, SEAL_BYTES, SECRET_BYTES};
use petasos_wire::{
    FIRST_BYTES, FIRST_NUMBERS, Given, Group, Header, Kind, Packet, RoutePolicy, RoutedPacket,
    RoutingBlock, WORKER_BLOCK_BYTES, WorkerBlock,
};
use proptest::prelude::*;

const CLIENT: u32 = 0x5_1234;
const GROUP: Group = Group { payload_bytes: 1024, is_sealed: true };
/// Keys that last for 16 packets.
const SHORT: KeyLife = KeyLife::of_log2(4);

fn secret() -> ClientSecret {
    let bytes: [u8; SECRET_BYTES] = core::array::from_fn(|at| at as u8);
    GroupSecret::new(Cipher::Aes128Gcm, bytes).client(CLIENT)
}

/// A first packet of three bytes, to be sealed.
fn first(number: u64) -> Vec<u8> {
    let block = RoutingBlock {
        policy: RoutePolicy::Hash,
        priority: 9,
        is_claim: false,
        client: CLIENT,
        epoch: 0xabc,
        reply: "10.1.2.3:8080".parse().unwrap(),
        pair: 0x8_4321,
        pair_tag: 0x765_4321,
        number,
        lifetime_us: Some(0x1122_3344),
        key_hash: 0x5566_7788,
    };
    let header = Header::for_session(CLIENT, 0xbcd_ef01).with_checksum();
    let transmission = (number % (1 << 24)) as u32;
    let header = header.with_request(Kind::Routed, 0x12_3456_789a, transmission);
    let header = header.with_client(0, 3, 0xf012);
    [&header.to_bytes()[..], &block.to_bytes(), b"abc", &[0; SEAL_BYTES]].concat()
}

fn sealed(sealer: &mut FirstSealer, number: u64) -> Vec<u8> {
    let mut bytes = first(number);
    sealer.seal(&mut bytes).expect("numbers rise");
    bytes
}

fn open(opener: &mut FirstOpener, bytes: &[u8]) -> Result<Vec<u8>, FirstOpenError> {
    let packet = Packet::parse(bytes).expect("it is a packet");
    let routed = RoutedPacket::from_router(packet, GROUP).expect("it is a first packet");
    opener.open(bytes, &routed, &mut [0; 64]).map(<[u8]>::to_vec)
}

fn ends(life: KeyLife) -> (FirstSealer, FirstOpener) {
    (FirstSealer::new(&secret(), life), FirstOpener::new(&secret(), life))
}

/// Made by Python's `cryptography` from the text of the rules, with number 3 * 2^21 + 5.
const PACKET: &str = "\
    5119341215f0debc9a7856341205006000003000000012f092001f903412c5ab0000000000000000\
    0000ffff0a010203214318325476000044332211887766559ce47d7a86e2493ba795d1deae772df5\
    087b36";

#[test]
fn rt27_a_first_packet_is_sealed_as_the_specification_says() {
    let bytes = |at: usize| u8::from_str_radix(&PACKET[2 * at..2 * at + 2], 16).unwrap();
    let expected: Vec<u8> = (0..PACKET.len() / 2).map(bytes).collect();
    let (mut sealer, mut opener) = ends(KeyLife::default());
    let mut packet = first((3 << 21) + 5);
    // Of the vector's block.
    packet[..FIRST_BYTES].copy_from_slice(&expected[..FIRST_BYTES]);
    sealer.seal(&mut packet).unwrap();
    assert_eq!(packet, expected);
    assert_eq!(open(&mut opener, &packet).unwrap(), b"abc");
}

#[test]
fn rt27_what_the_router_rewrites_is_not_authenticated_and_all_else_is() {
    let (mut sealer, mut opener) = ends(KeyLife::default());
    let bytes = sealed(&mut sealer, 1);
    let mut opened = 0;
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(packet) = Packet::parse(&flipped) else { continue };
        let Ok(routed) = RoutedPacket::from_router(packet, GROUP) else { continue };
        // An opener that has seen nothing: whether the packet is authentic is all that counts.
        let mut fresh = FirstOpener::new(&secret(), KeyLife::default());
        let is_rewritten = matches!(bit, 16..64 | 128..148 | 448..480);
        let result = fresh.open(&flipped, &routed, &mut [0; 64]).map(|_| ());
        let expected = if is_rewritten { Ok(()) } else { Err(FirstOpenError::Forged) };
        assert_eq!(result, expected, "bit {bit}");
        opened += u32::from(is_rewritten);
    }
    assert_eq!(opened, 48 + 20 + 32);
    let mut passed = bytes;
    let given = Given { session: 3, tag: 4, number: 77, lifetime_us: Some(5) };
    given.write_to(passed.first_chunk_mut().unwrap());
    assert_eq!(open(&mut opener, &passed).unwrap(), b"abc");
}

#[test]
fn rt27_packets_open_once_and_old_ones_are_told_from_forged_ones() {
    let (mut sealer, mut opener) = ends(SHORT);
    let packets: Vec<_> = (1..=16_390).map(|number| sealed(&mut sealer, number)).collect();
    assert_eq!(open(&mut opener, &packets[16_389]).unwrap(), b"abc");
    assert_eq!(open(&mut opener, &packets[16_389]), Err(FirstOpenError::Seen));
    // The first of the 16,384 highest numbers, which have waited in a queue.
    assert_eq!(open(&mut opener, &packets[6]).unwrap(), b"abc");
    assert_eq!(open(&mut opener, &packets[6]), Err(FirstOpenError::Seen));
    assert_eq!(open(&mut opener, &packets[5]), Err(FirstOpenError::Old));
    let mut forged = packets[4].clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(open(&mut opener, &forged), Err(FirstOpenError::Forged), "nobody is answered");
}

#[test]
fn rt27_keys_follow_numbers_in_any_order() {
    let (mut sealer, mut opener) = ends(SHORT);
    let numbers = [1, 15, 16, 31, 32, 1000, 1 << 24, (1 << 24) + 40, FIRST_NUMBERS - 1];
    let packets = numbers.map(|number| sealed(&mut sealer, number));
    for at in [3, 0, 2, 1, 5, 4, 7, 8] {
        assert_eq!(open(&mut opener, &packets[at]).unwrap(), b"abc", "{}", numbers[at]);
    }
    assert_eq!(open(&mut opener, &packets[6]), Err(FirstOpenError::Old));
}

#[test]
fn rt27_no_number_is_used_twice() {
    let (mut sealer, _) = ends(SHORT);
    let mut unused = first(0);
    assert_eq!(sealer.seal(&mut unused), Err(NotNewer), "numbers begin with 1");
    let packet = sealed(&mut sealer, 40);
    for number in [40, 39, 1] {
        let mut again = first(number);
        let before = again.clone();
        assert_eq!(sealer.seal(&mut again), Err(NotNewer));
        assert_eq!(again, before);
    }
    assert_ne!(sealed(&mut sealer, 41)[FIRST_BYTES..], packet[FIRST_BYTES..]);
}

#[test]
fn a_clients_packets_are_nobody_elses() {
    let (mut sealer, _) = ends(SHORT);
    let packet = sealed(&mut sealer, 1);
    let bytes = core::array::from_fn(|at| at as u8);
    for other in [
        GroupSecret::new(Cipher::Aes128Gcm, bytes).client(CLIENT + 1),
        GroupSecret::new(Cipher::ChaCha20Poly1305, bytes).client(CLIENT),
        GroupSecret::new(Cipher::Aes128Gcm, [1; SECRET_BYTES]).client(CLIENT),
    ] {
        let mut opener = FirstOpener::new(&other, SHORT);
        assert_eq!(open(&mut opener, &packet), Err(FirstOpenError::Forged));
    }
    let told = ClientSecret::new(Cipher::Aes128Gcm, *secret().bytes());
    assert_eq!(open(&mut FirstOpener::new(&told, SHORT), &packet).unwrap(), b"abc");
}

/// A ready with a worker block, to be sealed.
fn ready(transmission: u32, worker: u16) -> Vec<u8> {
    let header = Header::for_session(0x8_4321, 0x765_4321).with_checksum();
    let header = header.with_request(Kind::Ready, 0x12_3456_789a, transmission);
    let block = WorkerBlock { session: 5, tag: 6, worker };
    [&header.to_bytes()[..], &block.to_bytes(), &[0; SEAL_BYTES]].concat()
}

fn open_ready(link: &mut Link, bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
    let packet = Packet::parse(bytes).expect("it is a packet");
    let half = link.half().expect("the link is open");
    let mut out = vec![0; bytes.len()];
    half.opener.open_behind(bytes, &packet, WORKER_BLOCK_BYTES, &mut out).map(<[u8]>::to_vec)
}

fn links(worker: u16) -> (Link, Link) {
    let of = |end| Link::new(&secret(), worker, end, SHORT);
    (of(End::Client), of(End::Server))
}

#[test]
fn rt28_the_worker_block_is_in_the_clear_and_authenticated() {
    let (mut client, mut worker) = links(7);
    let mut bytes = ready(1, 7);
    let clear = bytes.clone();
    worker.half().unwrap().sealer.seal_behind(&mut bytes, WORKER_BLOCK_BYTES).unwrap();
    assert_eq!(bytes[..32], clear[..32]);
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if Packet::parse(&flipped).is_ok() {
            let (mut fresh, _) = links(7);
            assert!(open_ready(&mut fresh, &flipped).is_err(), "bit {bit}");
        }
    }
    assert_eq!(open_ready(&mut client, &bytes).unwrap(), b"");
    assert_eq!(open_ready(&mut client, &bytes), Err(OpenError::Replayed));
    let short = &bytes[..24 + WORKER_BLOCK_BYTES + SEAL_BYTES - 1];
    assert_eq!(open_ready(&mut client, short), Err(OpenError::Short));
    assert_eq!(open_ready(&mut client, &bytes[..26]), Err(OpenError::Short));
    let (mut other, _) = links(8);
    assert_eq!(open_ready(&mut other, &bytes), Err(OpenError::Forged), "another worker's");
}

#[test]
fn rt28_a_link_is_made_once_and_not_after_its_epoch() {
    let (mut client, mut worker) = links(7);
    assert!(!worker.is_made());
    let mut bytes = ready(1, 7);
    worker.half().unwrap().sealer.seal_behind(&mut bytes, WORKER_BLOCK_BYTES).unwrap();
    worker.close();
    client.close();
    assert!(worker.is_made() && client.half().is_none(), "what was not needed is not made");
    let mut again = ready(1, 7);
    let half = worker.half().expect("pairs are in it yet");
    assert_eq!(half.sealer.seal_behind(&mut again, WORKER_BLOCK_BYTES), Err(NotNewer));
    assert!(half.sealer.seal_behind(&mut ready(2, 7), WORKER_BLOCK_BYTES).is_ok());
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// Packets that are lost, repeated and reordered: each opens once, unless it is old.
    #[test]
    fn rt27_each_packet_opens_once(
        gaps in prop::collection::vec(prop_oneof![9 => 1u64..40, 1 => 1u64..40_000], 1..60),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        let (mut sealer, mut opener) = ends(SHORT);
        let mut number = 0;
        let packets: Vec<_> = gaps.iter().map(|gap| {
            number += gap;
            (number, sealed(&mut sealer, number))
        }).collect();
        let (mut seen, mut highest) = (std::collections::HashSet::new(), 0);
        for at in order {
            let (number, bytes) = at.get(&packets);
            let expected = match () {
                () if number + 16_384 <= highest => Err(FirstOpenError::Old),
                () if !seen.insert(*number) => Err(FirstOpenError::Seen),
                () => Ok(b"abc".to_vec()),
            };
            prop_assert_eq!(open(&mut opener, bytes), expected, "{} of {}", number, highest);
            highest = highest.max(*number);
        }
    }
}
