//! Datagrams' headers, and the bitmaps of acknowledgements (W1 to W12, W18).

use petasos_wire::{
    AckBitmap, HEADER_BYTES, Header, Kind, MESSAGE_BYTES_MAX, PACKETS_MAX, Packet, RawPacket,
    SESSIONS_MAX, TAG_MAX,
};

use crate::Seed;

/// A datagram.
pub fn run(bytes: &[u8]) {
    let raw = RawPacket::read(bytes);
    let Ok(packet) = Packet::parse(bytes) else { return };
    let raw = raw.expect("what parses has a header's length");
    assert_eq!(raw.session(), packet.session() as usize);
    assert_eq!(raw.request(), packet.request());
    assert_eq!(raw.from_server(), packet.from_server());
    assert!(packet.session() < SESSIONS_MAX && packet.tag() < TAG_MAX);
    assert!(packet.message_bytes() <= MESSAGE_BYTES_MAX && packet.packet_index() < PACKETS_MAX);
    assert!(packet.payload().len() + HEADER_BYTES <= bytes.len());
    assert!(packet.request_without_padding().payload().len() <= packet.payload().len());
    assert!(packet.response_without_padding().payload().len() <= packet.payload().len());
    if let Some(bitmap) = AckBitmap::parse(packet.payload()) {
        let offsets: Vec<u32> = bitmap.offsets().collect();
        assert!(offsets.is_sorted() && offsets.iter().all(|at| *at < 1024));
    }
    rebuild(bytes, &packet);
}

/// What a packet says is written back as it stood.
fn rebuild(bytes: &[u8], packet: &Packet<'_>) {
    let header = Header::for_session(packet.session(), packet.tag())
        .with_request(packet.kind(), packet.request(), packet.transmission())
        .with_encoding(packet.encoding());
    let header = if packet.from_server() {
        header
            .with_server(packet.echo(), packet.value(), packet.credits())
            .with_ecn_echo(packet.ecn_echo())
    } else {
        header.with_client(packet.packet_index(), packet.message_bytes(), packet.method())
    };
    let header = if packet.has_checksum() { header.with_checksum() } else { header };
    let header = if packet.is_later() { header.with_later() } else { header };
    let plain = !packet.key_phase() && (packet.from_server() || !packet.ecn_echo());
    assert!(!plain || header.to_bytes() == bytes[..HEADER_BYTES], "{header:?}");
}

/// A packet of every kind.
pub fn seeds() -> Vec<Seed> {
    let client = |kind, payload: &[u8]| {
        let header = Header::for_session(3, 0x0abc_def1).with_request(kind, 8, 1);
        [&header.with_client(0, payload.len() as u32, 7).to_bytes()[..], payload].concat()
    };
    let server = |kind, payload: &[u8]| {
        let header = Header::for_session(5, 0x0123_4567).with_request(kind, 8, 1);
        [&header.with_server(1, payload.len() as u32, 32).to_bytes()[..], payload].concat()
    };
    vec![
        ("request", client(Kind::Request, b"hello")),
        ("pull", client(Kind::Pull, b"")),
        ("cancel", client(Kind::Cancel, b"")),
        ("done", client(Kind::Done, b"")),
        ("response", server(Kind::Response, b"hello")),
        ("acknowledgement", server(Kind::Ack, &0x8000_0000_0000_0102_u64.to_le_bytes())),
        ("reject", server(Kind::Reject, b"")),
        ("reset", server(Kind::Reset, b"")),
    ]
}
