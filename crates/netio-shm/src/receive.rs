//! The private memory to which frames are copied before anybody sees them.
//!
//! It is small on purpose: a receive fills at most [`RECEIVE_BYTES`] (or one record), so that the
//! copy is still in the nearest cache when the caller uses it.

use petasos_netio::{Ecn, IoStats, Origin, RxBatch, RxChunk};
use petasos_shm::{Broken, Pop, Record};

use crate::link::Link;

/// The most bytes that one receive returns, unless a single record is longer.
const RECEIVE_BYTES: usize = 32 << 10;
/// The most chunks that one receive returns.
const CHUNKS_MAX: usize = 128;
/// All chunks have the same origin.
static ORIGINS: [Origin; CHUNKS_MAX] = [Origin::RINGS; CHUNKS_MAX];

pub(crate) struct Receiver {
    memory: Vec<u8>,
    /// Bytes in use, at the start of `memory`.
    filled: usize,
    chunks: Vec<RxChunk>,
    /// Whether the last chunk has only frames of full length, from the link that is being read.
    extensible: bool,
}

impl Receiver {
    pub(crate) fn new() -> Receiver {
        Receiver {
            memory: vec![0; RECEIVE_BYTES],
            filled: 0,
            chunks: Vec::with_capacity(CHUNKS_MAX),
            extensible: false,
        }
    }

    /// Makes room for the longest record of a new link.
    pub(crate) fn provide_for(&mut self, record_bytes_max: usize) {
        if record_bytes_max > self.memory.len() {
            self.memory.resize(record_bytes_max, 0);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.chunks.clear();
    }

    pub(crate) fn batch(&self) -> RxBatch<'_> {
        let origins = &ORIGINS[..self.chunks.len()];
        RxBatch { memory: &self.memory[..self.filled], chunks: &self.chunks, origins }
    }

    /// Takes the records of `link` that have arrived and fit. Returns whether that was all.
    #[inline]
    pub(crate) fn take(&mut self, link: &mut Link, stats: &mut IoStats) -> bool {
        self.extensible = false;
        let drained = loop {
            if self.chunks.len() == CHUNKS_MAX {
                break false;
            }
            match link.consumer.pop(&mut self.memory[self.filled..]) {
                Ok(Pop::Record(record)) => self.add(record, stats),
                Ok(Pop::Empty) => break true,
                Ok(Pop::TooLong(_)) => break false,
                Err(Broken) => {
                    link.broken = true;
                    break true;
                }
            }
        };
        link.consumer.release();
        drained
    }

    #[inline]
    fn add(&mut self, record: Record, stats: &mut IoStats) {
        let Record { len, segment_bytes } = record;
        let offset = self.filled as u32;
        self.filled += len;
        stats.rx_bytes += len as u64;
        let single = len == segment_bytes;
        stats.rx_frames += if single { 1 } else { len.div_ceil(segment_bytes) as u64 };
        let (len, segment_bytes) = (len as u32, segment_bytes as u32);
        match self.chunks.last_mut() {
            // Single frames of one length in a row become one chunk, as with trains.
            Some(last) if single && self.extensible && last.segment_bytes == len => last.len += len,
            _ => {
                self.chunks.push(RxChunk { offset, len, segment_bytes, ecn: Ecn::NotCapable });
                self.extensible = single;
            }
        }
    }
}
