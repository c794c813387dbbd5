//! The receive memory, and which connections fill it.

use petasos_netio::{Ecn, IoStats, Origin, RxBatch, RxChunk};

use crate::connection::{Connection, Taken};
use crate::record::UNFINISHED_BYTES_MAX;

/// The bytes that one receive returns at most, with heads.
const MEMORY_BYTES: usize = 256 << 10;

/// A connection is only read if there is room for this: its unfinished record and some more.
const ROOM_BYTES_MIN: usize = UNFINISHED_BYTES_MAX + 4096;
const _: () = assert!(MEMORY_BYTES >= 2 * ROOM_BYTES_MIN);

/// This many frames are enough work for one turn.
const FRAMES_ENOUGH: u64 = 32;

/// The memory to which all connections are read, and the frames in it.
pub(crate) struct Receiver {
    memory: Box<[u8]>,
    used: usize,
    /// Frames received before this batch.
    frames_before: u64,
    chunks: Vec<RxChunk>,
    origins: Vec<Origin>,
}

impl Receiver {
    pub(crate) fn new() -> Receiver {
        Receiver {
            memory: vec![0; MEMORY_BYTES].into_boxed_slice(),
            used: 0,
            frames_before: 0,
            chunks: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Begins a batch.
    #[inline]
    pub(crate) fn clear(&mut self, stats: &IoStats) {
        self.used = 0;
        self.frames_before = stats.rx_frames;
        self.chunks.clear();
        self.origins.clear();
    }

    /// Whether another connection may add frames to the batch.
    #[inline]
    pub(crate) fn has_room(&self, stats: &IoStats) -> bool {
        self.memory.len() - self.used >= ROOM_BYTES_MIN
            && stats.rx_frames - self.frames_before < FRAMES_ENOUGH
    }

    /// Adds what has arrived on a connection to the batch.
    #[inline]
    pub(crate) fn take(&mut self, connection: &mut Connection, stats: &mut IoStats) -> Taken {
        let start = self.used;
        let origin = connection.route.map_or(Origin::STRANGER, |route| Origin(route.0));
        let (chunks, origins) = (&mut self.chunks, &mut self.origins);
        stats.rx_syscalls += 1;
        let taken = connection.receive(&mut self.memory[start..], |record| {
            stats.rx_frames += record.len.div_ceil(record.segment_bytes) as u64;
            stats.rx_bytes += record.len as u64;
            origins.push(origin);
            chunks.push(RxChunk {
                offset: (start + record.offset) as u32,
                len: record.len as u32,
                segment_bytes: record.segment_bytes as u32,
                ecn: Ecn::NotCapable,
            });
        });
        match taken {
            Taken::All(0) => stats.rx_syscalls_empty += 1,
            Taken::All(bytes) | Taken::Some(bytes) => self.used += bytes,
            // Frames before the flaw are delivered, so their bytes must stay.
            Taken::Malformed => self.used = self.memory.len(),
            Taken::Ended => {}
        }
        taken
    }

    #[inline]
    pub(crate) fn batch(&self) -> RxBatch<'_> {
        RxBatch { memory: &self.memory, chunks: &self.chunks, origins: &self.origins }
    }
}
