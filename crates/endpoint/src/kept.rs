//! What a server session keeps in each slot: the request while it is being assembled, then the
//! response until the client has it.
//!
//! A short response is stored in the slot itself. It is written there and into the transmit queue
//! in one step, and costs neither an allocation nor another cache line.

use petasos_buf::MsgBuf;

/// The longest response that a slot keeps without a buffer.
pub(crate) const SHORT_BYTES_MAX: usize = 127;

/// The value of `len` if the message is in the buffer.
const IN_BUFFER: u8 = u8::MAX;

/// Invariant: `len` is at most [`SHORT_BYTES_MAX`] or is [`IN_BUFFER`], the latter only while there
/// is a buffer.
///
/// The buffer comes last, so that the beginning of a short response shares a cache line with the
/// rest of its slot.
#[repr(C)]
pub(crate) struct Kept {
    len: u8,
    short: [u8; SHORT_BYTES_MAX],
    /// The message, or an earlier one whose memory the next may reuse.
    buffer: Option<MsgBuf>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { buffer: None, len: 0, short: [0; SHORT_BYTES_MAX] }
    }
}

impl Kept {
    /// Keeps a message of `len` bytes, at most [`SHORT_BYTES_MAX`]; the caller writes it.
    #[inline(always)]
    pub(crate) fn short_mut(&mut self, len: usize) -> &mut [u8] {
        self.len = len as u8;
        &mut self.short[..len]
    }

    /// Keeps `buf`, and returns the buffer that was here.
    pub(crate) fn put(&mut self, buf: MsgBuf) -> Option<MsgBuf> {
        self.len = IN_BUFFER;
        self.buffer.replace(buf)
    }

    /// Takes the buffer, whether it holds the message or an earlier one.
    pub(crate) fn take(&mut self) -> Option<MsgBuf> {
        self.len = 0;
        self.buffer.take()
    }

    /// The buffer that holds the message, if it is in one.
    #[inline]
    pub(crate) fn buffer(&self) -> Option<&MsgBuf> {
        if self.len == IN_BUFFER { self.buffer.as_ref() } else { None }
    }

    /// Like [`Kept::buffer`], mutable.
    #[inline]
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut MsgBuf> {
        if self.len == IN_BUFFER { self.buffer.as_mut() } else { None }
    }

    /// Takes the buffer if it can hold `len` bytes.
    pub(crate) fn take_roomy(&mut self, len: usize) -> Option<MsgBuf> {
        self.buffer.as_mut()?.rewind();
        let roomy = self.buffer.as_ref().is_some_and(|buf| buf.capacity() >= len);
        if roomy { self.take() } else { None }
    }

    /// Bytes of the message, a tail included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.buffer().map_or(usize::from(self.len), MsgBuf::len)
    }

    /// Copies the message's beginning, out of a tail if it is there.
    ///
    /// # Panics
    /// If `to` is longer than the message.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        match self.buffer() {
            Some(buf) => buf.copy_range(0, to),
            None => to.copy_from_slice(&self.short[..to.len()]),
        }
    }

    /// The message, without a tail.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self.buffer() {
            Some(buf) => buf,
            None => &self.short[..usize::from(self.len)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_one_message_and_remembers_a_buffer() {
        let mut kept = Kept::default();
        assert_eq!(kept.as_slice(), b"");
        kept.short_mut(SHORT_BYTES_MAX).fill(7);
        assert_eq!(kept.as_slice(), [7; SHORT_BYTES_MAX]);
        assert!(kept.put(MsgBuf::from_slice(&[8; 200])).is_none());
        assert_eq!(kept.as_slice(), [8; 200]);
        kept.short_mut(5).copy_from_slice(b"short");
        assert_eq!(kept.as_slice(), b"short");
        assert!(kept.buffer().is_none(), "the buffer is of earlier");
        assert!(kept.take_roomy(201).is_none());
        assert_eq!(kept.take_roomy(200).map(|buf| buf.capacity()), Some(200));
        assert!(kept.take().is_none());
    }
}
