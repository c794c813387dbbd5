//! The header over arbitrary fields and arbitrary bytes.

use petasos_wire::{
    CREDITS_MAX, Encoding, HEADER_BYTES, Header, Kind, MESSAGE_BYTES_MAX, Malformed, PACKETS_MAX,
    Packet, REQUEST_NUMBERS, SESSIONS_MAX, TAG_MAX, TRANSMISSION_NUMBERS, VERSION,
};
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = Kind> {
    (1u8..16).prop_map(|bits| Kind::from_bits(bits).expect("all but 0 are assigned"))
}

fn encoding() -> impl Strategy<Value = Encoding> {
    let all = [Encoding::Opaque, Encoding::Native, Encoding::Protobuf, Encoding::Reserved];
    prop::sample::select(all.to_vec())
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// What a client writes is what a server reads, and no field touches another.
    #[test]
    fn w1_to_w9_w11_client_headers_survive(
        (session, tag) in (0..SESSIONS_MAX, 0..TAG_MAX),
        (request, transmission) in (0..REQUEST_NUMBERS, 0..TRANSMISSION_NUMBERS),
        (index, bytes, method) in (0..PACKETS_MAX, 0..=MESSAGE_BYTES_MAX, any::<u16>()),
        (kind, encoding, checksum) in (kind(), encoding(), any::<bool>()),
        payload in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = Header::for_session(session, tag)
            .with_request(kind, request, transmission)
            .with_client(index, bytes, method)
            .with_encoding(encoding);
        let header = if checksum { header.with_checksum() } else { header };
        let mut datagram = header.to_bytes().to_vec();
        datagram.extend_from_slice(&payload);
        let packet = Packet::parse(&datagram).unwrap();
        prop_assert_eq!(packet.kind(), kind);
        prop_assert_eq!((packet.session(), packet.tag()), (session, tag));
        prop_assert_eq!((packet.request(), packet.transmission()), (request, transmission));
        prop_assert_eq!((packet.packet_index(), packet.message_bytes()), (index, bytes));
        prop_assert_eq!(packet.method(), method);
        prop_assert_eq!(packet.encoding(), encoding);
        prop_assert_eq!(packet.has_checksum(), checksum);
        prop_assert!(!packet.ecn_echo() && !packet.is_later() && !packet.key_phase());
        prop_assert_eq!(packet.payload(), &payload[..]);
    }

    /// What a server writes is what a client reads, and no field touches another.
    #[test]
    fn w6_w8_w10_w11_server_headers_survive(
        (session, tag) in (0..SESSIONS_MAX, 0..TAG_MAX),
        (request, transmission) in (0..REQUEST_NUMBERS, 0..TRANSMISSION_NUMBERS),
        (echo, value) in (0..TRANSMISSION_NUMBERS, 0..=MESSAGE_BYTES_MAX),
        credits in 0..=CREDITS_MAX,
        (kind, marked, later) in (kind(), any::<bool>(), any::<bool>()),
    ) {
        let header = Header::for_session(session, tag)
            .with_request(kind, request, transmission)
            .with_server(echo, value, credits)
            .with_ecn_echo(marked);
        let bytes = if later { header.with_later() } else { header }.to_bytes();
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.kind(), kind);
        prop_assert_eq!((packet.session(), packet.tag()), (session, tag));
        prop_assert_eq!((packet.request(), packet.transmission()), (request, transmission));
        prop_assert_eq!((packet.echo(), packet.value()), (echo, value));
        prop_assert_eq!(packet.credits(), credits);
        prop_assert_eq!((packet.ecn_echo(), packet.is_later()), (marked, later));
        prop_assert!(!packet.has_checksum() && !packet.key_phase());
    }

    /// Any bytes give a packet, whose accessors keep to their ranges, or the error that is due.
    #[test]
    fn w1_w2_w3_w11_arbitrary_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80), plausible in any::<bool>(),
    ) {
        if plausible && let [first, second, ..] = bytes.as_mut_slice() {
            *first = *first & 0xf0 | VERSION;
            *second &= 0x3f;
        }
        match Packet::parse(&bytes) {
            Ok(packet) => {
                prop_assert!(packet.session() < SESSIONS_MAX && packet.tag() < TAG_MAX);
                prop_assert!(packet.request() < REQUEST_NUMBERS);
                prop_assert!(packet.transmission() < TRANSMISSION_NUMBERS);
                prop_assert!(packet.packet_index() < PACKETS_MAX);
                prop_assert!(packet.message_bytes() <= MESSAGE_BYTES_MAX);
                prop_assert!(packet.echo() < TRANSMISSION_NUMBERS);
                prop_assert!(packet.value() <= MESSAGE_BYTES_MAX);
                prop_assert!(packet.credits() <= CREDITS_MAX);
                prop_assert_eq!(packet.kind().from_server(), bytes[0] & 0x80 != 0);
                prop_assert_eq!(packet.payload(), &bytes[HEADER_BYTES..]);
            }
            Err(Malformed::Short) => prop_assert!(bytes.len() < HEADER_BYTES),
            Err(Malformed::Version(version)) => {
                prop_assert!(version != VERSION && version == bytes[0] & 0xf);
            }
            Err(Malformed::Kind(kind)) => prop_assert!(kind == 0 && bytes[0] >> 4 == 0),
            Err(Malformed::ReservedFlag) => prop_assert!(bytes[1] & 0xc0 != 0),
            Err(other) => prop_assert!(false, "{other} is not decided here"),
        }
    }
}

/// The layout in the specification, byte by byte: the fields' values are their names in miniature.
#[test]
fn w1_the_layout_is_little_endian_from_the_lowest_bit() {
    let client = Header::for_session(0x5_1234, 0xabc_def01)
        .with_request(Kind::Request, 0x12_3456_789a, 0xde_f012)
        .with_client(0x3_4567, 0x89a_bcde, 0xf012)
        .with_encoding(Encoding::Protobuf);
    let bytes = [
        0x11, 0x08, 0x34, 0x12, 0x15, 0xf0, 0xde, 0xbc, // version, kind, flags, session, tag
        0x9a, 0x78, 0x56, 0x34, 0x12, 0x12, 0xf0, 0xde, // request, transmission
        0x67, 0x45, 0xe3, 0xcd, 0xab, 0x89, 0x12, 0xf0, // index, length, method
    ];
    assert_eq!(client.to_bytes(), bytes);
    let server = Header::for_session(1, 2)
        .with_request(Kind::Response, 3, 4)
        .with_server(0xab_cdef, 0x123_4567, 0x89a)
        .with_ecn_echo(true)
        .with_later();
    assert_eq!(server.to_bytes()[..2], [0x81, 0x22]);
    assert_eq!(server.to_bytes()[16..], [0xef, 0xcd, 0xab, 0x67, 0x45, 0x23, 0xa1, 0x89]);
}

#[test]
fn w12_a_checksum_is_announced_and_cut_off() {
    let mut bytes = Header::for_session(1, 2).with_checksum().with_request(Kind::Request, 3, 4);
    let mut datagram = bytes.to_bytes().to_vec();
    datagram.extend_from_slice(b"data");
    datagram.extend_from_slice(&[0; petasos_wire::CHECKSUM_BYTES]);
    let packet = Packet::parse(&datagram).unwrap();
    assert!(packet.has_checksum());
    let (payload, _) = packet.payload().split_at(4);
    let cut = packet.with_payload(payload);
    assert_eq!((cut.payload(), cut.request()), (&b"data"[..], 3));
    bytes = Header::for_session(1, 2).with_request(Kind::Request, 3, 4);
    assert!(!Packet::parse(&bytes.to_bytes()).unwrap().has_checksum());
}

#[test]
fn w13_the_longest_message_has_an_index_for_each_packet() {
    let packets = MESSAGE_BYTES_MAX.div_ceil(petasos_wire::PAYLOAD_BYTES_MIN);
    let bytes = Header::for_session(0, 0)
        .with_request(Kind::Request, 0, 0)
        .with_client(packets - 1, MESSAGE_BYTES_MAX, 0)
        .to_bytes();
    assert_eq!(Packet::parse(&bytes).unwrap().packet_index(), packets - 1);
}
