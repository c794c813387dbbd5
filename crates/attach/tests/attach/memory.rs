//! The cost of attachments, and that all of it is given back.

use petasos_attach::Changed::{GaveUp, Grown};
use petasos_attach::ListenerConfig;
use petasos_shm::HeapKind;

use crate::application::{Memory, connect, grant, message, pop};
use crate::service::Service;
use crate::{Folder, alone};

/// Descriptors of files that this process has.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it is there").count()
}

/// Shared memory that this process has mapped, and bytes of its addresses in use.
pub fn mapped() -> (usize, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let shared = maps.lines().filter(|line| line.contains("petasos-shm")).count();
    let pages = std::fs::read_to_string("/proc/self/statm").expect("it is there");
    let pages = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    (shared, pages.expect("it is a number") * 4096)
}

#[test]
fn heaps_grow_shrink_and_show_the_same_bytes_at_equal_offsets() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let path = folder.socket();
    let thread = std::thread::spawn(move || {
        let mut attachment = connect(&path, "app", 1);
        let memory = Memory::new();
        let mut extents = Vec::new();
        for _ in 0..3 {
            extents.push(attachment.grow(HeapKind::Send, 100_000).expect("within the quota"));
            attachment.grow(HeapKind::Receive, 100_000).expect("within the quota");
        }
        let offsets: Vec<u64> = extents.iter().map(|extent| extent.offset).collect();
        assert_eq!(offsets, [0, 2 << 16, 4 << 16]);
        // From one extent into the next.
        let (offset, bytes) = ((2 << 16) - 500, b"over the edge of an extent ".repeat(40));
        memory.write(attachment.heap(HeapKind::Send), offset, &bytes).expect("it is mapped");
        let mut lane = attachment.take_lanes().remove(0);
        lane.push(&message(offset, bytes.len())).expect("there is room");
        lane.flush();
        assert_eq!(pop(&mut lane).0, message(offset, bytes.len()));
        let mut answer = memory.read(attachment.heap(HeapKind::Receive), offset, bytes.len());
        answer.reverse();
        assert_eq!(answer, bytes);
        let receive = attachment.heap(HeapKind::Receive);
        memory.write(receive, offset, b"mine").expect_err("the service alone writes it");
        assert_eq!(attachment.give_up(2 << 16).expect("it is there"), extents[1]);
        lane.push(&grant(1)).expect("there is room");
        lane.flush();
        pop(&mut lane);
        let again = attachment.grow(HeapKind::Send, 1 << 17).expect("within the quota");
        assert_eq!(again, extents[1], "the place is used again");
        assert_eq!(memory.read(attachment.heap(HeapKind::Send), 2 << 16, 500), [0; 500]);
    });
    service.until("it has ended", |_| thread.is_finished());
    thread.join().expect("all was right");
    service.until("it is gone", |service| service.apps.is_empty());
    assert_eq!(service.ended.len(), 1, "{:?}", service.ended);
}

#[test]
fn the_service_grows_a_receive_heap_and_takes_back_an_extent() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let path = folder.socket();
    let thread = std::thread::spawn(move || connect(&path, "app", 1));
    service.until("it is attached", |_| thread.is_finished());
    let mut attachment = thread.join().expect("it is taken");
    let attached = &mut service.apps[0].attached;
    let extent = attached.grow(HeapKind::Receive, 1).expect("it is within the quota");
    attached.write(100, b"hello").expect("it has memory");
    service.turn();
    let memory = Memory::new();
    assert_eq!(attachment.poll().ok(), Some(Some(Grown(HeapKind::Receive, extent))));
    assert_eq!(memory.read(attachment.heap(HeapKind::Receive), 100, 5), b"hello");
    service.apps[0].attached.give_up(extent.offset).expect("it is there");
    service.turn();
    assert_eq!(attachment.poll().ok(), Some(Some(GaveUp(extent))));
    assert_eq!(attachment.poll().ok(), Some(None));
    assert_eq!(service.apps[0].attached.charged_bytes(HeapKind::Receive), 1 << 16);
}

#[test]
fn all_is_given_back_when_attachments_end() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let (files, (_, addresses)) = (descriptors(), mapped());
    for _ in 0..30 {
        let path = folder.socket();
        let thread = std::thread::spawn(move || {
            let mut attachment = connect(&path, "app", 4);
            attachment.grow(HeapKind::Send, 1 << 20).expect("it is within the quota");
            attachment.grow(HeapKind::Receive, 1 << 20).expect("it is within the quota");
            assert!(mapped().0 >= 2 * 4 + 4);
        });
        service.until("it has ended", |_| thread.is_finished());
        thread.join().expect("all was right");
        service.until("it is gone", |service| service.apps.is_empty());
    }
    assert_eq!(mapped().0, 0);
    assert!(mapped().1 < addresses + (1 << 30), "the ranges of heaps are free");
    // Each attachment of this process has a place until the process ends.
    assert_eq!(service.listener.applications(), 30);
    assert_eq!(descriptors(), files + 30);
}
