use super::*;

fn bytes(object: Object<'_>) -> Vec<u8> {
    (0..object.bytes()).map(|at| object.load::<1>(at)[0]).collect()
}

#[test]
fn m13_recycled_memory_is_zeroed_with_its_padding() {
    for _ in 0..3 {
        let arena = Arena::new_in(&Heap::PRIVATE);
        let object = arena.object(13);
        assert_eq!(bytes(Object::new(object.at(), 16)), [0; 16]);
        let leaf = arena.leaf(b"0123456789a");
        assert_eq!(bytes(Object::new(leaf.at(), 16)), b"0123456789a\0\0\0\0\0");
        let dirt = arena.object(400);
        dirt.copy(0, &[0xee; 400]);
    }
}

#[test]
fn m2_objects_begin_at_multiples_of_8_and_do_not_overlap() {
    let arena = Arena::new_in(&Heap::PRIVATE);
    let mut ends: Vec<(usize, usize)> = Vec::new();
    for size in (0..200).chain([4000, 3, 100_000]) {
        let at = arena.object(size).at().addr().get();
        assert_eq!(at % 8, 0);
        let end = at + rounded(size);
        assert!(ends.iter().all(|&(from, to)| end <= from || at >= to), "{size}");
        ends.push((at, end));
    }
}

#[test]
fn m21_only_a_message_in_one_chunk_is_handed_over() {
    let arena = Arena::new_in(&Heap::PRIVATE);
    arena.object(16);
    assert_eq!(arena.whole_bytes(), Some(ROOT_OFFSET + 16));
    arena.abandon(0);
    assert_eq!(arena.whole_bytes(), Some(ROOT_OFFSET + 16));
    arena.abandon(1);
    assert_eq!(arena.whole_bytes(), None);

    let arena = Arena::new_in(&Heap::PRIVATE);
    arena.object(heap::CHUNK_BYTES as u32);
    assert_eq!(arena.whole_bytes(), None);
    let arena = Arena::new_in(&Heap::PRIVATE);
    let adopted = arena.adopt(Bytes::from_static(b"elsewhere"));
    assert_eq!(arena.whole_bytes(), None);
    arena.release(adopted.at().as_ptr());
    assert_eq!(arena.whole_bytes(), Some(ROOT_OFFSET));
    arena.abandon(8);
    assert_eq!(arena.whole_bytes(), None);
}

#[test]
fn only_the_last_object_is_extended() {
    let arena = Arena::new_in(&Heap::PRIVATE);
    let (first, last) = (arena.object(8), arena.object(8));
    assert!(!arena.extend(first.at(), 8, 16));
    assert!(arena.extend(last.at(), 8, 16));
    assert_eq!(bytes(Object::new(last.at(), 16)), [0; 16]);
    assert!(!arena.extend(last.at(), 16, heap::CHUNK_BYTES as u32), "no room");
}

#[test]
fn memory_is_counted() {
    let arena = Arena::with_capacity(&Heap::PRIVATE, 10_000);
    let first = arena.allocated_bytes();
    assert!(first >= 10_000);
    arena.object(10_000);
    assert_eq!(arena.allocated_bytes(), first);
    let adopted = arena.adopt(Bytes::from(vec![1; 5000]));
    assert_eq!(arena.allocated_bytes(), first + 5000);
    assert_eq!(arena.adopted(&adopted.as_slice()[10..20]), Some(Bytes::from(vec![1; 10])));
    assert_eq!(arena.adopted(&[1]), None);
    arena.release(adopted.at().as_ptr());
    assert_eq!(arena.allocated_bytes(), first);
}

#[test]
fn pointers_lead_where_they_were_set_to() {
    let arena = Arena::new_in(&Heap::PRIVATE);
    let root = arena.object(24);
    assert!(root.target(8, 1).is_none() && root.follow(0, 8).is_none());
    let far = arena.adopt(Bytes::from(vec![7; 5000]));
    root.point(8, far, 5000, 0);
    let (found, len) = root.target(8, 1).expect("set above");
    assert_eq!((found.at(), len, found.load(4999)), (far.at(), 5000, [7]));
}

#[test]
#[should_panic(expected = "within its object")]
fn a_part_outside_its_object_is_never_read() {
    Arena::new_in(&Heap::PRIVATE).object(8).load::<4>(5);
}

#[test]
fn adopted_bytes_do_not_make_chunks_large() {
    let arena = Arena::new_in(&Heap::PRIVATE);
    arena.adopt(Bytes::from(vec![1; 1_000_000]));
    arena.object(2 * heap::CHUNK_BYTES as u32);
    assert!(arena.allocated_bytes() < 1_000_000 + 8 * heap::CHUNK_BYTES);
}

/// Messages are `Sync`, and cloning one asks who owns its bytes: from several threads at once.
#[test]
fn many_threads_may_ask_for_owners() {
    struct Read(OwnedArena);
    // SAFETY: the threads below call only what writes no cell.
    unsafe impl Sync for Read {}

    let arena = Read(Arena::new_in(&Heap::PRIVATE));
    let adopted = arena.0.adopt(Bytes::from(vec![7; 5000]));
    let (at, arena) = (adopted.as_slice(), &arena);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let arena = arena;
                for _ in 0..20_000 {
                    assert_eq!(arena.0.adopted(at).map(|owner| owner.len()), Some(5000));
                    assert!(arena.0.allocated_bytes() > 5000);
                }
            });
        }
    });
}
