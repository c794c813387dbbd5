//! Buffers of a program in its send heap.

use std::sync::Arc;

use bytes::Bytes;
use petasos_base::Rng;
use petasos_base::sync::{AtomicU32, Ordering};
use petasos_shm::{Buffer, Buffers, HeapError, HeapKind, STRUCTURE_BYTES_MAX, Sent};

use crate::{Heap, UNIT, pattern};

/// A heap with one extent of so many units, which is the buffers'.
fn with_buffers(units: u64) -> (Heap, Buffers) {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, units);
    let buffers = heap.application.buffers(|| {});
    heap.application.give(0, &buffers).expect("it was just made");
    (heap, buffers)
}

fn filled(buffers: &Buffers, bytes: &[u8]) -> Bytes {
    let mut buffer = buffers.allocate(bytes.len()).expect("there is memory");
    buffer.copy_from_slice(bytes);
    buffer.freeze()
}

/// What the service reads.
fn image(heap: &Heap, sent: &Sent) -> Vec<u8> {
    heap.copy(sent.image_at(), sent.image_bytes())
}

#[test]
fn d6_structure_and_buffer_are_one_image() {
    let (heap, buffers) = with_buffers(4);
    for bytes in [1, 7, 8, 1001, 100_000] {
        let leaf = filled(&buffers, &pattern(bytes));
        let structure = vec![0xab; 40];
        let sent = buffers.send(&structure, &leaf).unwrap();
        let mut expected = [&structure[..], &leaf[..]].concat();
        expected.resize(40 + bytes.next_multiple_of(8), 0);
        assert_eq!(image(&heap, &sent), expected, "{bytes}");
        assert_eq!(sent.image_at() % 8, 0);
    }
}

#[test]
fn what_is_no_whole_buffer_or_is_being_sent_is_not_sent_in_place() {
    let (_heap, buffers) = with_buffers(4);
    let leaf = filled(&buffers, &pattern(1000));
    let is_sent = |structure: &[u8], leaf: &Bytes| buffers.send(structure, leaf).is_some();
    assert!(!is_sent(&[0; 16], &Bytes::from(pattern(1000))), "it lies elsewhere");
    assert!(!is_sent(&[0; 16], &leaf.slice(8..)), "the room would hold other bytes");
    assert!(!is_sent(&[0; 16], &leaf.slice(..992)), "other bytes follow");
    assert!(!is_sent(&[0; 12], &leaf), "the root would not be aligned");
    assert!(!is_sent(&[0; STRUCTURE_BYTES_MAX + 8], &leaf), "it is too long");
    assert!(is_sent(&[0; STRUCTURE_BYTES_MAX], &leaf));
    let first = buffers.send(&[1; 16], &leaf).unwrap();
    assert!(!is_sent(&[2; 16], &leaf.clone()), "the service may read the room");
    drop(first);
    assert!(is_sent(&[2; 16], &leaf));
    let (_other, other) = with_buffers(4);
    assert!(other.send(&[0; 16], &leaf).is_none(), "it is another heap's");
}

#[test]
fn a_buffer_comes_back_when_its_owners_and_what_is_sent_are_gone() {
    let (heap, buffers) = with_buffers(4);
    let all = UNIT as usize * 4 - STRUCTURE_BYTES_MAX;
    let leaf = filled(&buffers, &pattern(all));
    assert!(buffers.allocate(1).is_none());
    let sent = buffers.send(&[7; 16], &leaf).unwrap();
    drop(leaf);
    assert!(buffers.allocate(1).is_none(), "the service may read it");
    assert_eq!(image(&heap, &sent)[16..], pattern(all));
    std::thread::spawn(move || drop(sent)).join().unwrap();
    assert!(buffers.allocate(all).is_some());
}

#[test]
fn a_buffer_is_shortened_and_zeros_follow() {
    let (heap, buffers) = with_buffers(4);
    let mut buffer = buffers.allocate(1000).unwrap();
    buffer.fill(9);
    buffer.truncate(13);
    let sent = buffers.send(&[], &buffer.freeze()).unwrap();
    assert_eq!(image(&heap, &sent), [&[9; 13][..], &[0; 3]].concat());
}

#[test]
fn memory_is_wanted_once_until_there_is_no_more() {
    let told = Arc::new(AtomicU32::new(0));
    let mut heap = Heap::new(HeapKind::Send, 8);
    let buffers = heap.application.buffers({
        let told = told.clone();
        move || {
            told.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(buffers.allocate(100).is_none() && buffers.allocate(50).is_none());
    assert_eq!((buffers.take_wanted(), told.load(Ordering::Relaxed)), (Some(4096 + 104), 1));
    assert_eq!(buffers.take_wanted(), None);
    assert!(buffers.allocate(usize::MAX).is_none() && buffers.take_wanted().is_none());
    let (extent, _) = heap.grow(1);
    heap.application.give(extent.offset, &buffers).unwrap();
    assert!(buffers.allocate(100).is_some());
    buffers.complete();
    assert!(buffers.allocate(1 << 20).is_none() && buffers.take_wanted().is_none());
}

/// Nothing else is written where buffers are, and they outlive their heap.
#[test]
fn d2_an_extent_that_is_given_to_buffers_is_theirs_alone() {
    let (mut heap, buffers) = with_buffers(2);
    assert!(heap.application.write(0, &[1]).is_err());
    assert!(matches!(heap.application.unmap(0), Err(HeapError::NoExtent(0))));
    assert!(matches!(heap.application.give(0, &buffers), Err(HeapError::NoExtent(0))));
    let (extent, _) = heap.grow(1);
    assert_eq!(extent.offset, 2 * UNIT, "the place is taken");
    heap.application.write(extent.offset, &[1]).unwrap();
    heap.application.unmap(extent.offset).unwrap();
    let leaf = filled(&buffers, &pattern(1000));
    drop(heap);
    assert_eq!(leaf, pattern(1000));
    assert!(buffers.allocate(100).is_some());
}

/// Buffers that threads take, fill, send and drop keep their bytes.
#[test]
fn buffers_of_several_threads_do_not_overlap() {
    let (heap, buffers) = with_buffers(16);
    let run = |seed: u64| {
        let (mut rng, mut kept) = (Rng::new(seed), Vec::<(Sent, u8)>::new());
        for round in 0..400_u32 {
            let Some(mut buffer) = buffers.allocate(30_000 + rng.below(30_000) as usize) else {
                kept.clear();
                continue;
            };
            let value = (seed as u8) << 6 | (round % 64) as u8;
            buffer.fill(value);
            kept.push((buffers.send(&[value; 32], &buffer.freeze()).unwrap(), value));
            if kept.len() > 3 {
                let (sent, value) = kept.swap_remove(rng.below(4) as usize);
                let bytes = image(&heap, &sent);
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                assert!(bytes[..end].iter().all(|byte| *byte == value) && bytes.len() - end < 8);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..4).for_each(|seed| drop(scope.spawn(move || run(seed))));
    });
    let all: Vec<Buffer> = std::iter::from_fn(|| buffers.allocate(60_000)).collect();
    assert_eq!(all.len(), 16, "all have come back");
}
