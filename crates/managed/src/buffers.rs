//! Buffers in the send heap: those that programs take, and those that are being sent (ADR 17, 5).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_abi::Contents;
use petasos_buf::{MsgBuf, Segment};
use petasos_endpoint::Notifier;
use petasos_message::GATHER_BYTES_MIN;
use petasos_shm::{AdoptedHeap, Buffer, Buffers, STRUCTURE_BYTES_MAX, Sent};

/// Bytes of an image before its root struct (M20), which is what a descriptor names (D6).
const ROOT_AT: u64 = 8;
/// The part of a send heap's quota that buffers may take.
const BUFFERS_PART: u64 = 2;
/// Buffers get extents of whole multiples of this.
const GROW_BYTES: u64 = 1 << 20;

/// Where a program takes buffers from in which it builds long messages. It is usable on any thread,
/// and clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuffers {
    /// Of the attachment in which calls begin.
    present: Arc<Mutex<Option<Buffers>>>,
}

impl ProgramBuffers {
    /// A buffer of so many bytes in the send heap. `None` if it would be too short to be worth it,
    /// or if there is no memory for it now: more is asked for, within the heap's quota.
    pub fn allocate(&self, bytes: usize) -> Option<Buffer> {
        if bytes < GATHER_BYTES_MIN {
            return None;
        }
        self.present().as_ref()?.allocate(bytes)
    }

    /// Calls begin in another attachment from now on, or in none.
    pub(crate) fn set(&self, buffers: Option<Buffers>) {
        *self.present() = buffers;
    }

    /// Nothing panics while it is locked.
    fn present(&self) -> MutexGuard<'_, Option<Buffers>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The buffers of one attachment. It belongs to the loop's thread.
pub(crate) struct LinkBuffers {
    buffers: Buffers,
    /// What the service may still read, by the offset of its root struct.
    sent: HashMap<u64, Sent>,
    /// Bytes that may still be had.
    quota_bytes: u64,
}

impl LinkBuffers {
    pub(crate) fn new(send: &AdoptedHeap, quota_bytes: u64, notifier: Notifier) -> LinkBuffers {
        let buffers = send.buffers(move || notifier.notify());
        LinkBuffers { buffers, sent: HashMap::new(), quota_bytes: quota_bytes / BUFFERS_PART }
    }

    pub(crate) fn shared(&self) -> &Buffers {
        &self.buffers
    }

    /// The bytes of an extent that is to be asked for, for the program.
    pub(crate) fn take_wanted(&mut self) -> Option<u64> {
        let wanted = self.buffers.take_wanted()?.next_multiple_of(GROW_BYTES);
        if wanted > self.quota_bytes {
            if self.quota_bytes < GROW_BYTES {
                // Nobody need wake the loop for it again.
                self.buffers.complete();
            }
            return None;
        }
        self.quota_bytes -= wanted;
        Some(wanted)
    }

    /// Makes an image of `from`, from `start` on, without a copy of its one long leaf, if that lies
    /// in a buffer.
    pub(crate) fn send(&mut self, from: &MsgBuf, start: usize, bytes: usize) -> Option<Contents> {
        let structure = from.as_slice().get(start..)?;
        let leaf = from.attached().first().and_then(Segment::owned)?;
        if structure.len() + leaf.len().next_multiple_of(8) != bytes {
            return None;
        }
        let sent = self.buffers.send(structure, leaf)?;
        let contents = Contents { offset: sent.image_at() + ROOT_AT, bytes: bytes as u32 };
        self.sent.insert(contents.offset, sent);
        Some(contents)
    }

    /// The service does not read an image any more. Says whether it was in a buffer.
    #[inline]
    pub(crate) fn end(&mut self, token: u64) -> bool {
        !self.sent.is_empty() && self.sent.remove(&token).is_some()
    }
}

const _: () = assert!(STRUCTURE_BYTES_MAX < GATHER_BYTES_MIN);
