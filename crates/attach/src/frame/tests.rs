use proptest::prelude::*;

use super::*;

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, |out| out.extend_from_slice(body));
    out
}

#[test]
fn d1_a_hostile_length_is_refused_before_a_byte_of_the_body_is_kept() {
    let mut deframer = Deframer::default();
    let mut input = &[0xfd, 0x0f, 1, 0, 7, 7][..];
    assert_eq!(deframer.next_frame(&mut input), Err(Malformed::Oversize(4093)));
    assert_eq!(input, [7, 7]);
    let mut deframer = Deframer::default();
    assert_eq!(deframer.next_frame(&mut &[0xff, 0xff, 1, 0][..]), Err(Malformed::Oversize(65535)));
    assert!(deframer.buffer.capacity() < 64);
}

#[test]
fn d1_version_1_has_no_flags() {
    for flags in [1, 0x80, 0xff] {
        let mut deframer = Deframer::default();
        assert_eq!(deframer.next_frame(&mut &[0, 0, 1, flags][..]), Err(Malformed::Flags));
    }
}

#[test]
fn d1_a_frame_has_begun_until_its_last_byte_has_come() {
    let bytes = frame(3, &[1, 2, 3]);
    let mut deframer = Deframer::default();
    assert!(!deframer.is_within_frame());
    for byte in &bytes[..6] {
        assert_eq!(deframer.next_frame(&mut &[*byte][..]), Ok(None));
        assert!(deframer.is_within_frame());
    }
    let last = deframer.next_frame(&mut &bytes[6..]).map(|frame| frame.map(|frame| frame.kind));
    assert_eq!(last, Ok(Some(3)));
    assert!(!deframer.is_within_frame());
}

proptest! {
    #[test]
    fn d1_frames_are_found_however_they_are_cut(
        frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..99)),
            0..8),
        cuts in prop::collection::vec(1..40usize, 1..40),
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, body)| frame(*kind, body)).collect();
        let (mut deframer, mut found, mut rest) = (Deframer::default(), Vec::new(), &bytes[..]);
        for cut in cuts.iter().cycle() {
            let (mut input, after) = rest.split_at((*cut).min(rest.len()));
            while !input.is_empty() {
                if let Some(frame) = deframer.next_frame(&mut input).expect("they are frames") {
                    found.push((frame.kind, frame.body.to_vec()));
                }
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found, frames);
    }

    #[test]
    fn d1_any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let (mut deframer, mut input) = (Deframer::default(), &bytes[..]);
        while let Ok(Some(frame)) = deframer.next_frame(&mut input) {
            prop_assert!(frame.body.len() <= BODY_BYTES_MAX);
        }
        prop_assert!(deframer.buffer.len() <= FRAME_HEADER_BYTES + BODY_BYTES_MAX);
    }
}
