//! Long bytes are neither copied when they are decoded nor when they are encoded (M16, M24).

use petasos_message::{DecodeLimits, DynamicMsg, Input, Segment};
use prost_reflect::prost::bytes::Bytes;

use crate::support::{Fixture, encode};

/// `bytes` of a field with a small number.
fn long(number: u8, bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len();
    assert!((128..1 << 14).contains(&len), "a length of two bytes");
    [&[number << 3 | 2, len as u8 | 0x80, (len >> 7) as u8], bytes].concat()
}

#[test]
fn long_bytes_with_an_owner_stay_where_they_are() {
    let fixture = Fixture::text("message M { int32 a = 1; repeated bytes b = 2; int32 c = 3; }");
    let (first, second) = (vec![1; 5000], vec![2; 4096]);
    let short = vec![3; 4095];
    let input = [vec![8, 7], long(2, &first), long(2, &short), long(2, &second), vec![24, 9]];
    let input = Bytes::from(input.concat());
    let plan = fixture.plans.message(fixture.schema.message_by_name("M").unwrap().0);
    let limits = DecodeLimits::for_input(input.len());
    let message = DynamicMsg::from_protobuf(plan, Input::Owned(input.clone()), &limits).unwrap();

    let image = message.to_protobuf(16).unwrap();
    assert_eq!(image.head.len(), 16 + 2 + 3, "what comes before the first");
    let pieces: Vec<_> = image.tail.iter().map(piece).collect();
    let lengths: Vec<_> = pieces.iter().map(|piece| piece.len()).collect();
    assert_eq!(lengths, [5000, 3 + 4095 + 3, 4096, 2]);
    for kept in [pieces[0], pieces[2]] {
        assert!(input.as_ptr_range().contains(&kept.as_ptr()), "not copied");
    }
    assert_eq!(&image.into_buf().as_slice()[16..], input);

    // Without an owner all is copied.
    let message = DynamicMsg::from_protobuf(plan, Input::Borrowed(&input), &limits).unwrap();
    let image = message.to_protobuf(0).unwrap();
    assert!(image.tail.is_empty());
    assert_eq!(image.head.as_slice(), input);
}

/// More leaves than there may be segments.
#[test]
fn what_is_too_much_to_gather_is_copied() {
    let fixture = Fixture::text("message M { int32 a = 1; repeated bytes b = 2; int32 c = 3; }");
    let input: Vec<_> = (0..20).flat_map(|at| long(2, &[at; 4096])).collect();
    let input = Bytes::from(input);
    let plan = fixture.plans.message(fixture.schema.message_by_name("M").unwrap().0);
    let limits = DecodeLimits::for_input(input.len());
    let message = DynamicMsg::from_protobuf(plan, Input::Owned(input.clone()), &limits).unwrap();
    let image = message.to_protobuf(0).unwrap();
    assert!(image.tail.len() <= petasos_message::SEGMENTS_MAX);
    assert_eq!(image.into_buf().as_slice(), input);
}

/// Lengths of messages count what is left out of them, gathered or not.
#[test]
fn long_strings_are_copied_between_leaves_that_are_gathered() {
    let text = "message M { string a = 1; bytes b = 2; M c = 3; string d = 4; int32 e = 5; }";
    let fixture = Fixture::text(text);
    let leaves = |byte| [long(1, &[byte; 4200]), long(2, &[9; 4100]), long(4, &[byte; 4300])];
    let inner = [&leaves(b'i').concat()[..], &[40, 1]].concat();
    let [a, b, d] = leaves(b'o');
    let input = Bytes::from([a, b, long(3, &inner), d, vec![40, 2]].concat());
    let plan = fixture.plans.message(fixture.schema.message_by_name("M").unwrap().0);
    let limits = DecodeLimits::for_input(input.len());
    for (source, pieces) in [(Input::Owned(input.clone()), 4), (Input::Borrowed(&input), 0)] {
        let message = DynamicMsg::from_protobuf(plan, source, &limits).unwrap();
        let image = message.to_protobuf(8).unwrap();
        assert_eq!(image.tail.len(), pieces);
        assert_eq!(&image.into_buf().as_slice()[8..], input);
        assert_eq!(encode(&message), input);
    }
}

fn piece(segment: &Segment) -> &[u8] {
    match segment {
        Segment::Owned(bytes) => bytes,
        Segment::Shared(_) => panic!("it belongs to this process"),
    }
}
