//! The memory of one message under construction: chunks with a bump allocator, and adopted bytes.
//!
//! The first chunk is a buffer with room for a header (M20) before the root, so that it can be sent
//! without a copy (M21). The arena itself is stored in that room while the message is built. So the
//! root and the buffer, two words, are all that an owner needs. Everything that few messages need,
//! further chunks and adopted bytes, is in a separate chunk that most messages never allocate.
//!
//! The last word before the root distinguishes a message under construction from a received one:
//! either it belongs to the arena, and its lowest bit is set, or to an image's header, whose bit is
//! not.
//!
//! Invariants: the addresses of chunks and of adopted bytes do not change while the arena lives,
//! wherever its owner is moved. The provenance of both is exposed when they are added, since parts
//! derive their pointers from it. Nothing here accesses the contents of a chunk, except of an
//! object that it returns. The arena uses cells, so it works through `&`: many cursors may share
//! one, all on the thread that edits the message. Functions for messages that are only read,
//! [`Arena::adopted`] and [`Arena::allocated_bytes`], write no cell, since several threads may call
//! them at once.

mod chunk;
mod object;

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use bytes::Bytes;
use petasos_buf::MsgBuf;

use self::chunk::Chunks;
pub(crate) use self::object::Object;
use crate::heap::{self, Heap};

/// Room before an image that belongs to the layer that carries it (M20).
pub const ROOM_BYTES: usize = 16;

/// Where the root lies in the first chunk: behind the room and the image's header.
pub(crate) const ROOT_OFFSET: usize = ROOM_BYTES + 8;

/// Set in the last word of every arena. The first byte of an image is a multiple of 8 (M20).
const BUILT: usize = 1;
/// Set in it when there are objects that nothing points to any more (M14).
const ABANDONED: usize = 2;

/// The length of a field's bytes.
///
/// # Panics
/// If there are 2^32 - 7 or more: no message can have so many (M18), and a part cannot count them.
#[inline(always)]
pub(crate) fn field_bytes(len: usize) -> u32 {
    assert!(len <= (u32::MAX - 7) as usize, "a field holds less than 4 GiB");
    len as u32
}

/// Bytes of an object's memory: objects begin at multiples of 8 (M2).
#[inline(always)]
pub(crate) const fn rounded(bytes: u32) -> usize {
    (bytes as usize + 7) & !7
}

/// The memory of a message that is being built. For generated code and this crate.
#[repr(C)]
pub struct Arena {
    /// Where the next object goes: a multiple of 8, at most `end`.
    next: Cell<NonNull<u8>>,
    /// Where the chunk in use ends: at a multiple of 8.
    end: Cell<NonNull<u8>>,
    /// Null or where the rest lies, with [`BUILT`] and perhaps [`ABANDONED`] in its lowest bits.
    rest: Cell<*mut Rest>,
}

const _: () = assert!(size_of::<Arena>() == ROOT_OFFSET && align_of::<Rest>() > BUILT | ABANDONED);

/// What few messages need. It lies in a chunk from the heap, so that longer messages, too, are
/// built without an allocation.
struct Rest {
    /// What it lies in.
    own: MsgBuf,
    chunks: Chunks,
    adopted: Vec<Bytes>,
    /// Bytes of `chunks` and `adopted` together.
    bytes: usize,
    /// Bytes of the first chunk.
    first_bytes: usize,
}

const _: () = assert!(size_of::<Rest>() <= heap::CHUNK_BYTES);
const _: () = assert!(align_of::<Rest>() <= MsgBuf::DATA_ALIGN);

/// Owns an arena: the chunk that it lies in, and what it refers to.
pub(crate) struct OwnedArena {
    at: NonNull<Arena>,
    /// The first chunk, at whose begin the arena lies.
    first: ManuallyDrop<MsgBuf>,
}

// SAFETY: an arena owns all that it points to, and its cells are reached by one thread at a time,
// because it is not `Sync`.
unsafe impl Send for OwnedArena {}

impl Deref for OwnedArena {
    type Target = Arena;
    #[inline(always)]
    fn deref(&self) -> &Arena {
        // SAFETY: the arena lies in the chunk that is owned.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for OwnedArena {
    fn drop(&mut self) {
        // SAFETY: nothing uses the arena after its owner's drop, and the buffer is taken once.
        unsafe {
            self.drop_rest();
            heap::give(ManuallyDrop::take(&mut self.first));
        }
    }
}

impl OwnedArena {
    /// Where the root lies, once it is made, and the chunk that it lies in.
    #[inline(always)]
    pub(crate) fn into_parts(self) -> (NonNull<u8>, MsgBuf) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the root follows the arena in the chunk. The buffer is taken once, from an owner
        // that is not dropped.
        unsafe { (this.at.add(1).cast(), ManuallyDrop::take(&mut this.first)) }
    }
}

impl Arena {
    /// An arena with one small chunk.
    #[inline(always)]
    pub(crate) fn new_in(heap: &Heap) -> OwnedArena {
        // SAFETY: chunks of a heap have this size.
        unsafe { Arena::in_chunk(heap.take_chunk(), heap::CHUNK_BYTES) }
    }

    /// An arena whose first chunk has room for objects of `bytes` in all.
    pub(crate) fn with_capacity(heap: &Heap, bytes: usize) -> OwnedArena {
        let bytes = bytes.saturating_add(ROOT_OFFSET).min(u32::MAX as usize / 2);
        Arena::in_roomy(heap.take(bytes.next_multiple_of(8)))
    }

    /// An arena in all of a chunk, of at least [`ROOT_OFFSET`] bytes.
    fn in_roomy(first: MsgBuf) -> OwnedArena {
        let bytes = first.capacity() & !7;
        // SAFETY: heaps give what they are asked for, and the chunk has so many bytes.
        unsafe { Arena::in_chunk(first, bytes) }
    }

    /// An arena in the first `bytes` of a chunk.
    ///
    /// # Safety
    /// The chunk has so many, a multiple of 8 and at least [`ROOT_OFFSET`].
    #[inline(always)]
    unsafe fn in_chunk(mut first: MsgBuf, bytes: usize) -> OwnedArena {
        let base = first.data_ptr();
        base.as_ptr().expose_provenance();
        let at = base.cast::<Arena>();
        // SAFETY: there is room for it, at a multiple of 8, and nothing else uses the chunk.
        unsafe {
            at.write(Arena {
                next: Cell::new(base.add(ROOT_OFFSET)),
                end: Cell::new(base.add(bytes)),
                rest: Cell::new(ptr::without_provenance_mut(BUILT)),
            });
        }
        OwnedArena { at, first: ManuallyDrop::new(first) }
    }

    /// The arena before a message's root, if it is under construction.
    ///
    /// # Safety
    /// `root` is a message's in a buffer: behind an arena, or behind an image's header.
    #[inline(always)]
    pub(crate) unsafe fn before<'a>(root: NonNull<u8>) -> Option<&'a Arena> {
        // SAFETY: either has a word there, at a multiple of 8; any bytes are a pointer without
        // provenance.
        let last = unsafe { root.cast::<*mut Rest>().sub(1).read() };
        // SAFETY: only an arena has this bit set.
        (last.addr() & BUILT != 0).then(|| unsafe { root.cast::<Arena>().sub(1).as_ref() })
    }

    /// Lets go of all but the first chunk.
    ///
    /// # Safety
    /// The arena is not used any more.
    #[inline(always)]
    pub(crate) unsafe fn drop_rest(&self) {
        let rest = self.rest_ptr();
        if !rest.is_null() {
            // SAFETY: made by `with_rest`, and dropped once.
            unsafe { drop_at(rest) };
        }
    }

    /// Memory for an object: `bytes` of it zeroed and the padding behind them too (M13), at a
    /// multiple of 8.
    #[inline(always)]
    pub(crate) fn object(&self, bytes: u32) -> Object<'_> {
        let at = self.bump(rounded(bytes));
        // SAFETY: `bump` gave `rounded(bytes)` bytes that nothing else uses.
        unsafe { ptr::write_bytes(at.as_ptr(), 0, rounded(bytes)) };
        Object::new(at, bytes)
    }

    /// [`Arena::object`] of a size that only a plan knows: a short one is zeroed without a call.
    #[inline(always)]
    pub(crate) fn object_by_plan(&self, bytes: u32) -> Object<'_> {
        let at = self.bump(rounded(bytes));
        // SAFETY: `bump` gave `rounded(bytes)` bytes that nothing else uses.
        unsafe { zero(at, rounded(bytes)) };
        Object::new(at, bytes)
    }

    /// A copy of `bytes`, with zeros up to a multiple of 8.
    ///
    /// # Panics
    /// If a field cannot hold so many ([`field_bytes`]).
    #[inline(always)]
    pub(crate) fn leaf(&self, bytes: &[u8]) -> Object<'_> {
        let len = field_bytes(bytes.len());
        let whole = rounded(len);
        let at = self.bump(whole);
        if whole != 0 {
            // SAFETY: `bump` gave `whole` bytes, at least 8, that nothing else uses: the last 8
            // are zeroed and as many as there are copied. `bytes` cannot overlap with them.
            unsafe {
                at.as_ptr().add(whole - 8).cast::<u64>().write(0);
                copy(bytes, at);
            }
        }
        Object::new(at, len)
    }

    /// Keeps `bytes` as long as the arena, to be pointed at where they lie (M16).
    ///
    /// # Panics
    /// If a field cannot hold so many ([`field_bytes`]).
    pub(crate) fn adopt(&self, bytes: Bytes) -> Object<'_> {
        let len = field_bytes(bytes.len());
        let at = bytes.as_ptr();
        at.expose_provenance();
        let at = NonNull::new(at.cast_mut()).expect("a slice is nowhere null");
        self.with_rest(|rest| {
            rest.bytes += bytes.len();
            rest.adopted.push(bytes);
        });
        Object::new(at, len)
    }

    /// Lets go of adopted bytes that begin at `at`, when nothing points to them any more.
    #[cold]
    pub(crate) fn release(&self, at: *const u8) {
        self.with_rest(|rest| {
            if let Some(index) = rest.adopted.iter().position(|bytes| bytes.as_ptr() == at) {
                rest.bytes -= rest.adopted.swap_remove(index).len();
            }
        });
    }

    /// Adopted bytes of which these are a piece, with their owner.
    pub(crate) fn adopted(&self, piece: &[u8]) -> Option<Bytes> {
        let range = piece.as_ptr_range();
        let adopted = &self.rest()?.adopted;
        let mut adopted = adopted.iter().map(|bytes| (bytes, bytes.as_ptr_range()));
        let found = adopted.find(|(_, all)| all.start <= range.start && range.end <= all.end);
        found.map(|(bytes, all)| {
            let start = range.start.addr() - all.start.addr();
            bytes.slice(start..start + piece.len())
        })
    }

    /// Notes that an object of `bytes` is no longer pointed to (M14).
    #[inline(always)]
    pub(crate) fn abandon(&self, bytes: u32) {
        if bytes != 0 {
            self.rest.set(self.rest.get().map_addr(|rest| rest | ABANDONED));
        }
    }

    /// Bytes of memory that the message keeps: chunks and adopted bytes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.rest().map_or_else(|| self.chunk_bytes(), |rest| rest.first_bytes + rest.bytes)
    }

    /// Bytes that objects and adopted bytes may take: all but what is left of the chunk in use. So
    /// no leaf is longer.
    pub(crate) fn used_bytes(&self) -> usize {
        self.allocated_bytes() - self.left()
    }

    /// Bytes of the first chunk, as long as it is the only one.
    fn chunk_bytes(&self) -> usize {
        self.end.get().addr().get() - ptr::from_ref(self).addr()
    }

    /// What few messages need, to be read. Several threads may, when all of them have the message
    /// by `&`: so this writes no cell.
    #[inline(always)]
    fn rest(&self) -> Option<&Rest> {
        // SAFETY: only `with_rest` writes what the pointer leads to, and only what ends the arena
        // frees it. Both are reached from a message that is borrowed to be edited, or owned; and
        // what this lends is used up within functions of this module that call neither.
        unsafe { self.rest_ptr().as_ref() }
    }

    #[inline(always)]
    fn rest_ptr(&self) -> *mut Rest {
        self.rest.get().map_addr(|rest| rest & !(BUILT | ABANDONED))
    }

    /// Makes the object of `bytes` at `at` larger where it lies, if it is the last in its chunk and
    /// there is room. What is added is zeroed.
    #[inline]
    pub(crate) fn extend(&self, at: NonNull<u8>, bytes: u32, bytes_wanted: u32) -> bool {
        let (old, new) = (rounded(bytes), rounded(bytes_wanted));
        let more = new.saturating_sub(old);
        if at.addr().get() + old != self.next.get().addr().get() || more > self.left() {
            return false;
        }
        let added = self.bump(more);
        // SAFETY: `bump` gave `more` bytes that nothing else uses.
        unsafe { ptr::write_bytes(added.as_ptr(), 0, more) };
        true
    }

    /// Bytes of the first chunk in use, the arena's own included, if it holds the whole message and
    /// nothing else (M21).
    #[inline(always)]
    pub(crate) fn whole_bytes(&self) -> Option<usize> {
        if self.rest.get().addr() != BUILT && !self.is_whole() {
            return None;
        }
        Some(self.next.get().addr().get() - ptr::from_ref(self).addr())
    }

    #[cold]
    fn is_whole(&self) -> bool {
        self.rest.get().addr() & ABANDONED == 0 && self.rest().is_none_or(|rest| rest.bytes == 0)
    }

    /// A copy of the arena with all its objects, if they lie in its first chunk and nothing else
    /// does. They begin with the root.
    pub(crate) fn copied(&self) -> Option<OwnedArena> {
        let used = self.whole_bytes()?;
        let copy = Arena::in_roomy(Heap::process_default().take(used));
        let objects = used - ROOT_OFFSET;
        // SAFETY: `objects` bytes follow this arena, and the copy's chunk has room for `used`.
        unsafe {
            let from = ptr::from_ref(self).addr() + ROOT_OFFSET;
            let from = ptr::with_exposed_provenance::<u8>(from);
            ptr::copy_nonoverlapping(from, copy.next.get().as_ptr(), objects);
        }
        copy.bump(objects);
        Some(copy)
    }

    /// Whether an object is the arena's first.
    pub(crate) fn is_first(&self, at: NonNull<u8>) -> bool {
        at.addr().get() == ptr::from_ref(self).addr() + ROOT_OFFSET
    }

    /// Bytes of the chunk in use that are free.
    #[inline(always)]
    fn left(&self) -> usize {
        self.end.get().addr().get() - self.next.get().addr().get()
    }

    /// `bytes` of memory, a multiple of 8, contents unspecified.
    #[inline(always)]
    fn bump(&self, bytes: usize) -> NonNull<u8> {
        if bytes > self.left() {
            return self.bump_elsewhere(bytes);
        }
        let at = self.next.get();
        // SAFETY: at most to the end of the chunk in use.
        self.next.set(unsafe { at.add(bytes) });
        at
    }

    /// Goes on in a chunk that is as large as all before it, or as this object needs.
    #[cold]
    #[inline(never)]
    fn bump_elsewhere(&self, bytes: usize) -> NonNull<u8> {
        self.with_rest(|rest| {
            let before = rest.first_bytes + rest.chunks.bytes();
            let (at, chunk_bytes) = rest.chunks.add(bytes.max(before).next_multiple_of(8));
            rest.bytes += chunk_bytes;
            // SAFETY: the chunk has so many bytes, and at least `bytes`.
            unsafe {
                self.next.set(at.add(bytes));
                self.end.set(at.add(chunk_bytes));
            }
            at
        })
    }

    fn with_rest<R>(&self, change: impl FnOnce(&mut Rest) -> R) -> R {
        if self.rest_ptr().is_null() {
            let mut own = Heap::PRIVATE.take_chunk();
            let at = own.data_ptr().cast::<Rest>().as_ptr();
            let first_bytes = self.chunk_bytes();
            let (chunks, adopted) = (Chunks::default(), Vec::new());
            let rest = Rest { own, chunks, adopted, bytes: 0, first_bytes };
            // SAFETY: the chunk is large and aligned enough, and its data stay where they are.
            unsafe { at.write(rest) };
            let flags = self.rest.get().addr();
            self.rest.set(at.map_addr(|rest| rest | flags));
        }
        // SAFETY: this arena's, which is being edited: nobody else reads or writes it.
        change(unsafe { &mut *self.rest_ptr() })
    }
}

/// # Safety
/// `rest` was written by [`Arena::with_rest`], and nothing uses it any more.
#[cold]
#[inline(never)]
unsafe fn drop_at(rest: *mut Rest) {
    // SAFETY: the caller's promise.
    let Rest { own, chunks, adopted, .. } = unsafe { rest.read() };
    drop((chunks, adopted));
    heap::give(own);
}

/// Zeroes short objects with two moves that may overlap in place of a call.
///
/// # Safety
/// `at` must be valid for writes of `bytes` bytes, a multiple of 8.
#[inline(always)]
unsafe fn zero(at: NonNull<u8>, bytes: usize) {
    // SAFETY: passed on; each arm's length is at least `N` and at most `2 * N`.
    unsafe {
        match bytes {
            16..=32 => zero_ends::<16>(at, bytes),
            33..=64 => zero_ends::<32>(at, bytes),
            65..=128 => zero_ends::<64>(at, bytes),
            bytes => ptr::write_bytes(at.as_ptr(), 0, bytes),
        }
    }
}

/// # Safety
/// As [`zero`], and there are `N` to `2 * N` bytes.
#[inline(always)]
unsafe fn zero_ends<const N: usize>(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the first `N` bytes and the last `N`; arrays need no alignment.
    unsafe {
        at.cast::<[u8; N]>().write([0; N]);
        at.add(bytes - N).cast::<[u8; N]>().write([0; N]);
    }
}

/// Copies short leaves with two moves that may overlap in place of a call.
///
/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes that do not overlap with `bytes`.
#[inline(always)]
pub(crate) unsafe fn copy(bytes: &[u8], to: NonNull<u8>) {
    // SAFETY: passed on; each arm's length is at least `N` and at most `2 * N`.
    unsafe {
        match bytes.len() {
            8..=16 => copy_ends::<8>(bytes, to),
            17..=32 => copy_ends::<16>(bytes, to),
            33..=64 => copy_ends::<32>(bytes, to),
            len => ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), len),
        }
    }
}

/// # Safety
/// As [`copy`], and `bytes` has `N` to `2 * N` bytes.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(bytes: &[u8], to: NonNull<u8>) {
    let last = bytes.len() - N;
    // SAFETY: the first `N` bytes and the last `N` are within both; arrays need no alignment.
    unsafe {
        let first = bytes.as_ptr().cast::<[u8; N]>().read();
        let second = bytes.as_ptr().add(last).cast::<[u8; N]>().read();
        to.cast::<[u8; N]>().write(first);
        to.add(last).cast::<[u8; N]>().write(second);
    }
}

#[cfg(test)]
mod tests;
