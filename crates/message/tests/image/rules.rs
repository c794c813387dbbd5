//! The rules of M26, one by one, on images small enough to write by hand.

use petasos_message::{CompactError, DEPTH_MAX, DecodeError, Outside};

use super::source::Region;
use super::{Fixture, bytes};

/// An image of these words behind the header.
fn image(words: &[u64]) -> Vec<u8> {
    let header = (words.len() as u64 * 8 + 8) | 1 << 32;
    [header].iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

/// What becomes of an image that is received, and of the same in somebody's memory.
fn judge(fixture: &Fixture, words: &[u64]) -> (Result<(), DecodeError>, Option<CompactError>) {
    let image = image(words);
    let copy = fixture.compact(&Region(&image)).map(bytes);
    if let Ok(copy) = &copy {
        assert_eq!(fixture.validate(copy), Ok(()));
    }
    (fixture.validate(&image), copy.err())
}

const GOOD: (Result<(), DecodeError>, Option<CompactError>) = (Ok(()), None);
const BAD: (Result<(), DecodeError>, Option<CompactError>) =
    (Err(DecodeError::Malformed), Some(CompactError::Malformed));
const OUTSIDE: (Result<(), DecodeError>, Option<CompactError>) =
    (Err(DecodeError::Malformed), Some(CompactError::Outside(Outside)));
/// Only an image has a place or a budget; a copy has its own.
const MENDED: (Result<(), DecodeError>, Option<CompactError>) = (Err(DecodeError::Malformed), None);

#[test]
fn m20_the_header_says_how_long_the_image_is() {
    let fixture = Fixture::new("message M { int64 a = 1; }");
    let good = image(&[0, 7]);
    assert_eq!(fixture.validate(&good), Ok(()));
    let with = |at: usize, value: u8| {
        let mut image = good.clone();
        image.resize(200, 0);
        image[at] = value;
        fixture.validate(&image)
    };
    assert_eq!([with(0, 24), with(0, 32), with(0, 200)], [Ok(()); 3]);
    assert_eq!([with(0, 16), with(0, 25), with(0, 8), with(0, 0)], [BAD.0; 4]);
    assert_eq!(with(0, 208), Err(DecodeError::Truncated));
    assert_eq!(with(3, 0x10), Err(DecodeError::TooLarge));
    for at in 4..8 {
        assert_eq!(with(at, 2), BAD.0);
    }
    assert_eq!(fixture.validate(&good[..7]), Err(DecodeError::Truncated));
    assert_eq!(fixture.validate(&[]), Err(DecodeError::Truncated));
}

#[test]
fn m26_2_pointers_lead_to_whole_objects_within_the_image() {
    let fixture = Fixture::new("message M { bytes a = 1; }");
    let blob = |distance: i64, len: u64| judge(&fixture, &[0, distance as u64, len, 5, 6]);
    assert_eq!([blob(16, 16), blob(16, 9), blob(-8, 8), blob(0, 0)], [GOOD; 4]);
    assert_eq!(blob(i64::MIN, 0), GOOD, "what is empty may point anywhere");
    assert_eq!([blob(16, 17), blob(24, 9), blob(32, 1)], [OUTSIDE; 3]);
    assert_eq!([blob(1 << 40, 1), blob(i64::MIN, 1), blob(-24, 8)], [OUTSIDE; 3]);
    assert_eq!(blob(16, u64::from(u32::MAX)).0, BAD.0);
    assert_eq!(blob(0, 1), BAD, "0 is no target");
    assert_eq!([blob(20, 1), blob(17, 8), blob(-16, 8)], [MENDED; 3]);
}

#[test]
fn m13_a_copy_has_nothing_of_what_was_overwritten() {
    let fixture = Fixture::new("message M { bytes a = 1; string b = 2; repeated int32 c = 3; }");
    // Two empty parts, and a string of one byte that had room for more; remains in all of them.
    let words = [0, 99, 7 << 32, 32, 0x5ec7 << 32 | 1, 77, 9 << 32, 0x5ec7_e741, 0x5ec7_e7c7];
    let image = image(&words);
    let copy = bytes(fixture.compact(&Region(&image)).unwrap());
    assert_eq!(copy, self::image(&[0, 0, 0, 32, 1 << 32 | 1, 0, 0, 0x41]));
}

#[test]
fn m26_3_objects_are_paid_for_once_for_each_part() {
    let fixture = Fixture::new("message M { repeated bytes a = 1; }");
    // A list of `n` blobs, all of which are the first `bytes` of the last `words` words.
    let alias_bytes = |n: usize, words: usize, bytes: usize| {
        let mut image = vec![0, 16, n as u64];
        for index in 0..n {
            image.extend([(16 * (n - index)) as u64, bytes as u64]);
        }
        image.extend(vec![9; words]);
        judge(&fixture, &image)
    };
    let aliases = |n: usize, words: usize| alias_bytes(n, words, 8 * words);
    assert_eq!([aliases(1, 10), aliases(2, 3), aliases(4, 1)], [GOOD; 3]);
    assert_eq!([alias_bytes(4, 1, 1), alias_bytes(5, 1, 1)], [GOOD, MENDED], "paid in words");
    // Twice four words: one more than the root's three, which need not be paid for.
    assert_eq!([aliases(2, 4), aliases(20, 1)], [MENDED; 2]);
}

#[test]
fn m26_3_structs_that_lead_to_each_other_cost_no_more_than_the_image() {
    let fixture = Fixture::new("message M { M a = 1; M b = 2; }");
    // Both links of each struct lead to the next: 2^100 paths.
    let words: Vec<u64> = (0..100).flat_map(|_| [0, 16, 8]).chain([0, 0, 0]).collect();
    assert_eq!(judge(&fixture, &words).0, BAD.0);
    // A link back to its own struct, and a list of itself.
    assert_eq!(judge(&fixture, &[0, (-8i64) as u64, 0]).0, BAD.0);
    let fixture = Fixture::new("message M { repeated M a = 1; }");
    assert_eq!(judge(&fixture, &[0, (-8i64) as u64, 1]).0, BAD.0);
}

#[test]
fn m26_4_messages_nest_so_deep_and_no_deeper() {
    for declarations in [
        "message M { M a = 1; }",
        "message M { repeated M a = 1; }",
        "message M { map<int32, M> a = 1; }",
        "message M { oneof o { M a = 1; } }",
    ] {
        let fixture = Fixture::new(declarations);
        let nested = |levels: u32| {
            let part: &[u64] = match declarations {
                "message M { M a = 1; }" => &[0, 8],
                "message M { repeated M a = 1; }" => &[0, 16, 1],
                "message M { map<int32, M> a = 1; }" => &[0, 16, 1, 0],
                _ => &[0, 1, 16, 0],
            };
            let mut words: Vec<u64> = (0..levels).flat_map(|_| part.iter().copied()).collect();
            words.extend([0; 4]);
            let image = image(&words);
            (fixture.validate(&image), fixture.compact(&Region(&image)).map(bytes).err())
        };
        assert_eq!(nested(DEPTH_MAX), GOOD, "{declarations}");
        let too_deep = (Err(DecodeError::TooDeep), Some(CompactError::TooDeep));
        assert_eq!(nested(DEPTH_MAX + 1), too_deep, "{declarations}");
    }
}

#[test]
fn m26_5_bools_strings_and_cases_have_values_that_are_none() {
    let flag = Fixture::new("message M { bool a = 1; }");
    assert_eq!([0, 1, 1 << 8, 255 << 56].map(|word| judge(&flag, &[0, word])), [GOOD; 4]);
    assert_eq!([2, 255].map(|word| judge(&flag, &[0, word])), [BAD; 2]);
    let flags = Fixture::new("message M { repeated bool a = 1; }");
    assert_eq!([1, 1 << 16].map(|word| judge(&flags, &[0, 16, 3, word])), [GOOD; 2]);
    assert_eq!([2, 2 << 16].map(|word| judge(&flags, &[0, 16, 3, word])), [BAD; 2]);
    assert_eq!(judge(&flags, &[0, 16, 2, 2 << 16]), GOOD, "gaps may be anything");
    let utf8 = (Err(DecodeError::Utf8), Some(CompactError::Utf8));
    let text = Fixture::new("message M { string a = 1; }");
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    assert_eq!(judge(&text, &[0, 16, 8, word(b"gr\xc3\xbc\xc3\x9fen")]), GOOD);
    assert_eq!(judge(&text, &[0, 16, 5, word(b"gr\xc3\xbc\xc3\x9fen")]), utf8);
    let texts = Fixture::new("message M { repeated string a = 1; }");
    assert_eq!(judge(&texts, &[0, 16, 1, 16, 1, 0xff]), utf8);
    let one = Fixture::new("message M { oneof o { bool a = 3; string b = 5; int64 c = 9; } }");
    let case = |case: u64, first: u64| judge(&one, &[0, case, first, 1, 0]);
    assert_eq!([case(0, 99), case(3, 1), case(3, 1 << 8), case(9, 99), case(5, 16)], [GOOD; 5]);
    assert_eq!([case(1, 0), case(4, 0), case(10, 0), case(3, 2), case(5, 0)], [BAD; 5]);
    assert_eq!(case(5, 160), OUTSIDE);
}

/// Found by fuzzing: readers follow the pointer of the case without a look, and one of 0 leads to
/// itself, so that whatever lay there was taken for the message.
#[test]
fn m26_5_a_case_that_is_a_message_has_one() {
    let fixture = Fixture::new(
        "message M { oneof o { N a = 3; int64 b = 4; } } message N { string text = 1; }",
    );
    // The case, its pointer, the rest of the value; then an empty `N`.
    let image = |case: u64, distance: u64| [0, case, distance, 0, 0, 0, 0];
    assert_eq!(judge(&fixture, &image(3, 16)), GOOD);
    assert_eq!(judge(&fixture, &image(4, 0)), GOOD);
    assert_eq!(judge(&fixture, &image(3, 0)), BAD);
}

#[test]
fn m26_5_a_field_without_its_bit_is_zero() {
    for (kind, zero, other) in [
        ("int32", [0, 0], [1 << 32, 0]),
        ("bool", [0, 0], [1 << 32, 0]),
        ("double", [0, 0], [1 << 63, 0]),
    ] {
        let fixture = Fixture::new(&format!("message M {{ optional {kind} a = 1; }}"));
        let words = |present: u64, [first, _]: [u64; 2]| match kind {
            "double" => vec![0, first, present],
            _ => vec![0, present | first],
        };
        let judged = |present, value| judge(&fixture, &words(present, value));
        assert_eq!([judged(0, zero), judged(1, zero), judged(1, other)], [GOOD; 3], "{kind}");
        assert_eq!([judged(0, other), judged(2, zero), judged(1 << 31, zero)], [BAD; 3], "{kind}");
    }
    for kind in ["string", "bytes"] {
        let fixture = Fixture::new(&format!("message M {{ optional {kind} a = 1; }}"));
        assert_eq!(judge(&fixture, &[0, 99, 0, 0]), GOOD);
        assert_eq!(judge(&fixture, &[0, 16, 1, 1]), GOOD);
        assert_eq!(judge(&fixture, &[0, 16, 1, 0]), BAD);
    }
    let many: String = (1..=32).map(|n| format!("optional bool a{n} = {n};")).collect();
    let full = Fixture::new(&format!("message M {{ {many} }}"));
    assert_eq!(judge(&full, &[0, 0xffff_ffff, 0, 0, 0, 0]), GOOD, "no bit is spare");
}

#[test]
fn m8_m26_5_entries_ascend() {
    let map = |kind: &str| Fixture::new(&format!("message M {{ map<{kind}, bool> a = 1; }}"));
    let small = |fixture: &Fixture, keys: [u32; 2]| {
        judge(fixture, &[0, 16, 2, u64::from(keys[0]), u64::from(keys[1]) | 1 << 32])
    };
    let (minus, most) = (-1i32 as u32, i32::MAX as u32);
    for kind in ["int32", "sint32", "sfixed32"] {
        let map = map(kind);
        let pairs = [[minus, 0], [0, most], [1 << 31, minus]];
        assert_eq!(pairs.map(|keys| small(&map, keys)), [GOOD; 3], "{kind}");
        assert_eq!([[0, minus], [5, 5], [2, 1]].map(|keys| small(&map, keys)), [BAD; 3], "{kind}");
    }
    for kind in ["uint32", "fixed32"] {
        let map = map(kind);
        assert_eq!([[0, minus], [most, 1 << 31]].map(|keys| small(&map, keys)), [GOOD; 2]);
        assert_eq!([[minus, 0], [5, 5]].map(|keys| small(&map, keys)), [BAD; 2]);
    }
    let flags = map("bool");
    assert_eq!(judge(&flags, &[0, 16, 2, 0, 1]), GOOD);
    assert_eq!([[1, 0], [1, 1], [0, 2]].map(|[a, b]| judge(&flags, &[0, 16, 2, a, b])), [BAD; 3]);
    let long =
        |fixture: &Fixture, [a, b]: [i64; 2]| judge(fixture, &[0, 16, 2, a as u64, 1, b as u64, 0]);
    for kind in ["int64", "sint64", "sfixed64"] {
        assert_eq!(long(&map(kind), [i64::MIN, -1]), GOOD);
        assert_eq!(long(&map(kind), [1, -1]), BAD);
    }
    for kind in ["uint64", "fixed64"] {
        assert_eq!(long(&map(kind), [1, -1]), GOOD);
        assert_eq!(long(&map(kind), [-1, 1]), BAD);
    }
    let texts = map("string");
    let two = |lens: [u64; 2], words: [&[u8; 8]; 2]| {
        let [a, b] = words.map(|word| u64::from_le_bytes(*word));
        judge(&texts, &[0, 16, 2, 48, lens[0], 1, 32, lens[1], 0, a, b])
    };
    let [short, long, other] = [b"ab\0\0\0\0\0\0", b"abc\0\0\0\0\0", b"b\0\0\0\0\0\0\0"];
    assert_eq!(two([2, 3], [short, long]), GOOD);
    assert_eq!([two([3, 1], [long, other]), two([0, 1], [long, other])], [GOOD; 2]);
    assert_eq!([two([2, 2], [short, long]), two([3, 2], [long, short])], [BAD; 2]);
    assert_eq!([two([1, 0], [other, long]), two([0, 0], [other, long])], [BAD; 2]);
}
