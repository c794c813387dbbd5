//! Requests and responses as bytes (K17 to K19).

use petasos_kv::{
    Operation, REQUEST_HEADER_BYTES, RESPONSE_HEADER_BYTES, Request, Response, Status,
};
use proptest::prelude::*;

const OPERATIONS: [Operation; 11] = [
    Operation::Get,
    Operation::Set,
    Operation::Delete,
    Operation::CompareAndSet,
    Operation::Add,
    Operation::Replace,
    Operation::Append,
    Operation::Prepend,
    Operation::AddNumber,
    Operation::Touch,
    Operation::GetAndTouch,
];

#[test]
fn k17_a_request_has_these_bytes() {
    let request = Request {
        operation: Operation::CompareAndSet,
        without_value: true,
        flags: 0x1234,
        expiry_ms: 0x0102_0304_0506,
        operand: 0x1122_3344_5566_7788,
        key: b"key",
        value: b"value",
    };
    let mut expected = vec![4, 1, 3, 0, 5, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0x34, 0x12];
    expected.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    expected.extend(b"keyvalue");
    assert_eq!(request.to_vec(), expected);
    assert_eq!(Request::parse(&expected), Ok(request));
}

#[test]
fn k17_fields_that_an_operation_does_not_have_are_0() {
    let with = |operation, change: fn(&mut Request<'_>)| {
        let mut request = Request::new(operation, b"key");
        change(&mut request);
        Request::parse(&request.to_vec()).map(|_| ())
    };
    let writes = [1, 3, 4, 5].map(|at| OPERATIONS[at]);
    let operand = [3, 8].map(|at| OPERATIONS[at]);
    for operation in OPERATIONS {
        let is = |of: &[Operation]| match of.contains(&operation) {
            true => Ok(()),
            false => Err(Status::Malformed),
        };
        let timed = [&writes[..], &[Operation::Touch, Operation::GetAndTouch]].concat();
        let valued = [&writes[..], &[Operation::Append, Operation::Prepend]].concat();
        assert_eq!(with(operation, |request| request.flags = 1), is(&writes));
        assert_eq!(with(operation, |request| request.expiry_ms = 1), is(&timed));
        assert_eq!(with(operation, |request| request.operand = 1), is(&operand));
        assert_eq!(with(operation, |request| request.value = b"v"), is(&valued));
        assert_eq!(with(operation, |request| request.without_value = true), Ok(()));
    }
}

/// K1: and nothing else is looked at.
#[test]
fn k17_lengths_are_those_of_keys_and_values() {
    let parse = |key: &[u8], value: &[u8]| Request::parse(&Request::set(key, value).to_vec()).err();
    assert_eq!(parse(b"", b""), Some(Status::TooLong));
    assert_eq!(parse(&[1; 1024], b""), None);
    assert_eq!(parse(&[1; 1025], b""), Some(Status::TooLong));
    assert_eq!(parse(&[1; 1024], &vec![1; 1 << 20]), None);
    assert_eq!(parse(b"k", &vec![1; (1 << 20) + 1]), Some(Status::TooLong));
    let whole = Request::set(b"key", b"value").to_vec();
    for len in 0..whole.len() {
        assert_eq!(Request::parse(&whole[..len]), Err(Status::Malformed), "{len}");
    }
    assert_eq!(Request::parse(&[&whole[..], b"x"].concat()), Err(Status::Malformed));
    for code in [0, 12, 255] {
        let strange = [&[code], &whole[1..]].concat();
        assert_eq!(Request::parse(&strange), Err(Status::Malformed));
    }
}

#[test]
fn k18_a_response_has_these_bytes() {
    let bytes = [2, 0, 0x34, 0x12, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c'];
    let response =
        Response { status: Status::Present, flags: 0x1234, stamp: 9, value: &b"abc"[..] };
    assert_eq!(Response::parse(&bytes), Ok(response));
    for len in 0..bytes.len() {
        assert!(Response::parse(&bytes[..len]).is_err(), "{len}");
    }
    assert!(Response::parse(&[&bytes[..], b"x"].concat()).is_err());
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        Response::parse(&bytes).map(|response| response.status)
    };
    assert!(with(1, 1).is_err());
    assert_eq!(with(0, 9), Ok(Status::NotReached));
    assert!(with(0, 10).is_err());
}

fn requests() -> impl Strategy<Value = (usize, bool, u16, u64, u64, Vec<u8>, Vec<u8>)> {
    let key = proptest::collection::vec(any::<u8>(), 1..100);
    let value = proptest::collection::vec(any::<u8>(), 0..300);
    (0..11usize, any::<bool>(), any::<u16>(), 0..1u64 << 48, any::<u64>(), key, value)
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// K17.
    #[test]
    fn k17_what_is_read_was_written(fields in requests()) {
        let (at, without_value, flags, expiry_ms, operand, key, value) = fields;
        let operation = OPERATIONS[at];
        let (key, value) = (&key[..], &value[..]);
        let request = Request { operation, without_value, flags, expiry_ms, operand, key, value };
        let bytes = request.to_vec();
        if let Ok(read) = Request::parse(&bytes) {
            prop_assert_eq!(read, request);
        }
        let plain = Request::new(operation, key);
        let bytes = plain.to_vec();
        prop_assert_eq!(Request::parse(&bytes), Ok(plain));
    }

    /// Anything is read without a panic, and what is read is written as it was.
    #[test]
    fn k17_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = Request::parse(&bytes) {
            prop_assert!(bytes.len() > REQUEST_HEADER_BYTES);
            prop_assert_eq!(request.to_vec(), &bytes[..]);
        }
        if let Ok(response) = Response::parse(&bytes) {
            prop_assert_eq!(response.value.len() + RESPONSE_HEADER_BYTES, bytes.len());
        }
    }
}
