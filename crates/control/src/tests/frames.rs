//! Cutting the stream into frames.

use proptest::prelude::*;

use super::strategies;
use crate::*;

#[test]
fn c1_a_hostile_length_is_refused_at_its_header() {
    for (length, refused) in [(4092u16, false), (4093, true), (u16::MAX, true)] {
        let [low, high] = length.to_le_bytes();
        let mut input: &[u8] = &[low, high, 6, 0];
        let result = Deframer::new().next_frame(&mut input).map(|frame| frame.is_some());
        let expected = if refused { Err(Malformed::Oversize(length)) } else { Ok(false) };
        assert_eq!(result, expected, "{length} bytes");
    }
}

#[test]
fn c1_the_longest_frame_passes() {
    let mut bytes = vec![0xfc, 0x0f, 77, 1];
    bytes.resize(FRAME_BYTES_MAX, 9);
    let mut deframer = Deframer::new();
    let mut input = bytes.as_slice();
    let frame = deframer.next_frame(&mut input).unwrap().unwrap();
    assert_eq!((frame.kind, frame.skippable, frame.body.len()), (77, true, BODY_BYTES_MAX));
}

#[test]
fn c2_a_reserved_flag_is_refused() {
    for flags in [2u8, 0x80, 0xff] {
        let mut input: &[u8] = &[0, 0, 8, flags];
        assert_eq!(Deframer::new().next_frame(&mut input), Err(Malformed::ReservedFlag));
    }
}

proptest! {
    #[test]
    fn c1_the_stream_may_be_cut_anywhere(
        messages in proptest::collection::vec(strategies::message(), 1..8),
        cuts in proptest::collection::vec(1usize..40, 1..20),
    ) {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut bytes));
        let mut deframer = Deframer::new();
        let mut received = Vec::new();
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, after) = rest.split_at(rest.len().min(*cut));
            rest = after;
            while let Some(frame) = deframer.next_frame(&mut piece).unwrap() {
                received.push(Message::decode(frame.kind, frame.body).unwrap());
            }
            prop_assert!(piece.is_empty());
        }
        prop_assert_eq!(received, messages);
    }
}
