use proptest::prelude::*;

use super::*;

const REQUEST: RequestHead = RequestHead {
    encoding: Encoding::Native,
    codec: Codec::LZ4,
    answer: Answer { native: true, codec: Codec::GZIP },
    has_tail: true,
    time_left_us: 0x0403_0201,
};

#[test]
fn r6_a_requests_head_lies_where_the_table_says() {
    assert_eq!(REQUEST.to_bytes(), [0b1101, 0x12, 0, 0, 1, 2, 3, 4]);
    assert_eq!(RequestHead::parse(REQUEST.to_bytes()), Ok(REQUEST));
    let plain = RequestHead { encoding: Encoding::Protobuf, ..RequestHead::default() };
    assert_eq!(plain.to_bytes(), [2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn r7_a_responses_head_lies_where_the_table_says() {
    let response = ResponseHead {
        encoding: Encoding::Protobuf,
        codec: Codec::GZIP,
        has_tail: true,
        code: Code::NotFound,
        load: Load { running: 0x0201, time_us: 0x0403 * 16 },
    };
    assert_eq!(response.to_bytes(), [0b1010, 1, 5, 0, 1, 2, 3, 4]);
    assert_eq!(ResponseHead::parse(response.to_bytes()), Ok(response));
}

#[test]
fn r7_load_saturates_and_a_foreign_status_is_unknown() {
    let head = |load| ResponseHead {
        encoding: Encoding::None,
        codec: Codec::IDENTITY,
        has_tail: false,
        code: Code::Ok,
        load,
    };
    let most = head(Load::new(1 << 20, Duration::from_secs(1 << 40))).to_bytes();
    assert_eq!(&most[4..], [0xff; 4]);
    assert_eq!(ResponseHead::parse(most).unwrap().load.time_us, 1_048_560);
    let short = head(Load::new(3, Duration::from_micros(31))).to_bytes();
    assert_eq!(ResponseHead::parse(short).unwrap().load, Load { running: 3, time_us: 16 });
    let foreign = ResponseHead::parse([0, 0, 17, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(foreign.code, Code::Unknown);
}

#[test]
fn r6_r7_other_bits_and_encoding_3_are_malformed() {
    for bit in 4..8 {
        let flags = 1 << bit;
        assert_eq!(RequestHead::parse([flags, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Reserved));
        assert_eq!(ResponseHead::parse([flags, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Reserved));
    }
    assert_eq!(RequestHead::parse([3, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Encoding));
    assert_eq!(ResponseHead::parse([3, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Encoding));
    assert_eq!(RequestHead::parse([0, 0, 0, 1, 0, 0, 0, 0]), Err(Malformed::Reserved));
    assert_eq!(ResponseHead::parse([4, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::Reserved));
    assert_eq!(ResponseHead::parse([0, 16, 0, 0, 0, 0, 0, 0]), Err(Malformed::Reserved));
    assert_eq!(ResponseHead::parse([0, 0, 0, 1, 0, 0, 0, 0]), Err(Malformed::Reserved));
}

#[test]
fn r5_the_body_lies_between_head_and_tail() {
    let message = b"HEADHEADbodytail\x04\0\0\0";
    assert_eq!(split(message, true), Ok((8..12, &b"tail"[..])));
    assert_eq!(split(message, false), Ok((8..20, &b""[..])));
    assert_eq!(split(b"HEADHEAD", false), Ok((8..8, &b""[..])));
    assert_eq!(split(b"HEADHEAD\0\0\0\0", true), Ok((8..8, &b""[..])));
    assert_eq!(split(b"HEADHEA", false), Err(Malformed::TooShort));
    assert_eq!(split(b"HEADHEAD\0\0\0", true), Err(Malformed::Tail));
    assert_eq!(split(b"HEADHEAD\x01\0\0\0", true), Err(Malformed::Tail));
    assert_eq!(split(b"HEADHEAD\xff\xff\xff\xff", true), Err(Malformed::Tail));
}

proptest! {
    #[test]
    fn r6_r7_every_head_parses_to_its_own_bytes_or_fails(bytes: [u8; 8]) {
        if let Ok(head) = RequestHead::parse(bytes) {
            prop_assert_eq!(head.to_bytes(), bytes);
        }
        if let Ok(head) = ResponseHead::parse(bytes) {
            let mut known = bytes;
            known[2] = head.code.number();
            prop_assert_eq!(head.to_bytes(), known);
        }
    }

    #[test]
    fn r5_every_message_splits_or_fails(bytes: Vec<u8>, has_tail: bool) {
        if let Ok((body, tail)) = split(&bytes, has_tail) {
            prop_assert_eq!(body.start, HEAD_BYTES);
            let length = if has_tail { 4 } else { 0 };
            prop_assert_eq!(body.end + tail.len() + length, bytes.len());
        }
    }
}
