//! What is passed to HTTP/2: a framed message in its original buffer.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use petasos_buf::MsgBuf;
use petasos_buf::memory::LONG_BYTES_MIN;
use petasos_call::compress::compress;
use petasos_call::{Codec, HEAD_BYTES};

use crate::compress::Compression;
use crate::deframe::PREFIX_BYTES;
use crate::usage::{CallUse, Charge};

/// One message with its prefix, not copied unless it is compressed.
pub(crate) struct Payload {
    memory: Memory,
    /// Bytes at the start of `memory` that were sent, or do not belong to the frame.
    at: usize,
    /// At a server: the call counts, and its bytes do, until they have left.
    usage: Option<(Arc<CallUse>, Charge)>,
}

enum Memory {
    Message(MsgBuf),
    Packed(Bytes),
}

impl Payload {
    /// Empty, to end a stream with.
    pub(crate) fn empty() -> Payload {
        Payload::frames(Bytes::new())
    }

    /// Bytes that already contain their prefixes.
    pub(crate) fn frames(bytes: Bytes) -> Payload {
        Payload { memory: Memory::Packed(bytes), at: 0, usage: None }
    }

    /// A message after [`HEAD_BYTES`] bytes of room; the prefix is written into the last of these.
    ///
    /// # Panics
    /// If the buffer has no such room.
    pub(crate) fn message(mut buf: MsgBuf, compression: Compression) -> Payload {
        assert!(buf.len() >= HEAD_BYTES, "a message has room for its head before it");
        let message_bytes = buf.len() - HEAD_BYTES;
        if compression == Compression::Gzip {
            let mut packed =
                compress(Codec::GZIP, &buf.as_slice()[HEAD_BYTES..], vec![0; PREFIX_BYTES]);
            let packed_bytes = packed.len() - PREFIX_BYTES;
            packed[..PREFIX_BYTES].copy_from_slice(&prefix(1, packed_bytes));
            return Payload::frames(packed.into());
        }
        let at = HEAD_BYTES - PREFIX_BYTES;
        buf.as_mut_slice()[at..HEAD_BYTES].copy_from_slice(&prefix(0, message_bytes));
        Payload { memory: Memory::Message(buf), at, usage: None }
    }

    /// Lets the payload count for a call until it has left.
    pub(crate) fn counted_for(mut self, call: Option<&Arc<CallUse>>) -> Payload {
        let bytes = self.memory().len();
        self.usage = call.map(|call| {
            let mut charge = Charge::of(Some(call));
            if bytes >= LONG_BYTES_MIN {
                charge.set(bytes);
            }
            (call.clone(), charge)
        });
        self
    }

    fn memory(&self) -> &[u8] {
        match &self.memory {
            Memory::Message(buf) => buf.as_slice(),
            Memory::Packed(bytes) => bytes,
        }
    }
}

fn prefix(flag: u8, message_bytes: usize) -> [u8; PREFIX_BYTES] {
    let length = u32::try_from(message_bytes).expect("buffers are bounded by 2^32");
    let [a, b, c, d] = length.to_be_bytes();
    [flag, a, b, c, d]
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.memory().len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        &self.memory()[self.at..]
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "no more is taken than there is");
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use petasos_call::compress::decompress;

    use super::*;

    #[test]
    fn the_prefix_lies_in_the_room_before_the_message() {
        let buf = MsgBuf::from_slice(b"........abc");
        let data = buf.as_slice().as_ptr();
        let mut payload = Payload::message(buf, Compression::Identity);
        assert_eq!(payload.chunk(), b"\0\0\0\0\x03abc");
        assert_eq!(payload.chunk().as_ptr(), data.wrapping_add(3));
        payload.advance(6);
        assert_eq!((payload.remaining(), payload.chunk()), (2, &b"bc"[..]));
    }

    #[test]
    fn a_compressed_message_says_so() {
        let payload = Payload::message(MsgBuf::new(1008), Compression::Gzip);
        let (prefix, packed) = payload.chunk().split_at(PREFIX_BYTES);
        assert_eq!(prefix, [&[1][..], &(packed.len() as u32).to_be_bytes()].concat());
        assert_eq!(decompress(Codec::GZIP, packed, 1000), Ok(vec![0; 1000]));
    }
}
