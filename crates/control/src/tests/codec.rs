//! Each message there and back, cut short, and out of range.

use proptest::prelude::*;

use super::{decoded, encoded, grant, hello, params, strategies};
use crate::*;

/// The last field of a hello, which one of version 1.0 does not have (C17).
const PLACE_BYTES: usize = 24;

proptest! {
    #[test]
    fn every_message_comes_back_as_it_was(message in strategies::message()) {
        prop_assert_eq!(decoded(&encoded(&message)), Ok(message));
    }

    #[test]
    fn every_message_cut_short_is_an_error(message in strategies::message()) {
        let bytes = encoded(&message);
        let (header, body) = bytes.split_at(FRAME_HEADER_BYTES);
        let optional = if matches!(message, Message::Hello(_)) { PLACE_BYTES } else { 0 };
        for length in 0..body.len() - optional {
            let result = Message::decode(header[2], &body[..length]);
            // Cut between two entries, or before a secret, it is another message.
            if let (Ok(shorter), Message::Group(GroupMessage::Told(_))) = (&result, &message) {
                prop_assert_eq!(&encoded(shorter)[FRAME_HEADER_BYTES..], &body[..length]);
                continue;
            }
            prop_assert!(result.is_err(), "{} of {} bytes: {:?}", length, body.len(), result);
        }
    }

    #[test]
    fn only_a_hello_may_be_longer_than_it_is_known_to_be(message in strategies::message()) {
        let bytes = encoded(&message);
        let mut body = bytes[FRAME_HEADER_BYTES..].to_vec();
        body.push(0);
        let decoded = Message::decode(bytes[2], &body);
        match message {
            Message::Hello(_) => prop_assert_eq!(decoded, Ok(message)),
            // A byte is no entry.
            Message::Group(GroupMessage::Told(_)) => prop_assert!(decoded.is_err()),
            _ => prop_assert_eq!(decoded, Err(Malformed::Trailing)),
        }
    }

    #[test]
    fn a_message_with_one_byte_changed_is_an_error_or_has_one_encoding(
        message in strategies::message(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encoded(&message);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(changed) = decoded(&bytes) {
            let mut again = encoded(&changed);
            let skippable = bytes[3];
            (bytes[3], again[3]) = (0, 0);
            prop_assert!(skippable <= 1);
            let known = encoded_alike(&changed, &bytes, &again);
            prop_assert_eq!(&again[2..known], &bytes[2..known]);
        }
    }
}

/// How far bytes that were heard have to be those of what was understood. A later hello is longer.
/// One that ends in its place, as its name has taken some of it, has none.
fn encoded_alike(understood: &Message, heard: &[u8], again: &[u8]) -> usize {
    match understood {
        Message::Hello(_) if heard.len() < again.len() => again.len() - PLACE_BYTES,
        _ => again.len().min(heard.len()),
    }
}

#[test]
fn c17_a_hello_that_ends_in_its_place_names_none() {
    let place = Some(Place { boot: [7; 16], namespace: 1 });
    let mut bytes = encoded(&Message::Hello(Hello { name: Text::new("a"), place, ..hello(1) }));
    // The name's length, which is 1.
    let at = bytes.len() - PLACE_BYTES - 2;
    for cut in 1..=PLACE_BYTES as u8 {
        bytes[at] = 1 + cut;
        let Ok(changed) = decoded(&bytes) else { panic!("{cut}: the name is ASCII") };
        let Message::Hello(hello) = &changed else { panic!("{changed:?}") };
        assert_eq!((hello.place, hello.name.as_str().len()), (None, 1 + usize::from(cut)));
        let again = encoded(&changed);
        let known = encoded_alike(&changed, &bytes, &again);
        assert_eq!(
            (again.len(), known),
            (bytes.len() + usize::from(cut), again.len() - PLACE_BYTES)
        );
        assert_eq!(again[2..known], bytes[2..known]);
    }
}

/// Decodes a connect, after a change to its body.
fn connect_with(change: impl FnOnce(&mut [u8])) -> Result<Message, Malformed> {
    let mut bytes = encoded(&Message::Connect { connect_id: 1, params: params(3) });
    change(&mut bytes[FRAME_HEADER_BYTES..]);
    decoded(&bytes)
}

#[test]
fn c7_fields_out_of_range_are_named() {
    let named = |field| Err(Malformed::Value(field));
    assert_eq!(connect_with(|body| body[14] = 0x10), named("session"));
    assert_eq!(connect_with(|body| body[19] = 0x10), named("tag"));
    assert_eq!(connect_with(|body| body[23] = 0x10), named("request_bytes_max"));
    assert_eq!(connect_with(|body| body[27] = 0x10), named("response_bytes_max"));
    assert_eq!(connect_with(|body| body[28..30].fill(0)), named("credits"));
    assert_eq!(connect_with(|body| body[29] = 0x10), named("credits"));
    assert_eq!(connect_with(|body| body[31] = 3), named("payload_bytes"));
    assert_eq!(connect_with(|body| body[30..32].fill(0xff)), named("payload_bytes"));
    for slots in [0, 3, 65, 128] {
        assert_eq!(connect_with(|body| body[32] = slots), named("slots"));
    }
    assert_eq!(connect_with(|body| body[33] = 8), named("flags"));
    assert_eq!(connect_with(|body| body[34..36].fill(0)), named("address"));
    assert_eq!(connect_with(|body| body[36] = 5), named("address"));
}

#[test]
fn c7_an_address_of_no_single_host_is_refused() {
    for ip in ["0.0.0.0", "224.0.0.1", "::", "ff02::1"] {
        let address = DataAddress::udp(1, Some(ip.parse().unwrap()));
        let asks =
            Message::Connect { connect_id: 1, params: ConnectParams { address, ..params(3) } };
        assert_eq!(decoded(&encoded(&asks)), Err(Malformed::Value("address")), "{ip}");
    }
}

#[test]
fn c4_text_is_bounded_valid_and_harmless() {
    let mut bytes = encoded(&Message::Hello(hello(1)));
    bytes[FRAME_HEADER_BYTES + 22] = NAME_BYTES_MAX as u8 + 1;
    assert_eq!(decoded(&bytes), Err(Malformed::Value("name")));
    let mut bytes = encoded(&Message::Hello(hello(1)));
    bytes[FRAME_HEADER_BYTES + 23] = 0xff;
    assert_eq!(decoded(&bytes), Err(Malformed::Value("name")));
    assert_eq!(Text::<4>::new("abcé").as_str(), "abc");
    assert_eq!(Text::<9>::new("a\u{1b}[2J").to_string(), "a\\u{1b}[2J");
}

#[test]
fn c9_a_grant_is_the_lesser_of_both_sides() {
    let limits = ServerLimits {
        slots_max: 7,
        credits_max: 100,
        payload_bytes_max: 1400,
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 28,
    };
    let asked = ConnectParams { response_bytes_max: 5, ..params(3) };
    let server = grant(9).server_ref();
    let granted = asked.accept(&limits, server, grant(9).address, None).unwrap();
    let expected = AcceptParams {
        slots: 4,
        credits: 32,
        payload_bytes: 1400,
        request_bytes_max: 1 << 20,
        response_bytes_max: 5,
        ..grant(9)
    };
    assert_eq!(granted, expected);
    for nothing in [
        ServerLimits { slots_max: 0, ..limits },
        ServerLimits { credits_max: 0, ..limits },
        ServerLimits { payload_bytes_max: 1023, ..limits },
    ] {
        let refused = asked.accept(&nothing, server, grant(9).address, None);
        assert_eq!(refused, Err(RefuseCode::IncompatibleParameters));
    }
}

#[test]
fn c9_refuse_codes_say_whether_a_retry_is_of_use() {
    let useful: Vec<_> =
        (1..=8).filter(|&bits| RefuseCode::from_bits(bits).retry_may_succeed()).collect();
    assert_eq!(useful, [2, 6, 7]);
    assert_eq!(RefuseCode::NotAuthorised.fault(), Fault::Client);
    assert_eq!(RefuseCode::Draining.fault(), Fault::Nobody);
    assert_eq!(RefuseCode::Internal.fault(), Fault::Server);
}
