//! Native encoding (M19 to M27): images that are right, damaged, hostile, and in memory that others
//! write.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../schema/tests/common/mod.rs"]
mod common;

mod damage;
mod gather;
mod gathered;
mod native;
mod reader;
mod rules;
mod source;
mod writer;

use petasos_base::Rng;
use petasos_message::{
    CompactError, Image, Plans, ROOM_BYTES, Source, compact, is_aligned, is_native, validate,
};
use petasos_schema::{Hash, LAYOUT_VERSION, MessageId, Schema};
use proptest::prelude::*;
use source::{BASE, Region, Trusted};

/// One of everything that a layout has.
const EVERYTHING: &str = "message M { string text = 1; bytes blob = 2; M child = 3; bool flag = 4; \
    sint32 number = 5; double real = 6; E level = 7; repeated string texts = 8; \
    repeated bytes blobs = 9; repeated M children = 10; repeated bool flags = 11; \
    repeated fixed32 numbers = 12; repeated int64 longs = 13; map<string, bytes> named = 14; \
    map<int32, M> numbered = 15; map<bool, string> two = 16; map<sint64, bool> signed = 23; \
    oneof o { string a = 17; M b = 18; bool c = 19; bytes d = 20; int64 e = 21; } \
    optional string maybe = 24; optional int32 some = 25; optional double more = 26; \
    optional bool perhaps = 27; optional bytes few = 28; N next = 29; } \
    message N { int32 n = 1; uint64 m = 2; } enum E { Z = 0; }";

/// A schema, its plans, and one message of it.
struct Fixture {
    schema: Schema,
    plans: Plans,
    id: MessageId,
}

impl Fixture {
    /// The message `M` of proto3 declarations.
    fn new(declarations: &str) -> Fixture {
        let schema = common::schema(declarations);
        let (plans, id) = (Plans::of(&schema).unwrap(), common::id(&schema, "M"));
        Fixture { schema, plans, id }
    }

    fn random(&self, seed: u64) -> Vec<u8> {
        writer::image(&self.schema, self.id, &mut Rng::new(seed))
    }

    fn validate(&self, image: &[u8]) -> Result<(), petasos_message::DecodeError> {
        validate(self.plans.message(self.id), image)
    }

    fn read(&self, image: &[u8]) -> Vec<u8> {
        reader::read(&self.schema, self.id, image)
    }

    /// Compacts the message whose image lies at the source's begin.
    fn compact(&self, source: &impl Source) -> Result<Image, CompactError> {
        compact(self.plans.message(self.id), source, BASE + 8)
    }
}

/// An encoded image without its room.
fn bytes(image: Image) -> Vec<u8> {
    let (len, tail) = (image.len(), image.tail.len());
    let buf = image.into_buf();
    assert!(buf.len() == len && tail <= petasos_message::SEGMENTS_MAX);
    buf.as_slice()[ROOM_BYTES..].to_vec()
}

fn check_image(fixture: &Fixture, image: &[u8]) {
    assert_eq!(fixture.validate(image), Ok(()));
    let values = fixture.read(image);
    let behind = [image, &[0xff; 24]].concat();
    assert_eq!(fixture.validate(&behind), Ok(()), "what follows is somebody else's");
    let copy = bytes(fixture.compact(&Region(image)).unwrap());
    assert_eq!(copy.len(), u32::from_le_bytes(*copy.first_chunk().unwrap()) as usize);
    assert_eq!(fixture.validate(&copy), Ok(()));
    assert!(fixture.read(&copy) == values, "a copy has the same values");
    let trusted = bytes(fixture.compact(&Trusted(Region(image))).unwrap());
    assert_eq!(fixture.validate(&trusted), Ok(()));
    assert!(fixture.read(&trusted) == values && trusted.len() == copy.len());
    let again = bytes(fixture.compact(&Region(&copy)).unwrap());
    assert_eq!(again.len(), copy.len(), "a compact image has no gaps to lose");
    assert!(bytes(fixture.compact(&Region(&again)).unwrap()) == again);
}

#[test]
fn m20_m22_m26_m27_images_are_accepted_read_and_copied() {
    let fixture = Fixture::new(EVERYTHING);
    (0..200).for_each(|seed| check_image(&fixture, &fixture.random(seed)));
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn m22_m26_hold_for_any_schema(set in common::random::descriptor_set(), seed: u64) {
        let schema = common::load(&set).unwrap();
        let plans = Plans::of(&schema).unwrap();
        let id = schema.messages().next().unwrap().0;
        let fixture = Fixture { plans, id, schema };
        check_image(&fixture, &fixture.random(seed));
    }
}

#[test]
fn m19_native_encoding_needs_the_same_hash_and_the_same_layout() {
    let [a, b] = [1, 2].map(|byte| Hash::from_bytes([byte; 16]));
    assert!(is_native(a, LAYOUT_VERSION, a));
    assert!(!is_native(a, LAYOUT_VERSION, b));
    assert!(!is_native(a, LAYOUT_VERSION + 1, a));
}

#[test]
fn m25_images_are_read_at_multiples_of_eight() {
    let words = [0u64; 2];
    let at = words.as_ptr().cast::<u8>();
    assert!(is_aligned(at));
    assert!((1..8).all(|offset| !is_aligned(at.wrapping_add(offset))));
}
