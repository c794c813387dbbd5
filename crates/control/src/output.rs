//! Bytes to be written to the socket.

use crate::Message;

/// A queue of encoded frames. The socket may accept any number of bytes at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// How many of `bytes` have been written; at most their length.
    written: usize,
}

impl Output {
    pub(crate) fn push(&mut self, message: &Message) {
        message.encode(&mut self.bytes);
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Removes the first `count` unsent bytes. The rest is moved to the front only once it is the
    /// smaller part, which keeps the cost per byte constant.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(count <= self.unsent().len(), "only what was offered can have been written");
        self.written += count;
        if self.written * 2 >= self.bytes.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }
}
