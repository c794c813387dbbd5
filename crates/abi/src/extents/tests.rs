use petasos_base::Rng;

use super::*;

const UNIT: u64 = EXTENT_BYTES_MIN;

fn extent(offset: u64, bytes: u64) -> Extent {
    Extent { offset: offset * UNIT, bytes: bytes * UNIT }
}

#[test]
fn d2_extents_lie_within_the_heap_and_apart() {
    let mut extents = Extents::new(8 * UNIT);
    assert_eq!(extents.add(extent(2, 2)), Ok(()));
    for overlapping in [extent(2, 2), extent(1, 2), extent(3, 1), extent(0, 8), extent(3, 4)] {
        assert_eq!(extents.add(overlapping), Err(ExtentError::Overlap(overlapping)));
    }
    for outside in [extent(8, 1), extent(7, 2), Extent { offset: u64::MAX - UNIT + 1, bytes: UNIT }]
    {
        assert_eq!(extents.add(outside), Err(ExtentError::Outside(outside)));
    }
    for shapeless in [
        extent(0, 0),
        Extent { offset: 1, bytes: UNIT },
        Extent { offset: 0, bytes: UNIT - 1 },
        Extent { offset: 0, bytes: u64::MAX },
    ] {
        assert_eq!(extents.add(shapeless), Err(ExtentError::Shape(shapeless)));
    }
    assert_eq!((extents.add(extent(4, 1)), extents.add(extent(1, 1))), (Ok(()), Ok(())));
    assert_eq!(extents.bytes(), 4 * UNIT);
    assert_eq!(extents.remove(2 * UNIT), Some(extent(2, 2)));
    assert_eq!(extents.remove(2 * UNIT), None);
}

#[test]
fn d2_a_heap_has_a_bounded_number_of_extents() {
    let mut extents = Extents::new(HEAP_BYTES_MAX);
    let added = (0..2 * EXTENTS_MAX as u64).map(|index| extents.add(extent(2 * index, 1)));
    let refused: Vec<_> = added.filter_map(Result::err).collect();
    assert_eq!(refused, vec![ExtentError::TooMany; EXTENTS_MAX]);
}

/// Against a heap that notes for each unit whether it has memory.
#[test]
fn d2_d3_extents_cover_what_a_map_of_units_says() {
    const UNITS: u64 = 16;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut extents = Extents::new(UNITS * UNIT);
        let mut map = [false; UNITS as usize];
        for _ in 0..60 {
            let extent = extent(rng.below(UNITS), 1 + rng.below(4));
            let units = (extent.offset / UNIT) as usize..((extent.end()) / UNIT) as usize;
            let is_free =
                map.get(units.clone()).is_some_and(|units| units.iter().all(|used| !used));
            if rng.chance(0.6) {
                assert_eq!(extents.add(extent).is_ok(), is_free, "seed {seed}");
                if is_free {
                    map[units].fill(true);
                }
            } else if let Some(gone) = extents.remove(extent.offset) {
                map[(gone.offset / UNIT) as usize..(gone.end() / UNIT) as usize].fill(false);
            }
            check_covers(&extents, &map, &mut rng);
        }
    }
}

fn check_covers(extents: &Extents, map: &[bool], rng: &mut Rng) {
    let end = map.len() as u64 * UNIT;
    for _ in 0..20 {
        let (offset, bytes) = (rng.below(end + UNIT), 1 + rng.below(5 * UNIT));
        let units = (offset / UNIT)..=((offset + bytes - 1) / UNIT);
        let expected = units.into_iter().all(|unit| map.get(unit as usize) == Some(&true));
        assert_eq!(extents.covers(offset, bytes), expected, "{offset} {bytes}");
        assert!(!extents.covers(offset, 0) && !extents.covers(offset, u64::MAX));
        assert!(!extents.covers(u64::MAX - offset, 1 + offset));
    }
    let bytes = UNIT * (1 + rng.below(4));
    if let Some(place) = extents.place_for(bytes) {
        assert!(extents.clone().add(Extent { offset: place, bytes }).is_ok());
    }
}
