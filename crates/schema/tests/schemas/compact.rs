//! The compact form.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{DecodeError, FORMAT_VERSION, Limits, Schema};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::random::descriptor_set;
use crate::common::{fixture, load, schema};

fn decode(bytes: &[u8]) -> Result<Schema, DecodeError> {
    Schema::decode(bytes, &Limits::default())
}

/// A schema whose bytes are easy to change.
fn small() -> Vec<u8> {
    schema(
        "package p; enum E { Z = 0; N = -1; } message A { E e = 1; oneof o { A a = 2; } \
         map<string, int64> m = 300 [json_name = \"x\"]; repeated bool b = 301; } \
         service S { rpc F(A) returns (stream A) { option idempotency_level = IDEMPOTENT; } }",
    )
    .encode()
}

/// The small schema's bytes as the module's documentation says.
const SMALL: &[&[u8]] = &[
    b"\x01",
    b"\x01\x03p.E\x01\x02\x01\x01N\x00\x01Z",
    b"\x01\x03p.A\x01\x01\x01o\x04",
    b"\x01\x01e\x00\x00\x0e\x00",
    b"\x02\x01a\x00\x05\x00\x0b\x00",
    b"\xac\x02\x01m\x01x\x04\x09\x03",
    b"\xad\x02\x01b\x00\x03\x08",
    b"\x01\x03p.S\x01\x01\x01F\x00\x00\x0a",
];

#[test]
fn the_form_is_as_documented() {
    assert_eq!(small(), SMALL.concat());
    assert_eq!(Schema::default().encode(), [FORMAT_VERSION, 0, 0, 0]);
    assert_eq!(decode(&Schema::default().encode()), Ok(Schema::default()));
}

#[test]
fn a_fixture_comes_back_without_its_sources() {
    let schema = fixture("everything.proto");
    assert_eq!(decode(&schema.encode()), Ok(schema.without_sources()));
}

/// The words about the small schema's bytes after the part `part` became `bytes`.
fn changed(part: usize, bytes: &[u8]) -> String {
    let mut parts = SMALL.to_vec();
    parts[part] = bytes;
    decode(&parts.concat()).unwrap_err().to_string()
}

#[test]
fn versions_are_checked() {
    let expected = "the schema has format version 2, this program reads 1";
    assert_eq!(changed(0, b"\x02"), expected);
}

#[test]
fn every_cut_is_found() {
    let bytes = small();
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "{length}: {error}");
    }
}

#[test]
fn malformed_bytes_are_explained() {
    let cases: &[(usize, &[u8], &str)] = &[
        (7, b"\x01\x03p.S\x01\x01\x01F\x00\x00\x0a\x00", "bytes after the end at byte 67"),
        (7, b"", "the end at byte 55"),
        (7, b"\x01\x03p.S\x01\x01\x01F\x01\x00\x0a", "a reference to nothing at byte 67"),
        (7, b"\x01\x03p.S\x01\x01\x01F\x00\x00\x0c", "unknown flags at byte 67"),
        (
            7,
            b"\x01\x03p.S\x01\x01\x01F\x80\x80\x80\x80\x10\x00\x0a",
            "an index past 32 bits at byte 69",
        ),
        (
            7,
            b"\x01\x03p.S\x01\x02\x01G\x00\x00\x00\x01F\x00\x00\x00",
            "methods that are not sorted at byte 72",
        ),
        (7, b"\x02\x03p.T\x01\x00\x03p.S\x01\x00", "names that are not sorted at byte 68"),
        (7, b"\x01\x03p.S\x02\x00", "a package that ends in a name at byte 61"),
        (7, b"\x01\x03p.S\x09\x00", "a package that ends in a name at byte 61"),
        (7, b"\x01\x7fp.S", "a text past the end at byte 57"),
        (7, b"\x01\x03p.\xff\x01\x00", "text not in UTF-8 at byte 57"),
        (7, b"\x81\x00", "a number with needless bytes at byte 57"),
        (
            7,
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            "a number of more than 64 bits at byte 65",
        ),
        (7, b"\xff\x01", "a list past the end at byte 57"),
        (6, b"\xad\x02\x01b\x00\x06\x08", "an unknown cardinality at byte 54"),
        (6, b"\xad\x02\x01b\x00\x03\x0a", "an unknown type at byte 55"),
        (6, b"\xad\x02\x01b\x01b\x03\x08", "a needless JSON name at byte 54"),
        (6, b"\xad\x02\x01b\x00\x00\x0b\x00", "a message that is always present at byte 56"),
        (6, b"\x80\x80\x80\x80\x10\x01b\x00\x03\x08", "a number past 32 bits at byte 53"),
        (6, b"\x03\x01b\x00\x03\x08", "fields that are not sorted at byte 54"),
        (6, b"\xad\x02\x01b\x00\x03\x0e\x01", "a reference to nothing at byte 68"),
        (6, b"\xad\x02\x01b\x00\x05\x01\x08", "oneofs that are not sorted at byte 56"),
        (1, b"\x01\x03p.E\x01\x02\x00\x01Z\x01\x01N", "values that are not sorted at byte 14"),
        (1, b"\x01\x03p.E\x01\x01\x80\x80\x80\x80\x10\x01Z", "a value past 32 bits at byte 13"),
    ];
    for (part, bytes, expected) in cases {
        assert_eq!(changed(*part, bytes), format!("not a schema: {expected}"), "{bytes:?}");
    }
}

#[test]
fn rules_of_protobuf_hold_here_too() {
    let cases: &[(usize, &[u8], &str)] = &[
        (1, b"\x01\x03p.A\x01\x01\x00\x01Z", "in `p.A`: `p.A` is declared twice: rename one"),
        (
            1,
            b"\x01\x03p.E\x01\x00",
            "in `p.E`: enum `p.E` does not begin with zero: proto3 wants a first value of 0",
        ),
        (
            1,
            b"\x01\x03p..\x01\x01\x00\x01Z",
            "in `p..`: `` is not an identifier: use letters, digits and `_`, no digit first",
        ),
        (
            6,
            b"\xac\x02\x01b\x00\x03\x08",
            "in `p.A`: `m` and `b` have the number 300: give one another",
        ),
        (
            6,
            b"\xad\x02\x01b\x00\x03\x09",
            "in `p.A`: field `b` is packed, but only repeated numbers, bools and enums can be",
        ),
        (
            6,
            b"\xad\x02\x01b\x00\x04\x0b\x00\x08",
            "in `p.A`: map `b` has keys that are not integers, bools or strings",
        ),
        (
            4,
            b"\x02\x01a\x00\x01\x0b\x00",
            "in `p.A`: oneof `o` has no fields: remove it or add one",
        ),
        (
            7,
            b"\x01\x03p.S\x01\x01\x01-\x00\x00\x00",
            "in `p.S`: `-` is not an identifier: use letters, digits and `_`, no digit first",
        ),
        (
            7,
            b"\x01\x03p.S\x01\x02\x01F\x00\x00\x00\x01F\x00\x00\x00",
            "in `p.S`: `F` is used twice in this declaration: rename one",
        ),
    ];
    for (part, bytes, expected) in cases {
        assert_eq!(changed(*part, bytes), *expected);
    }
}

#[test]
fn limits_hold() {
    let words = |limits| Schema::decode(&small(), &limits).unwrap_err().to_string();
    let generous = Limits::default();
    let advice = "raise the limit if this is meant";
    // One message, enum, service, oneof and method, two values, four fields.
    assert!(Schema::decode(&small(), &Limits { elements_max: 11, ..generous }).is_ok());
    assert_eq!(
        words(Limits { elements_max: 10, ..generous }),
        format!("the schema has more than 10 elements: {advice}")
    );
    assert_eq!(
        words(Limits { bytes_max: 61, ..generous }),
        format!("the schema has more than 61 bytes: {advice}")
    );
    assert_eq!(
        words(Limits { cycle_steps_max: 0, ..generous }),
        format!("the schema has more than 0 steps for one cycle: {advice}")
    );
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn random_schemas_come_back(set in descriptor_set()) {
        let schema = load(&set).unwrap();
        let bytes = schema.encode();
        prop_assert_eq!(decode(&bytes), Ok(schema.without_sources()));
    }

    #[test]
    fn the_order_of_declaration_cannot_be_told(set in descriptor_set()) {
        let bytes = load(&set).unwrap().encode();
        let mut reversed = set;
        for message in &mut reversed.file[0].message_type {
            message.field.reverse();
            message.nested_type.reverse();
        }
        reversed.file[0].message_type.reverse();
        reversed.file[0].enum_type.reverse();
        reversed.file[0].service[0].method.reverse();
        prop_assert_eq!(load(&reversed).unwrap().encode(), bytes);
    }

    #[test]
    fn any_bytes_give_a_schema_or_an_error(mut bytes in vec(any::<u8>(), 1..200)) {
        let _ = decode(&bytes);
        bytes[0] = FORMAT_VERSION;
        let _ = decode(&bytes);
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_another_schemas_only_form(
        set in descriptor_set(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = load(&set).unwrap().encode();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(schema) = decode(&bytes) {
            prop_assert_eq!(schema.encode(), bytes);
        }
    }
}
