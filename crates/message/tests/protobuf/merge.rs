//! What M29 and M31 say of single records, byte by byte.

use petasos_message::DecodeError;

use crate::support::{Fixture, delimited, record};

fn fixture() -> Fixture {
    Fixture::text(
        "message M {
            int32 a = 1; string b = 2; bytes c = 3; M d = 4; repeated int32 e = 5;
            repeated int32 f = 6 [packed = false]; repeated string g = 7; repeated M h = 8;
            map<int32, string> i = 9; oneof o { int32 j = 10; M k = 11; string l = 12; }
            optional int32 m = 13; double n = 14; bool p = 15; map<string, M> q = 16;
            sint32 r = 17; repeated fixed32 s = 18; fixed64 far = 536870911; uint32 t = 20000;
            repeated double u = 19;
        }",
    )
}

/// That `input` is decoded and encoded as `output`.
#[track_caller]
fn check(input: &[u8], output: &[u8]) {
    assert_eq!(fixture().recode("M", input).as_deref(), Ok(output));
}

#[track_caller]
fn refuse(input: &[u8], error: DecodeError) {
    assert_eq!(fixture().recode("M", input), Err(error));
}

#[test]
fn the_last_of_several_single_values_wins() {
    check(&[0x08, 1, 0x08, 2], &[0x08, 2]);
    check(&[0x08, 1, 0x08, 0], &[]);
    check(&record(&[&delimited(2, b"one"), &delimited(2, b"two")]), &delimited(2, b"two"));
    check(&record(&[&delimited(2, b"one"), &delimited(2, b"")]), &[]);
    check(&record(&[&delimited(3, b"one"), &delimited(3, b"longer")]), &delimited(3, b"longer"));
}

#[test]
fn a_single_message_that_comes_again_is_merged() {
    let input = record(&[
        &delimited(4, &[0x08, 1, 0x28, 7]),
        &delimited(2, b"x"),
        &delimited(4, &[0x68, 5, 0x28, 8]),
    ]);
    let merged = delimited(4, &[0x08, 1, 0x2a, 2, 7, 8, 0x68, 5]);
    check(&input, &record(&[&delimited(2, b"x"), &merged]));
}

#[test]
fn a_member_of_a_oneof_replaces_another_and_merges_with_itself() {
    check(&[0x50, 1, 0x62, 1, b'x'], &[0x62, 1, b'x']);
    check(&[0x62, 1, b'x', 0x50, 0], &[0x50, 0]);
    let (one, two) = (delimited(11, &[0x08, 1]), delimited(11, &[0x68, 5]));
    check(&record(&[&one, &two]), &delimited(11, &[0x08, 1, 0x68, 5]));
    check(&record(&[&one, &[0x50, 3], &two]), &two);
    check(&delimited(11, &[]), &delimited(11, &[]));
}

#[test]
fn presence_is_kept_where_there_is_one() {
    check(&[0x68, 0], &[0x68, 0]);
    check(&[0x68, 1, 0x68, 0], &[0x68, 0]);
    check(&[0x08, 0, 0x78, 0, 0x12, 0, 0x1a, 0], &[]);
    check(&delimited(4, &[]), &delimited(4, &[]));
    let minus_zero = record(&[&[0x71], &(-0.0f64).to_le_bytes()]);
    check(&minus_zero, &minus_zero);
    check(&record(&[&[0x71], &0f64.to_le_bytes()]), &[]);
}

#[test]
fn repeated_numbers_are_taken_packed_and_unpacked() {
    let packed = delimited(5, &[1, 2, 3, 4]);
    check(&packed, &packed);
    check(&[0x28, 1, 0x28, 2, 0x28, 3, 0x28, 4], &packed);
    check(&[0x28, 1, 0x2a, 2, 2, 3, 0x2a, 0, 0x28, 4], &packed);
    check(&delimited(6, &[1, 2]), &[0x30, 1, 0x30, 2]);
    check(&[0x30, 1, 0x08, 9, 0x30, 2], &[0x08, 9, 0x30, 1, 0x30, 2]);
    let fixed = record(&[&[0x92, 1, 8], &7u32.to_le_bytes(), &9u32.to_le_bytes()]);
    check(&fixed, &fixed);
    let single = |value: u32| record(&[&[0x95, 1], &value.to_le_bytes()]);
    check(&record(&[&single(7), &single(9)]), &fixed);
}

#[test]
fn lists_that_come_in_pieces_are_joined() {
    let mut input = Vec::new();
    let (mut names, mut messages) = (Vec::new(), Vec::new());
    for at in 0..100u8 {
        let name = delimited(7, &vec![b'x'; usize::from(at % 3)]);
        let inner = record(&[&delimited(2, &[b'a' + at % 20]), &delimited(9, &[0x08, at])]);
        let message = delimited(8, &inner);
        input.extend(record(&[&name, &message]));
        names.extend(name);
        let inner = record(&[&delimited(2, &[b'a' + at % 20]), &[0x4a, 4, 0x08, at, 0x12, 0]]);
        messages.extend(delimited(8, &inner));
    }
    check(&input, &record(&[&names, &messages]));
}

#[test]
fn maps_are_sorted_and_the_last_of_equal_keys_wins_whole() {
    let entry =
        |key: u8, value: &[u8]| delimited(9, &record(&[&[0x08, key], &delimited(2, value)]));
    check(
        &record(&[&entry(3, b"c"), &entry(1, b"a"), &entry(3, b"x"), &entry(2, b"b")]),
        &record(&[&entry(1, b"a"), &entry(2, b"b"), &entry(3, b"x")]),
    );
    // Between other records, and with halves missing.
    check(
        &record(&[&entry(2, b"b"), &[0x08, 1], &delimited(9, &[0x08, 2]), &delimited(9, &[])]),
        &record(&[&[0x08, 1], &entry(0, b""), &entry(2, b"")]),
    );
    let message = |key: &[u8], value: &[u8]| {
        let entry = record(&[&delimited(1, key), &delimited(2, value)]);
        record(&[&[0x82, 1, entry.len() as u8], &entry])
    };
    check(
        &record(&[&message(b"b", &[0x08, 1]), &message(b"a", &[]), &message(b"b", &[0x68, 2])]),
        &record(&[&message(b"a", &[]), &message(b"b", &[0x68, 2])]),
    );
    // Within one entry, a message that comes again is merged.
    let twice =
        record(&[&delimited(1, b"k"), &delimited(2, &[0x08, 1]), &delimited(2, &[0x68, 2])]);
    check(&record(&[&[0x82, 1, twice.len() as u8], &twice]), &message(b"k", &[0x08, 1, 0x68, 2]));
}

#[test]
fn maps_that_are_merged_through_a_message_are_sorted_once_for_all() {
    let mut input = Vec::new();
    let mut entries = Vec::new();
    for key in (1..100u8).rev() {
        let entry = delimited(9, &[0x08, key, 0x12, 1, key]);
        input.extend(delimited(4, &entry));
        entries.splice(0..0, entry);
    }
    let output = record(&[&[0x22, (entries.len() & 0x7f) as u8 | 0x80], &[5], &entries]);
    assert_eq!(entries.len() >> 7, 5);
    check(&input, &output);
}

#[test]
fn unknown_records_are_kept_in_order_behind_the_known() {
    let unknown = [
        &[0xa0, 1, 5][..],
        &[0xa1, 1, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0xa2, 1, 2, 9, 9],
        &[0xa3, 1, 0x08, 1, 0x13, 0x14, 0xa4, 1],
        &[0xa5, 1, 1, 2, 3, 4],
    ];
    let mut input = Vec::new();
    for record in unknown {
        input.extend_from_slice(record);
        input.extend([0x08, 7]);
    }
    check(&input, &record(&[&[0x08, 7], &unknown.concat()]));
    // A known number with a wrong wire type is unknown, in entries too, but those go.
    check(&[0x0a, 1, 5, 0x10, 6], &[0x0a, 1, 5, 0x10, 6]);
    check(&delimited(4, &[0x0d, 1, 2, 3, 4]), &delimited(4, &[0x0d, 1, 2, 3, 4]));
    check(&delimited(9, &[0x0a, 0, 0x18, 3]), &delimited(9, &[0x08, 0, 0x12, 0]));
}

#[test]
fn numbers_of_any_length_are_found() {
    let far = record(&[&[0xf9, 0xff, 0xff, 0xff, 0x0f], &8u64.to_le_bytes()]);
    check(&far, &far);
    check(&[0x80, 0xe2, 0x09, 3], &[0x80, 0xe2, 0x09, 3]);
    check(&record(&[&far, &[0x80, 0xe2, 0x09, 3]]), &record(&[&[0x80, 0xe2, 0x09, 3], &far]));
    // A tag that is longer than it needs to be.
    check(&[0x88, 0x80, 0, 3], &[0x08, 3]);
}

#[test]
fn varints_are_cut_to_their_fields() {
    let mut long = vec![0x08];
    long.extend([0xff; 9]);
    check(&record(&[&long, &[1]]), &record(&[&long, &[1]]));
    check(&record(&[&[0x08], &[0x85, 0x80, 0x80, 0x80, 0x70]]), &[0x08, 5]);
    check(&[0x78, 0x80, 0x80, 0x80, 0x80, 0x80, 1], &[0x78, 1]);
    check(&[0x88, 1, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0x88, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    long.extend([0x80]);
    refuse(&record(&[&long, &[1]]), DecodeError::Malformed);
}

#[test]
fn what_is_malformed_is_refused() {
    for bytes in [&[0x00, 0][..], &[0x07], &[0x06, 0], &[0x0c], &[0x0b, 0x14], &[0x14]] {
        refuse(bytes, DecodeError::Malformed);
    }
    refuse(&[0x0b, 0x08], DecodeError::Truncated);
    refuse(&[0x12, 1, 0xff], DecodeError::Utf8);
    refuse(&delimited(7, &[0xc0, 0x80]), DecodeError::Utf8);
    refuse(&delimited(9, &delimited(2, &[0x80])), DecodeError::Utf8);
    refuse(&[0x62, 1, 0xff], DecodeError::Utf8);
    // A number that reaches past its record.
    refuse(&[0x22, 2, 0x08, 0x80, 0x01, 0x08, 1], DecodeError::Truncated);
    refuse(&[0x2a, 1, 0x80, 0x01], DecodeError::Truncated);
    refuse(&record(&[&[0x92, 1, 5], &[0; 5]]), DecodeError::Truncated);
    refuse(&[0x22, 2, 0x12, 1, b'x'], DecodeError::Truncated);
}
