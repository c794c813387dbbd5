//! First packets: every cut, every bit, and the limits of each part.

use petasos_wire::{
    CLAIM_BYTES_MAX, Given, Group, Malformed, Packet, Probe, RoutePolicy, RoutedPacket,
    RoutingBlock, Void,
};

use super::{
    GROUPS, Refused, SEAL, block, first, flips, from_client, from_router, header, passed_on,
    writable, written_anew,
};

/// A whole request and a claim of a longer one, in each group.
fn samples() -> Vec<(Group, Vec<u8>)> {
    let whole = RoutingBlock { is_claim: false, ..block() };
    let of = |group| {
        [
            (group, first(header(&whole, 5), &whole, b"hello", group)),
            (group, first(header(&block(), 1 << 20), &block(), &[7; CLAIM_BYTES_MAX], group)),
        ]
    };
    GROUPS.into_iter().flat_map(of).collect()
}

#[test]
fn rt1_every_cut_is_short() {
    for (group, bytes) in samples() {
        for length in 0..bytes.len() {
            let cut = from_client(&bytes[..length], group).unwrap_err();
            let expected = match length < 24 {
                true => Refused::Header(Malformed::Short),
                false => Refused::Void(Void::Short),
            };
            assert_eq!(cut, expected, "{length} of {} bytes", bytes.len());
            assert_eq!(from_router(&bytes[..length], group).unwrap_err(), expected);
        }
        assert!(from_client(&bytes, group).is_ok());
    }
}

/// No bit is ignored: either the packet is refused, or it says something else.
#[test]
fn rt1_rt2_every_bit_counts() {
    let read = [from_client, from_router];
    for ((group, bytes), read) in samples().iter().flat_map(|sample| read.map(|it| (sample, it))) {
        let mut accepted = 0;
        for (bit, flipped) in flips(bytes) {
            let Ok(routed) = read(&flipped, *group) else { continue };
            assert_eq!(written_anew(&routed), writable(flipped.clone()), "bit {bit}");
            accepted += 1;
        }
        assert!(accepted > bytes.len() * 4, "most bits are fields' values: {accepted}");
    }
}

#[test]
fn rt1_rt2_flags_that_have_to_be_clear_void_a_packet() {
    for (group, bytes) in samples() {
        let with = |at: usize, bit: u32| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            from_client(&bytes, group).err()
        };
        assert_eq!([with(1, 1), with(1, 5)], [Some(Refused::Void(Void::Flag)); 2]);
        for bit in 1..8 {
            assert_eq!(with(25, bit), Some(Refused::Void(Void::Flag)), "bit {bit}");
        }
        assert_eq!(with(1, 4), Some(Refused::Void(Void::Seal)));
        assert_eq!(with(1, 0), None, "the key phase is judged with the key");
        assert_eq!(with(0, 5), Some(Refused::Void(Void::Kind)));
    }
}

#[test]
fn rt1_rt2_what_a_client_sends_names_the_client_and_no_given_number() {
    let given = |session, number| Given { session, tag: 1, number, lifetime_us: None };
    for (group, bytes) in samples() {
        for wrong in [given(0x5_1235, 0), given(0x5_1234, 1)] {
            let bytes = passed_on(bytes.clone(), wrong);
            assert_eq!(from_client(&bytes, group).unwrap_err(), Refused::Void(Void::Client));
            assert!(from_router(&bytes, group).is_ok());
        }
        assert!(from_client(&passed_on(bytes, given(0x5_1234, 0)), group).is_ok());
    }
}

#[test]
fn rt1_no_body_is_longer_than_a_payload() {
    let whole = RoutingBlock { is_claim: false, ..block() };
    for group in GROUPS {
        let payload = group.payload_bytes as usize;
        let of = |body: usize, message: u32, block: &RoutingBlock| {
            let bytes = first(header(block, message), block, &vec![1; body], group);
            from_client(&bytes, group).map(|routed| routed.message().len())
        };
        assert_eq!(of(payload, 1024, &whole), Ok(1024));
        assert_eq!(of(payload, 5, &whole), Ok(5), "padding may fill it");
        assert_eq!(of(payload + 1, 5, &whole), Err(Refused::Void(Void::Long)));
        assert_eq!(of(payload + 1, 1025, &whole), Err(Refused::Void(Void::Long)));
        assert_eq!(of(payload, 1025, &whole), Err(Refused::Void(Void::Short)));
        assert_eq!(of(payload, 1025, &block()), Ok(64), "a claim of what is too long to be whole");
        assert_eq!(of(63, 64, &block()), Err(Refused::Void(Void::Short)));
        assert_eq!([of(3, 3, &block()), of(0, 0, &block())], [Ok(3), Ok(0)]);
    }
}

#[test]
fn a_sealed_body_is_replaced_by_what_it_hides() {
    let whole = RoutingBlock { is_claim: false, ..block() };
    let bytes = first(header(&whole, 5), &whole, b"\x80\x81\x82\x83\x84\x85", GROUPS[1]);
    let routed = from_router(&bytes, GROUPS[1]).unwrap();
    assert_eq!((routed.body().len(), routed.seal()), (6, Some(&SEAL)));
    let opened = routed.with_body(b"hello\0");
    assert_eq!((opened.message(), opened.pair()), (&b"hello"[..], whole.pair));
}

#[test]
fn probes_come_from_the_router_only_and_are_never_sealed() {
    let probe = Probe { session: 3, tag: 4, number: 5 }.to_bytes();
    for group in GROUPS {
        let routed = from_router(&probe, group).unwrap();
        assert!(routed.is_probe() && routed.message().is_empty() && routed.given() == 5);
        // As a client's it has the form of any other packet, and is rejected for its policy.
        let block = RoutingBlock { policy: RoutePolicy::Probe, ..block() };
        let bytes = first(header(&block, 3), &block, b"abc", group);
        assert_eq!(from_client(&bytes, group).unwrap().policy(), Some(RoutePolicy::Probe));
        assert_eq!(from_router(&bytes, group).is_err(), group.is_sealed);
    }
}

#[test]
fn policies_are_their_numbers_and_others_are_told_apart() {
    for number in 0..16u8 {
        let policy = RoutePolicy::from_number(number);
        assert_eq!(policy.is_some(), [0, 1, 2, 15].contains(&number));
        assert!(policy.is_none_or(|policy| policy as u8 == number));
        let mut bytes = first(header(&block(), 3), &block(), b"abc", GROUPS[0]);
        bytes[24] = bytes[24] & 0xf0 | number;
        assert_eq!(from_client(&bytes, GROUPS[0]).unwrap().policy(), policy);
    }
}

#[test]
fn what_the_header_alone_says_of_a_void_packet_is_its_number() {
    let given = Given { session: 3, tag: 4, number: 77, lifetime_us: None };
    let bytes = passed_on(first(header(&block(), 9), &block(), b"abc", GROUPS[0]), given);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(RoutedPacket::from_router(packet, GROUPS[0]).err(), Some(Void::Short));
    assert_eq!((packet.session(), packet.tag(), packet.packet_index()), (3, 4, 77));
}
