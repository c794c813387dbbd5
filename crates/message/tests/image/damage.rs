//! Images that something happened to: no panic, no read outside, whatever it was (M26, M27).

use std::cell::RefCell;

use petasos_base::Rng;
use proptest::prelude::*;

use super::source::{Region, Restless};
use super::{EVERYTHING, Fixture, bytes};

/// What is accepted is read and copied; what is refused may be, too, by a copy that mends it.
fn judge(fixture: &Fixture, image: &[u8]) -> bool {
    let is_accepted = fixture.validate(image).is_ok();
    let values = is_accepted.then(|| fixture.read(image));
    match fixture.compact(&Region(image)) {
        Ok(copy) => {
            let copy = bytes(copy);
            assert_eq!(fixture.validate(&copy), Ok(()), "what is made is accepted");
            let copied = fixture.read(&copy);
            assert!(values.is_none_or(|values| values == copied));
        }
        Err(error) => assert!(!is_accepted, "accepted, so it should be copied: {error}"),
    }
    is_accepted
}

#[test]
fn m26_m27_every_byte_may_be_anything() {
    let fixture = Fixture::new(EVERYTHING);
    let mut judged = [0; 2];
    for seed in [1, 2, 5] {
        let mut image = fixture.random(seed);
        // Runs of numbers or bytes are not what decides.
        for at in (0..image.len()).filter(|at| *at < 2500 || at % 257 == 0) {
            let was = image[at];
            for value in [0, 1, 8, 16, 127, 128, 255, was ^ 8] {
                image[at] = value;
                judged[usize::from(judge(&fixture, &image))] += 1;
            }
            image[at] = was;
        }
    }
    assert!(judged.iter().all(|count| *count > 1000), "refused, accepted: {judged:?}");
}

#[test]
fn m26_an_image_cut_short_is_refused() {
    let fixture = Fixture::new(EVERYTHING);
    let image = fixture.random(3);
    for len in 0..image.len() {
        assert!(fixture.validate(&image[..len]).is_err());
        let mut shorter = image[..len].to_vec();
        if let Some(bytes) = shorter.first_chunk_mut() {
            *bytes = (len as u32).to_le_bytes();
            judge(&fixture, &shorter);
        }
    }
}

#[test]
fn m23_what_changes_while_it_is_copied_makes_a_good_copy_or_none() {
    let fixture = Fixture::new(EVERYTHING);
    let mut copies = 0;
    for seed in 0..2000 {
        let image = fixture.random(seed % 10);
        let rng = RefCell::new(Rng::new(seed));
        if let Ok(copy) = fixture.compact(&Restless { region: Region(&image), rng }) {
            let copy = bytes(copy);
            // Gathered bools would be the exception: they are copied (M23).
            assert_eq!(fixture.validate(&copy), Ok(()));
            fixture.read(&copy);
            copies += 1;
        }
    }
    assert!(copies > 10 && copies < 2000, "{copies}");
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn m26_bytes_may_be_anything(mut image in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let fixture = Fixture::new(EVERYTHING);
        judge(&fixture, &image);
        let len = image.len() as u32 & !7;
        if let Some(header) = image.first_chunk_mut() {
            *header = (u64::from(len) | 1 << 32).to_le_bytes();
            judge(&fixture, &image);
        }
    }

    #[test]
    fn m26_words_may_be_small(
        words in proptest::collection::vec(prop_oneof![Just(0), 0..64u64, any::<u64>()], 2..200),
        seed: u64,
    ) {
        let fixture = Fixture::new(EVERYTHING);
        let mut image = fixture.random(seed);
        let mut rng = Rng::new(seed);
        for word in words {
            let at = 8 + rng.below(image.len() as u64 / 8 - 1) as usize * 8;
            image[at..at + 8].copy_from_slice(&word.to_le_bytes());
            judge(&fixture, &image);
        }
    }
}
