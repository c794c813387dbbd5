//! One message's memory. See the crate's documentation for the layout.

use core::fmt;
use core::ptr::{self, NonNull};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::Segment;
use crate::layout::{HEADER_BYTES, PAYLOAD_BYTES_MIN};
use crate::memory;
use crate::tail::Tail;

/// Where the data begin in the allocation if nothing is skipped: after the numbers and the room for
/// header 0.
const DATA_OFFSET: usize = size_of::<Numbers>() + HEADER_BYTES;

/// A buffer for one message of up to [`MsgBuf::capacity`] bytes.
///
/// It is a single pointer to a single allocation, because a buffer changes hands several times in
/// the life of every call. The data begin at a multiple of [`MsgBuf::DATA_ALIGN`] and do not move
/// while the buffer lives, except by [`MsgBuf::skip`].
///
/// A message to be sent may continue in a *tail*: bytes outside of the buffer ([`MsgBuf::attach`]).
/// [`MsgBuf::len`] includes the tail; slices contain only the buffer's own data.
pub struct MsgBuf {
    /// An allocation of `layout(capacity + skipped)`, all of it initialised: the numbers, room for
    /// header 0, `capacity + skipped` bytes, and room for the later headers when these bytes are
    /// cut into packets of [`PAYLOAD_BYTES_MIN`].
    numbers: NonNull<Numbers>,
}

/// Invariants: `len <= capacity`, `skipped` is a multiple of [`MsgBuf::DATA_ALIGN`], and
/// `capacity + skipped` fits 32 bits and never changes. `tail_bytes` is the length of the tail,
/// which `len` includes.
#[repr(C)]
struct Numbers {
    /// Bytes of the message: the buffer's own data and the tail.
    len: u32,
    /// The most bytes that the buffer's own data can have.
    capacity: u32,
    /// How many bytes after [`DATA_OFFSET`] the data begin.
    skipped: u32,
    tail_bytes: u32,
    tail: Option<Box<Tail>>,
}

const _: () = assert!(DATA_OFFSET.is_multiple_of(MsgBuf::DATA_ALIGN));
const _: () = assert!(align_of::<Numbers>() <= MsgBuf::DATA_ALIGN);

// SAFETY: the buffer is the only owner of its memory, which holds only bytes and numbers.
unsafe impl Send for MsgBuf {}
// SAFETY: the memory is written only through `&mut`.
unsafe impl Sync for MsgBuf {}

/// The allocation of a buffer of `capacity` bytes.
#[inline]
fn layout(capacity: usize) -> Layout {
    let bytes = DATA_OFFSET + capacity + later_headers(capacity) * HEADER_BYTES;
    Layout::from_size_align(bytes, MsgBuf::DATA_ALIGN).expect("a capacity fits 32 bits")
}

#[inline]
fn later_headers(capacity: usize) -> usize {
    capacity.div_ceil(PAYLOAD_BYTES_MIN).saturating_sub(1)
}

impl MsgBuf {
    /// The data begin at an address that is a multiple of this many bytes.
    pub const DATA_ALIGN: usize = 8;

    /// Allocates a zeroed buffer whose length is `len` bytes and whose capacity is the same.
    pub fn new(len: usize) -> MsgBuf {
        let mut buf = MsgBuf::with_capacity(len);
        buf.set_len(len);
        buf
    }

    /// Allocates an empty buffer with room for `capacity` bytes of data.
    ///
    /// # Panics
    /// If `capacity` does not fit 32 bits. Callers limit sizes well below that.
    pub fn with_capacity(capacity: usize) -> MsgBuf {
        let number = u32::try_from(capacity).expect("message sizes are bounded by 2^28");
        let layout = layout(capacity);
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(first_byte) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let numbers = first_byte.cast::<Numbers>();
        let (len, skipped, tail_bytes) = (0, 0, 0);
        let first = Numbers { len, capacity: number, skipped, tail_bytes, tail: None };
        // SAFETY: the allocation begins with them, and is aligned for them.
        unsafe { numbers.write(first) };
        memory::allocated(capacity);
        MsgBuf { numbers }
    }

    /// A buffer that holds a copy of `data`.
    pub fn from_slice(data: &[u8]) -> MsgBuf {
        let mut buf = MsgBuf::new(data.len());
        buf.as_mut_slice().copy_from_slice(data);
        buf
    }

    /// Length of the message in bytes, including the tail if there is one.
    #[inline]
    pub fn len(&self) -> usize {
        self.numbers().len as usize
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn own_len(&self) -> usize {
        let Numbers { len, tail_bytes, .. } = self.numbers();
        (len - tail_bytes) as usize
    }

    /// The most bytes that the buffer's own data can have.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.numbers().capacity as usize
    }

    /// Sets the length of the buffer's own data. Bytes beyond the old length keep whatever was in
    /// the memory.
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length within capacity");
        let numbers = self.numbers_mut();
        numbers.len = len as u32 + numbers.tail_bytes;
    }

    /// Skips the first `bytes` of the data: until [`MsgBuf::rewind`], the data begin later, and
    /// length and capacity are smaller by that much. So a message can be sent without moving it
    /// even if it does not need all the room that was left before it.
    ///
    /// # Panics
    /// If there are fewer, or `bytes` is no multiple of [`MsgBuf::DATA_ALIGN`].
    #[inline]
    pub fn skip(&mut self, bytes: usize) {
        let skips = bytes <= self.own_len() && bytes.is_multiple_of(MsgBuf::DATA_ALIGN);
        assert!(skips, "data to skip");
        let numbers = self.numbers_mut();
        numbers.len -= bytes as u32;
        numbers.capacity -= bytes as u32;
        numbers.skipped += bytes as u32;
    }

    /// Undoes all skips and removes the tail, so that the buffer is as it was before a message was
    /// sent with it.
    #[inline]
    pub fn rewind(&mut self) {
        let numbers = self.numbers_mut();
        let skipped = core::mem::take(&mut numbers.skipped);
        numbers.len += skipped;
        numbers.capacity += skipped;
        if numbers.tail_bytes != 0 {
            self.detach();
        }
    }

    /// Appends `segments` to the message as its tail. They are sent from where they are, without a
    /// copy. If the whole message fits into a packet of any size, they are copied instead.
    ///
    /// # Panics
    /// If there is a tail already, if there are more than [`crate::SEGMENTS_MAX`] segments, or if
    /// the message's length does not fit 32 bits. Callers limit sizes well below that.
    #[cold]
    pub fn attach(&mut self, segments: Vec<Segment>) {
        assert!(!self.has_tail(), "a message has one tail");
        let tail = Tail::new(segments);
        let fits = u32::try_from(self.own_len() + tail.bytes()).is_ok();
        assert!(fits, "message sizes are bounded by 2^28");
        if tail.bytes() == 0 {
            return;
        }
        let numbers = self.numbers_mut();
        numbers.tail_bytes = tail.bytes() as u32;
        numbers.len += numbers.tail_bytes;
        numbers.tail = Some(Box::new(tail));
        if self.len() <= PAYLOAD_BYTES_MIN {
            // So short messages are contiguous, and are sent as such.
            self.flatten();
        }
    }

    /// Whether something is skipped, or there is a tail.
    #[inline]
    pub(crate) fn is_changed(&self) -> bool {
        let Numbers { skipped, tail_bytes, .. } = self.numbers();
        skipped | tail_bytes != 0
    }

    #[cold]
    #[inline(never)]
    fn detach(&mut self) {
        drop(self.take_tail());
    }

    /// Removes the tail and returns it, to be attached to another buffer ([`MsgBuf::attach`]). None
    /// of it has been sent.
    pub fn take_tail(&mut self) -> Vec<Segment> {
        let numbers = self.numbers_mut();
        numbers.len -= core::mem::take(&mut numbers.tail_bytes);
        numbers.tail.take().map_or_else(Vec::new, |tail| tail.into_segments())
    }

    /// What was attached ([`MsgBuf::attach`]) and not taken, in order.
    pub fn attached(&self) -> &[Segment] {
        self.tail().map_or(&[], Tail::segments)
    }

    /// Whether there is a tail, so that slices do not contain the whole message.
    #[inline]
    pub fn has_tail(&self) -> bool {
        self.numbers().tail_bytes != 0
    }

    /// Whether a part of the tail lies in memory that somebody else may write. Packets of such a
    /// message are best copied one by one as they are sent ([`MsgBuf::copy_range`]): what
    /// [`MsgBuf::write_header`] has copied is kept until the message is gone.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.has_tail() && self.has_shared()
    }

    #[cold]
    #[inline(never)]
    fn has_shared(&self) -> bool {
        self.tail().is_some_and(Tail::is_shared)
    }

    #[inline]
    fn tail(&self) -> Option<&Tail> {
        self.numbers().tail.as_deref()
    }

    /// Copies the message's bytes from `start` on, out of the buffer and its tail.
    ///
    /// # Panics
    /// If there are fewer than `to` has.
    pub fn copy_range(&self, start: usize, to: &mut [u8]) {
        match self.tail() {
            Some(tail) => tail.copy_range(self.as_slice(), start, to),
            None => to.copy_from_slice(&self.as_slice()[start..start + to.len()]),
        }
    }

    /// The buffer's own data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes from there on are the buffer's, initialised, and borrowed with it.
        unsafe { core::slice::from_raw_parts(self.data().as_ptr(), self.own_len()) }
    }

    /// The buffer's own data, mutable. If the message has a tail, its packets contain the bytes
    /// that were there when their headers were written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and the buffer is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.data().as_ptr(), self.own_len()) }
    }

    /// A pointer to the data. It is a multiple of [`MsgBuf::DATA_ALIGN`], and the same while the
    /// buffer lives and nothing is skipped. It is valid for [`MsgBuf::capacity`] bytes, all
    /// initialised, and for the [`HEADER_BYTES`] before them, until the next call that takes
    /// `&mut self`.
    #[inline]
    pub fn data_ptr(&mut self) -> NonNull<u8> {
        self.data()
    }

    /// Like [`MsgBuf::data_ptr`], to be read from.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.data().as_ptr()
    }

    /// Sets the length to that of `data` and copies it in.
    ///
    /// # Panics
    /// If `data` is longer than the capacity.
    #[inline]
    pub fn copy_from(&mut self, data: &[u8]) {
        self.set_len(data.len());
        crate::copy_short(self.as_mut_slice(), data);
    }

    /// Writes the header of packet `index`, where packets carry `payload_bytes` each.
    ///
    /// # Panics
    /// If the message has no such packet.
    #[inline]
    pub fn write_header(&mut self, index: u32, payload_bytes: usize, header: &[u8; HEADER_BYTES]) {
        if self.has_tail() {
            return self.write_tail_header(index, payload_bytes, header);
        }
        let place = self.header(index);
        // SAFETY: room for a header in this buffer, which is borrowed alone.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), place.as_ptr(), HEADER_BYTES) };
    }

    #[cold]
    fn write_tail_header(&mut self, index: u32, payload_bytes: usize, header: &[u8; HEADER_BYTES]) {
        let mut tail = self.numbers_mut().tail.take().expect("a tail has bytes");
        tail.write_header(self.as_slice(), index, payload_bytes, header);
        self.numbers_mut().tail = Some(tail);
    }

    /// Packet `index` of the message, cut into `payload_bytes` each, header first. Packet 0 is one
    /// contiguous piece and an empty one; later packets are a header and its data.
    ///
    /// # Panics
    /// If the message has no such packet.
    #[inline]
    pub fn packet(&self, index: u32, payload_bytes: usize) -> (&[u8], &[u8]) {
        if let Some(tail) = self.tail() {
            return tail.packet(self.as_slice(), index, payload_bytes);
        }
        if index == 0 {
            let bytes = HEADER_BYTES + self.own_len().min(payload_bytes);
            // SAFETY: header 0 and the data behind it, initialised, and borrowed with the buffer.
            return (unsafe { core::slice::from_raw_parts(self.header(0).as_ptr(), bytes) }, &[]);
        }
        let start = index as usize * payload_bytes;
        let data = &self.as_slice()[start..];
        let body = &data[..data.len().min(payload_bytes)];
        let header = self.header(index);
        // SAFETY: room for a header, initialised, and borrowed with the buffer.
        (unsafe { core::slice::from_raw_parts(header.as_ptr(), HEADER_BYTES) }, body)
    }

    /// The capacity if nothing were skipped.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let Numbers { capacity, skipped, .. } = self.numbers();
        (capacity + skipped) as usize
    }

    /// Bytes of memory that the buffer occupies, without its tail.
    pub fn footprint_bytes(&self) -> usize {
        self.layout().size()
    }

    fn layout(&self) -> Layout {
        layout(self.room())
    }

    #[inline]
    fn numbers(&self) -> &Numbers {
        // SAFETY: the allocation begins with them; no other reference covers them.
        unsafe { self.numbers.as_ref() }
    }

    #[inline]
    fn numbers_mut(&mut self) -> &mut Numbers {
        // SAFETY: as above, and the buffer is borrowed alone.
        unsafe { self.numbers.as_mut() }
    }

    #[inline]
    fn data(&self) -> NonNull<u8> {
        let skipped = self.numbers().skipped as usize;
        // SAFETY: at most `capacity + skipped` bytes behind `DATA_OFFSET`, in the allocation.
        unsafe { self.numbers.cast::<u8>().add(DATA_OFFSET + skipped) }
    }

    /// Room for the header of a packet: directly before the data for packet 0, after all data for
    /// the others.
    #[inline]
    fn header(&self, index: u32) -> NonNull<u8> {
        if index == 0 {
            // SAFETY: there is room for a header before the data, wherever they begin.
            return unsafe { self.data().sub(HEADER_BYTES) };
        }
        let (capacity, later) = (self.capacity(), index as usize - 1);
        let skipped = self.numbers().skipped as usize;
        assert!(later < later_headers(capacity + skipped), "the message has such a packet");
        // SAFETY: one of the later headers' rooms, behind the greatest length.
        unsafe { self.data().add(capacity + later * HEADER_BYTES) }
    }
}

impl Drop for MsgBuf {
    #[inline]
    fn drop(&mut self) {
        let layout = self.layout();
        memory::freed(self.capacity() + self.numbers().skipped as usize);
        if self.has_tail() {
            self.detach();
        }
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.numbers.as_ptr().cast(), layout) };
    }
}

impl core::ops::Deref for MsgBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl core::ops::DerefMut for MsgBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl AsRef<[u8]> for MsgBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for MsgBuf {
    fn from(data: &[u8]) -> MsgBuf {
        MsgBuf::from_slice(data)
    }
}

impl fmt::Debug for MsgBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MsgBuf({} of {} bytes)", self.len(), self.capacity())
    }
}

#[cfg(test)]
mod tests;
