//! Long random runs beside a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use petasos_base::Rng;
use petasos_ordered::{BplusTree, Direction, KEY_BYTES_MAX, KeyRange, KeyTooLong, OrderedMap};

type Oracle = BTreeMap<Vec<u8>, u64>;

/// Keys that share beginnings of all lengths, with the smallest and the largest bytes: a trie has
/// a layer for each eight.
fn key(rng: &mut Rng) -> Vec<u8> {
    let bytes = [0x00, 0x01, 0x7f, 0x80, 0xff];
    let len = match rng.below(10) {
        0 => rng.below(KEY_BYTES_MAX as u64 + 1),
        1..4 => rng.below(25),
        4..7 => 8 * rng.below(4),
        _ => 8,
    };
    let common = if rng.chance(0.7) { 0xff } else { bytes[rng.below(5) as usize] };
    let alike = rng.below(len + 1);
    let own = |rng: &mut Rng| bytes[rng.below(5) as usize];
    (0..len).map(|at| if at < alike { common } else { own(rng) }).collect()
}

fn bound(rng: &mut Rng, of: Vec<u8>) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(of),
        _ => Bound::Excluded(of),
    }
}

fn range(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> KeyRange<'_> {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}

/// What a range has, by the map's definition alone: `BTreeMap::range` panics at void ranges.
fn expected(oracle: &Oracle, range: KeyRange<'_>, direction: Direction) -> Vec<(Vec<u8>, u64)> {
    let is_behind = |key: &Vec<u8>| match range.0 {
        Bound::Included(from) => &key[..] >= from,
        Bound::Excluded(from) => &key[..] > from,
        Bound::Unbounded => true,
    };
    let is_before = |key: &Vec<u8>| match range.1 {
        Bound::Included(to) => &key[..] <= to,
        Bound::Excluded(to) => &key[..] < to,
        Bound::Unbounded => true,
    };
    let inside = oracle.iter().filter(|(key, _)| is_behind(key) && is_before(key));
    let mut all: Vec<_> = inside.map(|(key, number)| (key.clone(), *number)).collect();
    if direction == Direction::Down {
        all.reverse();
    }
    all
}

fn compare_range(map: &BplusTree, oracle: &Oracle, rng: &mut Rng) {
    let keys = [key(rng), key(rng)];
    let [from, to] = keys.map(|mut key| {
        if rng.chance(0.05) {
            // Longer than any key.
            key.resize(KEY_BYTES_MAX + 1 + rng.below(10) as usize, 0);
        }
        key
    });
    let bounds = (bound(rng, from), bound(rng, to));
    let range = range(&bounds);
    for direction in [Direction::Up, Direction::Down] {
        let expected = expected(oracle, range, direction);
        let limit = rng.below(40) as usize;
        let page = map.page(range, direction, limit);
        let said = format!("{range:?} {direction:?}");
        assert_eq!(page.items, expected[..limit.min(expected.len())], "{said}");
        assert_eq!(page.has_more, expected.len() > limit, "{said}");
        if limit > 0 {
            // Page by page, nothing is missing and nothing comes twice.
            let mut items = page.items.clone();
            let mut page = page;
            while page.has_more {
                let (last, _) = page.items.last().expect("it has some");
                let rest = match direction {
                    Direction::Up => (Bound::Excluded(&last[..]), range.1),
                    Direction::Down => (range.0, Bound::Excluded(&last[..])),
                };
                let next = map.page(rest, direction, limit);
                items.extend(next.items.iter().cloned());
                page = next;
            }
            assert_eq!(items, expected, "{said}");
        }
    }
    let sum = map.sum(range);
    let inside = expected(oracle, range, Direction::Up);
    let total: u128 = inside.iter().map(|(_, number)| u128::from(*number)).sum();
    assert_eq!((sum.keys, sum.total), (inside.len() as u64, total));
}

#[test]
fn a_map_answers_as_a_btree_does() {
    for seed in 0..6 {
        let (mut rng, map, mut oracle) = (Rng::new(seed), BplusTree::new(), Oracle::new());
        let mut known = Vec::new();
        for step in 0..30_000 {
            let key = match known.len() {
                // Some of the keys that are there.
                count if count > 0 && rng.chance(0.5) => {
                    let at = rng.below(count as u64) as usize;
                    Vec::clone(&known[at])
                }
                _ => key(&mut rng),
            };
            let number = rng.next_u64();
            match rng.below(10) {
                0..5 => {
                    map.put(&key, number).expect("it is short enough");
                    oracle.insert(key.clone(), number);
                    known.push(key);
                }
                5..8 => {
                    let was_there = oracle.remove(&key).is_some();
                    assert_eq!(map.delete(&key), was_there, "seed {seed}, {step}");
                }
                _ => assert_eq!(map.get(&key), oracle.get(&key).copied(), "seed {seed}, {step}"),
            }
            if step % 500 == 0 {
                compare_range(&map, &oracle, &mut rng);
            }
            if known.len() > 2000 {
                // The map becomes small again, so that leaves are joined.
                for key in known.drain(..) {
                    let was_there = oracle.remove(&key).is_some();
                    assert_eq!(map.delete(&key), was_there, "seed {seed}, {step}");
                }
            }
        }
        let all = map.page((Bound::Unbounded, Bound::Unbounded), Direction::Up, usize::MAX);
        let expected: Vec<_> = oracle.into_iter().collect();
        assert_eq!(all.items, expected, "seed {seed}");
    }
}

#[test]
fn keys_have_a_limit() {
    let map = BplusTree::new();
    let (longest, longer) = ([7; KEY_BYTES_MAX], [7; KEY_BYTES_MAX + 1]);
    assert_eq!(map.put(&longest, 1), Ok(()));
    assert_eq!(map.put(&longer, 2), Err(KeyTooLong(KEY_BYTES_MAX + 1)));
    assert_eq!((map.get(&longest), map.get(&longer)), (Some(1), None));
    assert_eq!((map.delete(&longer), map.delete(&longest)), (false, true));
    assert_eq!(map.put(b"", 3), Ok(()), "the shortest has no bytes");
    assert_eq!(map.get(b""), Some(3));
}

#[test]
fn a_scan_ends_when_it_is_told_to() {
    let map = BplusTree::new();
    (0..100u64).for_each(|number| {
        map.put(&number.to_be_bytes(), number).expect("it is short");
    });
    for (direction, last) in [(Direction::Up, 9), (Direction::Down, 90)] {
        let mut seen = Vec::new();
        map.scan((Bound::Unbounded, Bound::Unbounded), direction, |_, number| {
            seen.push(number);
            if seen.len() == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((seen.len(), seen.last()), (10, Some(&last)));
    }
}
