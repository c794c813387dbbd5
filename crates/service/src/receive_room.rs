//! The memory of a receive heap, as numbers of bytes.

use petasos_abi::Blocks;
use petasos_shm::OwnedHeap;

/// The memory of a receive heap, as a number of bytes.
#[derive(Debug)]
pub(crate) struct Room {
    /// Of all extents.
    pub(crate) total_bytes: u64,
    /// Of the message that waits; 0 if none does, or if that was asked for.
    pub(crate) wanted_bytes: u64,
    /// There will be no extent of so many bytes or more.
    pub(crate) refused_bytes: u64,
}

impl Room {
    /// That of a heap, and its places, which are all free.
    pub(crate) fn of(heap: &OwnedHeap) -> (Blocks, Room) {
        let mut room = Room { total_bytes: 0, wanted_bytes: 0, refused_bytes: u64::MAX };
        let mut blocks = Blocks::new();
        for extent in heap.extents().iter() {
            blocks.add(extent.offset, extent.bytes);
            room.total_bytes += extent.bytes;
        }
        (blocks, room)
    }
}
