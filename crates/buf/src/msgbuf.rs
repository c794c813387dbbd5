//! One message's memory. See the crate's documentation for the layout.

use core::fmt;
use core::ptr::{self, NonNull};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Bytes of one packet header, as the wire protocol fixes it.
pub const HEADER_BYTES: usize = 24;

/// The smallest payload that a packet of a multi-packet message may carry; it bounds the number
/// of headers for which a buffer reserves room.
pub const PAYLOAD_BYTES_MIN: usize = 1024;

/// Where the data begin in the allocation, before anything is skipped: behind the numbers and the
/// room for header 0.
const DATA_OFFSET: usize = size_of::<Numbers>() + HEADER_BYTES;

/// A buffer for one message of up to [`MsgBuf::capacity`] bytes.
///
/// One pointer, because a buffer changes hands several times in the life of every call, to one
/// allocation. The data begin at a multiple of [`MsgBuf::DATA_ALIGN`] and stay where they are while
/// the buffer lives, [`MsgBuf::skip`] apart.
pub struct MsgBuf {
    /// An allocation of `layout(capacity + skipped)`, all of it initialised: the numbers, room for
    /// header 0, `capacity + skipped` bytes, and room for the later headers when these bytes are
    /// cut into packets of [`PAYLOAD_BYTES_MIN`].
    numbers: NonNull<Numbers>,
}

/// Invariants: `len <= capacity`, `skipped` is a multiple of [`MsgBuf::DATA_ALIGN`], and
/// `capacity + skipped` fits 32 bits and never changes.
#[repr(C)]
struct Numbers {
    /// Bytes of data.
    len: u32,
    /// The most they can be.
    capacity: u32,
    /// How many bytes behind [`DATA_OFFSET`] they begin.
    skipped: u32,
    reserved: u32,
}

const _: () = assert!(DATA_OFFSET.is_multiple_of(MsgBuf::DATA_ALIGN));
const _: () = assert!(align_of::<Numbers>() <= MsgBuf::DATA_ALIGN);

// SAFETY: the buffer owns its memory alone, which is bytes and numbers.
unsafe impl Send for MsgBuf {}
// SAFETY: it is written through `&mut` only.
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
    /// If `capacity` does not fit 32 bits; callers bound sizes long before.
    pub fn with_capacity(capacity: usize) -> MsgBuf {
        let number = u32::try_from(capacity).expect("message sizes are bounded by 2^28");
        let layout = layout(capacity);
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let numbers = memory.cast::<Numbers>();
        let first = Numbers { len: 0, capacity: number, skipped: 0, reserved: 0 };
        // SAFETY: the allocation begins with them, and is aligned for them.
        unsafe { numbers.write(first) };
        MsgBuf { numbers }
    }

    /// A buffer that holds a copy of `data`.
    pub fn from_slice(data: &[u8]) -> MsgBuf {
        let mut buf = MsgBuf::new(data.len());
        buf.as_mut_slice().copy_from_slice(data);
        buf
    }

    /// Length of the data, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.numbers().len as usize
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numbers().len == 0
    }

    /// The greatest length this buffer can take, in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.numbers().capacity as usize
    }

    /// Sets the length; bytes beyond the old length hold what the memory held.
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length within capacity");
        self.numbers_mut().len = len as u32;
    }

    /// Leaves out the first `bytes` of the data: they begin later, and length and capacity are that
    /// much less, until [`MsgBuf::rewind`]. So a message with room before it that is not all needed
    /// is sent without being moved.
    ///
    /// # Panics
    /// If there are fewer, or `bytes` is no multiple of [`MsgBuf::DATA_ALIGN`].
    #[inline]
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.len() && bytes.is_multiple_of(MsgBuf::DATA_ALIGN), "data to skip");
        let numbers = self.numbers_mut();
        numbers.len -= bytes as u32;
        numbers.capacity -= bytes as u32;
        numbers.skipped += bytes as u32;
    }

    /// Takes back whatever was skipped.
    #[inline]
    pub fn rewind(&mut self) {
        let numbers = self.numbers_mut();
        let skipped = core::mem::take(&mut numbers.skipped);
        numbers.len += skipped;
        numbers.capacity += skipped;
    }

    /// The data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes from there on are the buffer's, initialised, and borrowed with it.
        unsafe { core::slice::from_raw_parts(self.data().as_ptr(), self.len()) }
    }

    /// The data, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and the buffer is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.data().as_ptr(), self.len()) }
    }

    /// Where the data begin: a multiple of [`MsgBuf::DATA_ALIGN`], the same for as long as the
    /// buffer lives and nothing is skipped. The pointer is good for [`MsgBuf::capacity`] bytes, all
    /// initialised, and for the [`HEADER_BYTES`] before them; until the next call that takes
    /// `&mut self`.
    #[inline]
    pub fn data_ptr(&mut self) -> NonNull<u8> {
        self.data()
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

    /// Writes the header of packet `index`, for packets of `payload_bytes`.
    ///
    /// # Panics
    /// If the message has no such packet.
    #[inline]
    pub fn write_header(&mut self, index: u32, header: &[u8; HEADER_BYTES]) {
        let place = self.header(index);
        // SAFETY: room for a header in this buffer, which is borrowed alone.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), place.as_ptr(), HEADER_BYTES) };
    }

    /// The packet `index` of the message cut into `payload_bytes` each, header first: either one
    /// contiguous piece and an empty one (packet 0), or a header and its data.
    ///
    /// # Panics
    /// If the message has no such packet.
    #[inline]
    pub fn packet(&self, index: u32, payload_bytes: usize) -> (&[u8], &[u8]) {
        if index == 0 {
            let bytes = HEADER_BYTES + self.len().min(payload_bytes);
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

    /// Bytes of memory that the buffer occupies.
    pub fn footprint_bytes(&self) -> usize {
        self.layout().size()
    }

    fn layout(&self) -> Layout {
        let Numbers { capacity, skipped, .. } = self.numbers();
        layout((capacity + skipped) as usize)
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

    /// Room for the header of a packet: the last bytes before the data, or behind all data.
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
mod tests {
    use super::*;

    #[test]
    fn packet_zero_is_one_contiguous_piece() {
        let mut buf = MsgBuf::from_slice(b"hello");
        buf.write_header(0, &[7; HEADER_BYTES]);
        let (head, body) = buf.packet(0, 1448);
        assert_eq!(head[..HEADER_BYTES], [7; HEADER_BYTES]);
        assert_eq!(&head[HEADER_BYTES..], b"hello");
        assert!(body.is_empty());
    }

    #[test]
    fn later_headers_never_touch_the_data() {
        let data: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        let mut buf = MsgBuf::from_slice(&data);
        let packets = data.len().div_ceil(PAYLOAD_BYTES_MIN) as u32;
        for index in 0..packets {
            buf.write_header(index, &[index as u8; HEADER_BYTES]);
        }
        assert_eq!(buf.as_slice(), data);
        let mut read = Vec::new();
        for index in 0..packets {
            let (head, body) = buf.packet(index, PAYLOAD_BYTES_MIN);
            assert_eq!(head[..HEADER_BYTES], [index as u8; HEADER_BYTES]);
            read.extend_from_slice(&head[HEADER_BYTES..]);
            read.extend_from_slice(body);
        }
        assert_eq!(read, data);
    }

    #[test]
    fn data_are_aligned_and_stay_where_they_are() {
        let mut bufs: Vec<MsgBuf> =
            [0, 1, 7, 8, 100, 512, 1024, 5000, 70_000].map(MsgBuf::with_capacity).into();
        let before: Vec<_> = bufs.iter_mut().map(MsgBuf::data_ptr).collect();
        for (buf, data) in bufs.iter_mut().zip(&before) {
            assert!(data.as_ptr().addr().is_multiple_of(MsgBuf::DATA_ALIGN));
            buf.set_len(buf.capacity());
            assert_eq!(buf.as_slice().as_ptr(), data.as_ptr().cast_const());
        }
        let mut moved: Vec<MsgBuf> = bufs.into_iter().rev().collect();
        let after: Vec<_> = moved.iter_mut().rev().map(MsgBuf::data_ptr).collect();
        assert_eq!(before, after);
    }

    #[test]
    fn what_is_skipped_is_room_for_header_0_until_it_is_taken_back() {
        let data: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        let mut buf = MsgBuf::from_slice(&data);
        let packets = (data.len() - 16).div_ceil(PAYLOAD_BYTES_MIN) as u32;
        buf.skip(8);
        buf.skip(8);
        assert_eq!((buf.len(), buf.capacity()), (4984, 4984));
        for index in 0..packets {
            buf.write_header(index, &[0xee; HEADER_BYTES]);
        }
        assert_eq!(buf.as_slice(), &data[16..]);
        assert_eq!(buf.packet(0, 2000).0[HEADER_BYTES..], data[16..2016]);
        assert_eq!(buf.packet(1, 2000), (&[0xee; HEADER_BYTES][..], &data[2016..4016]));
        let footprint_bytes = buf.footprint_bytes();
        buf.rewind();
        assert_eq!((buf.len(), buf.capacity()), (5000, 5000));
        assert_eq!((&buf[16..], buf.footprint_bytes()), (&data[16..], footprint_bytes));
    }

    #[test]
    #[should_panic(expected = "data to skip")]
    fn no_more_is_skipped_than_there_is() {
        let mut buf = MsgBuf::with_capacity(100);
        buf.set_len(7);
        buf.skip(8);
    }

    #[test]
    #[should_panic(expected = "such a packet")]
    fn a_header_that_no_packet_has_is_a_bug() {
        MsgBuf::new(2 * PAYLOAD_BYTES_MIN).write_header(2, &[0; HEADER_BYTES]);
    }

    #[test]
    fn an_empty_message_is_one_bare_header() {
        let buf = MsgBuf::new(0);
        assert_eq!(buf.packet(0, 1448).0.len(), HEADER_BYTES);
    }

    #[test]
    #[should_panic(expected = "length within capacity")]
    fn a_length_beyond_the_capacity_is_a_bug() {
        MsgBuf::new(4).set_len(5);
    }
}
