//! Leaves that are not copied, and their place in the image (M24).

use petasos_message::{ADOPT_BYTES_MIN, CompactError, ROOM_BYTES, SEGMENTS_MAX};

use super::source::{Region, Trusted};
use super::{Fixture, bytes};

/// An image whose root has one part, a list of blobs of these lengths.
fn blobs(lengths: &[usize]) -> Vec<u8> {
    let mut image = vec![0; 8 + 24 + 16 * lengths.len()];
    let point = |image: &mut Vec<u8>, at: usize, to: usize, len: usize| {
        image[at..at + 8].copy_from_slice(&(to as u64 - at as u64).to_le_bytes());
        image[at + 8..at + 12].copy_from_slice(&(len as u32).to_le_bytes());
    };
    point(&mut image, 16, 32, lengths.len());
    for (index, len) in lengths.iter().enumerate() {
        let to = image.len();
        image.resize(to + len.next_multiple_of(8), 0);
        image[to..to + len].fill(index as u8 + 1);
        point(&mut image, 32 + 16 * index, to, *len);
    }
    let len = image.len() as u32;
    image[..8].copy_from_slice(&(u64::from(len) | 1 << 32).to_le_bytes());
    image
}

fn fixture() -> Fixture {
    Fixture::new("message M { repeated bytes b = 1; }")
}

#[test]
fn m24_long_leaves_follow_the_image_in_order() {
    let fixture = fixture();
    let min = ADOPT_BYTES_MIN;
    let image = blobs(&[min, min - 1, 3, 2 * min + 1, min + 8]);
    assert_eq!(fixture.validate(&image), Ok(()));
    let copy = fixture.compact(&Region(&image)).unwrap();
    let pieces: Vec<usize> = copy.tail.iter().map(|segment| segment.len()).collect();
    assert_eq!(pieces, [min, 2 * min + 1, 7, min + 8]);
    assert_eq!(copy.head.len(), ROOM_BYTES + 8 + 24 + 5 * 16 + min + 8);
    let copy = bytes(copy);
    assert_eq!(fixture.validate(&copy), Ok(()));
    assert!(fixture.read(&copy) == fixture.read(&image));
}

#[test]
fn m24_more_leaves_than_segments_are_copied() {
    let fixture = fixture();
    for len in [ADOPT_BYTES_MIN, ADOPT_BYTES_MIN + 1] {
        let image = blobs(&[len; 20]);
        let copy = fixture.compact(&Trusted(Region(&image))).unwrap();
        assert!((SEGMENTS_MAX - 1..=SEGMENTS_MAX).contains(&copy.tail.len()));
        let copy = bytes(copy);
        assert_eq!(fixture.validate(&copy), Ok(()));
        assert!(fixture.read(&copy) == fixture.read(&image));
    }
}

#[test]
fn m23_strings_and_bools_are_copied_however_long() {
    let image = blobs(&[2 * ADOPT_BYTES_MIN; 2]);
    let texts = Fixture::new("message M { repeated string b = 1; }");
    assert!(texts.compact(&Region(&image)).unwrap().tail.is_empty());
    // The part at 16 as a list of bools: 32 KiB that begin with 1.
    let flags = Fixture::new("message M { repeated bool b = 1; }");
    let mut image = blobs(&[]);
    image.resize(40_000, 1);
    image[..4].copy_from_slice(&40_000u32.to_le_bytes());
    image[16..24].copy_from_slice(&16u64.to_le_bytes());
    image[24..28].copy_from_slice(&39_000u32.to_le_bytes());
    assert_eq!(flags.validate(&image), Ok(()));
    assert!(flags.compact(&Region(&image)).unwrap().tail.is_empty());
    assert_eq!(flags.compact(&Trusted(Region(&image))).unwrap().tail.len(), 1);
    image[39_031] = 2;
    assert!(flags.validate(&image).is_err());
    assert_eq!(flags.compact(&Region(&image)).unwrap_err(), CompactError::Malformed);
}

#[test]
fn m18_an_image_has_a_largest_size() {
    let fixture = fixture();
    let mut image = blobs(&[100; 20]);
    for index in 0..20 {
        let at = 32 + 16 * index + 8;
        image[at..at + 4].copy_from_slice(&(1u32 << 27).to_le_bytes());
    }
    struct Endless<'a>(Region<'a>);
    impl petasos_message::Source for Endless<'_> {
        fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), petasos_message::Outside> {
            self.0.copy(at, to)
        }
        fn segment(
            &self,
            _: u64,
            bytes: u32,
        ) -> Result<Option<petasos_message::Segment>, petasos_message::Outside> {
            let bytes = bytes::Bytes::from_owner(vec![0; bytes as usize]);
            Ok(Some(petasos_message::Segment::Owned(bytes)))
        }
    }
    let refused = fixture.compact(&Endless(Region(&image)));
    assert_eq!(refused.unwrap_err(), CompactError::TooLarge);
    let refused = fixture.compact(&Region(&image));
    assert_eq!(refused.unwrap_err(), CompactError::Outside(petasos_message::Outside));
}
