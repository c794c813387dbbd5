//! The bitmap of an acknowledgement over arbitrary sets and arbitrary bytes.

use std::collections::BTreeSet;

use petasos_wire::{AckBitmap, BITMAP_WORDS_MAX};
use proptest::prelude::*;

const BITS: u32 = BITMAP_WORDS_MAX as u32 * 64;

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn w18_a_set_survives(set in prop::collection::btree_set(0..BITS, 0..200)) {
        let words = set.last().map_or(0, |last| last / 64 + 1) as usize;
        let mut payload = vec![0u8; words * 8];
        for offset in &set {
            payload[*offset as usize / 8] |= 1 << (offset % 8);
        }
        let offsets: Vec<u32> = AckBitmap::parse(&payload).unwrap().offsets().collect();
        prop_assert!(offsets.is_sorted());
        prop_assert_eq!(offsets.into_iter().collect::<BTreeSet<_>>(), set);
    }

    #[test]
    fn w18_arbitrary_bytes_never_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let whole = payload.len() % 8 == 0 && payload.len() <= BITMAP_WORDS_MAX * 8;
        let parsed = AckBitmap::parse(&payload);
        prop_assert_eq!(parsed.is_some(), whole);
        if let Some(bitmap) = parsed {
            let ones: u32 = payload.iter().map(|byte| byte.count_ones()).sum();
            prop_assert_eq!(bitmap.offsets().count() as u32, ones);
            prop_assert!(bitmap.offsets().all(|offset| offset < BITS));
        }
    }
}
