//! One message's memory. See the crate's documentation for the layout.

use core::fmt;

/// Bytes of one packet header, as the wire protocol fixes it.
pub const HEADER_BYTES: usize = 24;

/// The smallest payload that a packet of a multi-packet message may carry; it bounds the number
/// of headers for which a buffer reserves room.
pub const PAYLOAD_BYTES_MIN: usize = 1024;

/// A buffer for one message of up to [`MsgBuf::capacity`] bytes.
///
/// One pointer, because a buffer changes hands several times in the life of every call.
pub struct MsgBuf {
    parts: Box<Parts>,
}

/// Invariant: `len <= capacity`, and `memory` has room for the headers of `capacity` bytes cut
/// into packets of [`PAYLOAD_BYTES_MIN`].
struct Parts {
    memory: Box<[u8]>,
    len: u32,
    capacity: u32,
}

impl MsgBuf {
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
        let later_headers = capacity.div_ceil(PAYLOAD_BYTES_MIN).saturating_sub(1);
        let bytes = HEADER_BYTES + capacity + later_headers * HEADER_BYTES;
        let capacity = u32::try_from(capacity).expect("message sizes are bounded by 2^28");
        let memory = vec![0; bytes].into_boxed_slice();
        MsgBuf { parts: Box::new(Parts { memory, len: 0, capacity }) }
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
        self.parts.len as usize
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.len == 0
    }

    /// The greatest length this buffer can take, in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.parts.capacity as usize
    }

    /// Sets the length; bytes beyond the old length hold what the memory held.
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length within capacity");
        self.parts.len = len as u32;
    }

    /// The data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.parts.memory[HEADER_BYTES..HEADER_BYTES + self.len()]
    }

    /// The data, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let parts = &mut *self.parts;
        &mut parts.memory[HEADER_BYTES..HEADER_BYTES + parts.len as usize]
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
        let offset = self.header_offset(index);
        self.parts.memory[offset..offset + HEADER_BYTES].copy_from_slice(header);
    }

    /// The packet `index` of the message cut into `payload_bytes` each, header first: either one
    /// contiguous piece and an empty one (packet 0), or a header and its data.
    ///
    /// # Panics
    /// If the message has no such packet.
    #[inline]
    pub fn packet(&self, index: u32, payload_bytes: usize) -> (&[u8], &[u8]) {
        if index == 0 {
            let end = HEADER_BYTES + self.len().min(payload_bytes);
            return (&self.parts.memory[..end], &[]);
        }
        let start = index as usize * payload_bytes;
        let data = &self.as_slice()[start..];
        let body = &data[..data.len().min(payload_bytes)];
        let offset = self.header_offset(index);
        (&self.parts.memory[offset..offset + HEADER_BYTES], body)
    }

    /// Bytes of memory that the buffer occupies.
    pub fn footprint_bytes(&self) -> usize {
        size_of::<Parts>() + self.parts.memory.len()
    }

    #[inline]
    fn header_offset(&self, index: u32) -> usize {
        match index {
            0 => 0,
            _ => self.capacity() + index as usize * HEADER_BYTES,
        }
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
