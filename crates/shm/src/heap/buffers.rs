//! Buffers of a program in its send heap (ADR 17, 5).
//!
//! In front of each buffer there is room for the structure of the message that is sent with it. So
//! the two are one image, and the buffer's bytes are not copied.
//!
//! # Invariants
//!
//! - Extents that were given to [`Buffers`] are written by nobody else ([`AdoptedHeap`] has them no
//!   more), and are mapped for as long as there are `Buffers` or a [`Buffer`].
//! - Buffers do not overlap, nor do the rooms in front of them. A buffer is written by its one
//!   owner, and by nobody once it is [frozen](Buffer::freeze).
//! - The room in front of a buffer is written only while no [`Sent`] of it exists.
//!
//! [`AdoptedHeap`]: super::AdoptedHeap

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use petasos_abi::{Blocks, Extent};
use petasos_base::sync::{AtomicU64, Ordering};

use super::range::Range;

/// Room in front of a buffer, in bytes: a message with a longer structure is copied.
pub const STRUCTURE_BYTES_MAX: usize = 4096;
/// Images and leaves begin and end at multiples of this (M2).
const ALIGN: usize = 8;

/// Where a program takes buffers from, on any thread. Clones are the same.
#[derive(Clone)]
pub struct Buffers {
    shared: Arc<Shared>,
}

struct Shared {
    range: Arc<Range>,
    state: Mutex<State>,
    /// More memory is wanted, of so many bytes in one piece; 0 if none is. Outside of the lock,
    /// since a loop looks in each turn.
    wanted_bytes: AtomicU64,
    /// Makes the heap's owner look at what is [wanted](Buffers::take_wanted).
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    blocks: Blocks,
    /// By the offset of its first byte.
    given: HashMap<u64, Given>,
    /// No more is to be had.
    is_complete: bool,
}

/// A buffer that was given to the program.
struct Given {
    bytes: usize,
    is_sent: bool,
}

/// Memory of a send heap that the program owns.
///
/// Its contents are unspecified at first. A message that was built with it is sent without a copy,
/// if it is the message's only long leaf, and the whole buffer.
pub struct Buffer {
    shared: Arc<Shared>,
    offset: u64,
    bytes: usize,
}

/// A buffer that the service may read, with a structure in front. It stays as it is meanwhile.
#[must_use = "the service may read it until this is dropped"]
pub struct Sent {
    shared: Arc<Shared>,
    /// Of the buffer.
    offset: u64,
    structure_bytes: usize,
    /// Keeps the buffer.
    leaf: Bytes,
}

impl Shared {
    /// Nothing panics while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffers {
    /// None yet. `notify` is called on any thread when memory is wanted.
    pub(super) fn new(range: Arc<Range>, notify: Box<dyn Fn() + Send + Sync>) -> Buffers {
        let (state, wanted_bytes) = (Mutex::default(), AtomicU64::new(0));
        Buffers { shared: Arc::new(Shared { range, state, wanted_bytes, notify }) }
    }

    /// Whether they are in this range.
    pub(super) fn are_in(&self, range: &Range) -> bool {
        core::ptr::eq(&*self.shared.range, range)
    }

    /// Memory that nobody else writes.
    pub(super) fn add(&self, extent: Extent) {
        self.shared.state().blocks.add(extent.offset, extent.bytes);
    }

    /// A buffer of so many bytes, at least one. `None` if there is no memory for it now, which is
    /// then wanted.
    pub fn allocate(&self, bytes: usize) -> Option<Buffer> {
        let whole = STRUCTURE_BYTES_MAX.checked_add(bytes.max(1).checked_next_multiple_of(ALIGN)?);
        let whole = u32::try_from(whole?).ok()?;
        let mut state = self.shared.state();
        let Some(place) = state.blocks.allocate(whole) else {
            let is_complete = state.is_complete;
            drop(state);
            if !is_complete {
                self.want(whole.into());
            }
            return None;
        };
        let offset = place + STRUCTURE_BYTES_MAX as u64;
        state.given.insert(offset, Given { bytes, is_sent: false });
        drop(state);
        let mut buffer = Buffer { shared: self.shared.clone(), offset, bytes };
        buffer.clear_padding();
        Some(buffer)
    }

    fn want(&self, bytes: u64) {
        // Release: pairs with the acquire in `take_wanted`, though what follows would do.
        if self.shared.wanted_bytes.fetch_max(bytes, Ordering::Release) < bytes {
            (self.shared.notify)();
        }
    }

    /// Bytes of memory that is wanted, in one piece. They are said once.
    #[inline]
    pub fn take_wanted(&self) -> Option<u64> {
        if self.shared.wanted_bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let wanted = self.shared.wanted_bytes.swap(0, Ordering::Acquire);
        (wanted > 0).then_some(wanted)
    }

    /// No more memory is to be had: none is wanted from now on.
    pub fn complete(&self) {
        self.shared.state().is_complete = true;
    }

    /// Puts a structure in front of a leaf, if that is the whole of a buffer that is not being sent
    /// already. Behind the leaf are zeros, up to a multiple of 8 bytes.
    pub fn send(&self, structure: &[u8], leaf: &Bytes) -> Option<Sent> {
        if structure.len() > STRUCTURE_BYTES_MAX || !structure.len().is_multiple_of(ALIGN) {
            return None;
        }
        let start = self.shared.range.start().addr().get();
        let offset = leaf.as_ptr().addr().checked_sub(start)? as u64;
        let mut state = self.shared.state();
        let given = state.given.get_mut(&offset)?;
        if given.is_sent || given.bytes != leaf.len() {
            return None;
        }
        given.is_sent = true;
        drop(state);
        let (structure_bytes, shared) = (structure.len(), self.shared.clone());
        let sent = Sent { shared, offset, structure_bytes, leaf: leaf.clone() };
        let to = self.shared.range.at(sent.image_at(), structure_bytes);
        // SAFETY: the room in front of the buffer is mapped to be written, and the buffer exists,
        // since `leaf` is it. `is_sent` was not set, so no other `Sent` has the room. Private
        // memory does not overlap with a heap, and a structure in another room not with this one.
        unsafe { core::ptr::copy(structure.as_ptr(), to.as_ptr(), structure_bytes) }
        Some(sent)
    }
}

impl Sent {
    /// Where the image begins in the heap.
    pub fn image_at(&self) -> u64 {
        self.offset - self.structure_bytes as u64
    }

    /// The bytes of the image: a multiple of 8.
    pub fn image_bytes(&self) -> usize {
        self.structure_bytes + self.leaf.len().next_multiple_of(ALIGN)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // The buffer is there: `leaf` is it.
        if let Some(given) = state.given.get_mut(&self.offset) {
            given.is_sent = false;
        }
    }
}

impl Buffer {
    /// Shortens the buffer.
    ///
    /// # Panics
    /// If it is shorter.
    pub fn truncate(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "a buffer is not made longer");
        self.bytes = bytes;
        if let Some(given) = self.shared.state().given.get_mut(&self.offset) {
            given.bytes = bytes;
        }
        self.clear_padding();
    }

    /// The buffer as bytes that may be shared. Its memory comes back when the last owner drops them
    /// and the service does not read them any more.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn clear_padding(&mut self) {
        let padding = self.bytes.next_multiple_of(ALIGN) - self.bytes;
        let at = self.shared.range.at(self.offset + self.bytes as u64, padding);
        // SAFETY: a buffer has memory for whole multiples of `ALIGN`, which nobody else accesses.
        unsafe { core::ptr::write_bytes(at.as_ptr(), 0, padding) }
    }

    fn start(&self) -> NonNull<u8> {
        self.shared.range.at(self.offset, self.bytes)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is mapped while there is `shared`, initialised since it is shared
        // memory, and written through `&mut self` only.
        unsafe { core::slice::from_raw_parts(self.start().as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and `&mut self` is the only access by this program, since no
        // buffers overlap. The service never writes a send heap.
        unsafe { core::slice::from_raw_parts_mut(self.start().as_ptr(), self.bytes) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.given.remove(&self.offset);
        let place = self.offset - STRUCTURE_BYTES_MAX as u64;
        state.blocks.free(place).expect("it was given out");
    }
}

impl core::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.shared.state();
        let bytes = state.blocks.used_bytes();
        f.debug_struct("Buffers").field("given", &state.given.len()).field("bytes", &bytes).finish()
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Buffer").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Sent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (at, bytes) = (self.image_at(), self.image_bytes());
        f.debug_struct("Sent").field("at", &at).field("bytes", &bytes).finish()
    }
}
