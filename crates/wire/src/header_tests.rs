use super::*;
use crate::*;

fn client_header() -> Header {
    Header::for_session(SESSIONS_MAX - 2, TAG_MAX - 3)
        .with_request(Kind::Request, REQUEST_NUMBERS - 4, TRANSMISSION_NUMBERS - 5)
        .with_client(PACKETS_MAX - 6, MESSAGE_BYTES_MAX - 7, u16::MAX - 8)
}

#[test]
fn w1_to_w9_client_fields_survive_at_their_extremes() {
    let bytes = client_header().with_encoding(Encoding::Protobuf).to_bytes();
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.kind(), Kind::Request);
    assert_eq!(packet.session(), SESSIONS_MAX - 2);
    assert_eq!(packet.tag(), TAG_MAX - 3);
    assert_eq!(packet.request(), REQUEST_NUMBERS - 4);
    assert_eq!(packet.transmission(), TRANSMISSION_NUMBERS - 5);
    assert_eq!(packet.packet_index(), PACKETS_MAX - 6);
    assert_eq!(packet.message_bytes(), MESSAGE_BYTES_MAX - 7);
    assert_eq!(packet.method(), u16::MAX - 8);
    assert_eq!(packet.encoding(), Encoding::Protobuf);
    assert!(!packet.ecn_echo() && !packet.key_phase() && !packet.has_checksum());
    assert!(packet.payload().is_empty());
}

#[test]
fn w6_w8_w10_server_fields_survive_at_their_extremes() {
    let header = Header::for_session(1, 2)
        .with_request(Kind::Response, 3, 4)
        .with_server(TRANSMISSION_NUMBERS - 1, MESSAGE_BYTES_MAX, CREDITS_MAX)
        .with_ecn_echo(true)
        .with_later()
        .with_checksum();
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(b"data");
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.echo(), TRANSMISSION_NUMBERS - 1);
    assert_eq!(packet.value(), MESSAGE_BYTES_MAX);
    assert_eq!(packet.credits(), CREDITS_MAX);
    assert!(packet.ecn_echo() && packet.has_checksum() && packet.is_later());
    assert_eq!(packet.payload(), b"data");
}

#[test]
fn w1_short_bytes_are_refused() {
    let bytes = client_header().to_bytes();
    for len in 0..HEADER_BYTES {
        assert_eq!(Packet::parse(&bytes[..len]).unwrap_err(), Malformed::Short);
    }
}

#[test]
fn w2_other_versions_are_refused() {
    let mut bytes = client_header().to_bytes();
    for version in (0..16).filter(|version| *version != VERSION) {
        bytes[0] = bytes[0] & 0xf0 | version;
        assert_eq!(Packet::parse(&bytes).unwrap_err(), Malformed::Version(version));
    }
}

#[test]
fn w3_kinds_are_their_bits_and_zero_is_refused() {
    let mut bytes = client_header().to_bytes();
    bytes[0] &= 0x0f;
    assert_eq!(Packet::parse(&bytes).unwrap_err(), Malformed::Kind(0));
    for bits in 1..16 {
        let kind = Kind::from_bits(bits).unwrap();
        assert_eq!(kind as u8, bits);
        assert_eq!(kind.from_server(), bits >= 8);
    }
}

#[test]
fn w11_reserved_flags_are_refused() {
    for bit in 6..8 {
        let mut bytes = client_header().to_bytes();
        bytes[1] |= 1 << bit;
        assert_eq!(Packet::parse(&bytes).unwrap_err(), Malformed::ReservedFlag);
    }
}

#[test]
fn w7_padding_is_what_follows_a_messages_only_packet() {
    let of = |header: Header, payload: usize| {
        let mut bytes = header.to_bytes().to_vec();
        bytes.resize(HEADER_BYTES + payload, 0);
        let packet = Packet::parse(&bytes).unwrap();
        let cut = match packet.from_server() {
            true => packet.response_without_padding(),
            false => packet.request_without_padding(),
        };
        cut.payload().len()
    };
    let base = Header::for_session(1, 2);
    let request = |bytes| base.with_request(Kind::Request, 3, 4).with_client(0, bytes, 5);
    let response = |bytes| base.with_request(Kind::Response, 3, 4).with_server(5, bytes, 6);
    for header in [request(10), response(10)] {
        assert_eq!([of(header, 9), of(header, 10), of(header, 90)], [9, 10, 10]);
    }
    assert_eq!(of(request(0), 64), 0);
    assert_eq!(of(response(10).with_later(), 64), 64, "an index, not a length");
    assert_eq!(of(base.with_request(Kind::Ack, 3, 4).with_server(5, 1, 6), 64), 64);
}
