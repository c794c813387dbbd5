//! Any bytes give a message or an error (M28), within the limits (M30).

use petasos_base::Rng;
use petasos_message::{DecodeError, DecodeLimits};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;

use crate::random;
use crate::schemas::descriptor_set;
use crate::support::{Fixture, delimited, encode};

fn nested(number: u8, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..depth {
        let mut outer = vec![number << 3 | 2];
        let mut len = bytes.len();
        while len >= 0x80 {
            outer.push(len as u8 | 0x80);
            len >>= 7;
        }
        outer.push(len as u8);
        outer.extend(bytes);
        bytes = outer;
    }
    bytes
}

/// M30
#[test]
fn messages_nest_a_hundred_deep_and_no_deeper() {
    let fixture = Fixture::wide();
    for number in [1, 2, 7] {
        let deepest = nested(number, 100);
        assert_eq!(fixture.recode("M", &deepest).as_ref(), Ok(&deepest), "{number}");
        assert_eq!(fixture.recode("M", &nested(number, 101)), Err(DecodeError::TooDeep));
    }
    let groups = |depth| [vec![0x7b; depth], vec![0x7c; depth]].concat();
    assert_eq!(fixture.recode("M", &groups(100)).as_ref(), Ok(&groups(100)));
    assert_eq!(fixture.recode("M", &groups(101)), Err(DecodeError::TooDeep));
    assert_eq!(fixture.recode("M", &groups(1_000_000)), Err(DecodeError::TooDeep));
}

/// M30
#[test]
fn what_would_take_more_memory_than_allowed_is_refused() {
    let fixture = Fixture::wide();
    // Two bytes that make a struct of 200.
    let wide = vec![[0x52, 0]; 100_000].concat();
    let default = DecodeLimits::for_input(wide.len());
    assert_eq!(default.memory_bytes_max, 64 * wide.len());
    let error = fixture.decode_within("M", &wide, &default).err();
    assert_eq!(error, Some(DecodeError::TooLarge));
    let large = DecodeLimits { memory_bytes_max: 100 << 20, ..default };
    assert!(fixture.decode_within("M", &wide, &large).is_ok());
    let short = DecodeLimits { message_bytes_max: wide.len() - 1, ..large };
    let error = fixture.decode_within("M", &wide, &short).err();
    assert_eq!(error, Some(DecodeError::TooLarge));
}

/// M28
#[test]
fn every_truncation_is_refused_or_a_message() {
    let fixture = Fixture::wide();
    let descriptor = fixture.descriptor("M");
    for seed in 0..20 {
        let bytes = random::message(&descriptor, &mut Rng::new(seed), false, 3).encode_to_vec();
        for len in 0..bytes.len().min(2000) {
            if let Ok(message) = fixture.decode("M", &bytes[..len]) {
                let ours = encode(&message);
                assert_eq!(fixture.recode("M", &ours), Ok(ours));
            }
        }
        // Within a record the whole of which is there, too.
        if bytes.len() < 128 {
            for len in 0..bytes.len() {
                let cut = [vec![0x0a, len as u8], bytes.clone()].concat();
                let _ = fixture.decode("M", &cut);
                let whole = delimited(1, &bytes[..len]);
                assert_eq!(
                    fixture.decode("M", &whole).is_ok(),
                    fixture.decode("M", &bytes[..len]).is_ok(),
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(200))]

    /// M28, M30
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let fixture = Fixture::wide();
        if let Ok(message) = fixture.decode("M", &bytes) {
            let ours = encode(&message);
            prop_assert_eq!(fixture.recode("M", &ours), Ok(ours));
        }
    }

    /// M28: nearly right, and judged as the oracle does.
    #[test]
    fn damaged_messages_are_judged_as_the_oracle_does(
        set in descriptor_set(),
        seed in any::<u64>(),
    ) {
        let fixture = Fixture::of(&set.encode_to_vec());
        let mut rng = Rng::new(seed);
        for descriptor in fixture.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let mut bytes = random::message(&descriptor, &mut rng, false, 3).encode_to_vec();
            for _ in 0..rng.below(4) {
                if !bytes.is_empty() {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = rng.next_u64() as u8;
                }
            }
            let ours = fixture.recode(descriptor.full_name(), &bytes);
            let theirs = prost_reflect::DynamicMessage::decode(descriptor.clone(), &bytes[..]);
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                let back = prost_reflect::DynamicMessage::decode(descriptor, &ours[..]).unwrap();
                let (mut back, mut theirs) = (back.encode_to_vec(), theirs.encode_to_vec());
                // Maps are in any order, and floats may have become NaN.
                back.sort_unstable();
                theirs.sort_unstable();
                prop_assert_eq!(back.len(), theirs.len());
                prop_assert_eq!(back, theirs);
            }
        }
    }
}
