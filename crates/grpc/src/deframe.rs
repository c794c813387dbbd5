//! Splits the bytes of a stream into messages, without I/O.
//!
//! gRPC puts five bytes before a message: a flag (1: compressed) and the length. A message within
//! one DATA frame is not copied. Other messages are collected in memory that grows with the bytes
//! that have arrived, not with the announced length.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use petasos_buf::memory::LONG_BYTES_MIN;
use petasos_call::compress::{
    DecompressError, decompress, decompress_short, decompressed_bytes_max,
};
use petasos_call::{Code, Codec, Status};

use crate::compress::Compression;
use crate::usage::{CallUse, Full, Held};

/// Bytes before each message.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Why a message cannot be read. The sender's fault; nothing more of the stream can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It is longer than the limit, before or after decompression.
    TooLong { limit: usize },
    /// Its flag is neither 0 nor 1.
    Flag(u8),
    /// It is compressed, but the stream's headers name no compression.
    NotAgreed,
    /// It cannot be decompressed.
    Corrupt,
    /// The stream ended in the middle of it.
    CutOff,
    /// The process has no memory for it.
    NoRoom,
    /// The client's calls already use as much memory as one client's may.
    NoShare,
}

impl From<Full> for FrameError {
    fn from(full: Full) -> FrameError {
        match full {
            Full::Process => FrameError::NoRoom,
            Full::Peer => FrameError::NoShare,
        }
    }
}

impl From<FrameError> for Status {
    fn from(error: FrameError) -> Status {
        let (code, text) = match error {
            FrameError::TooLong { limit } => {
                let text = format!("a message is longer than the limit of {limit} bytes");
                (Code::ResourceExhausted, text)
            }
            FrameError::Flag(flag) => (Code::Internal, format!("a message has the flag {flag}")),
            FrameError::NotAgreed => {
                (Code::Internal, "a message is compressed, but no compression was named".into())
            }
            FrameError::Corrupt => (Code::Internal, "a message cannot be decompressed".into()),
            FrameError::NoRoom => {
                (Code::ResourceExhausted, "there is no memory for the message".into())
            }
            FrameError::NoShare => {
                let text = "the client's calls use as much memory as one client's may";
                (Code::ResourceExhausted, text.into())
            }
            FrameError::CutOff => (Code::Internal, "the stream ended within a message".into()),
        };
        Status::new(code, text)
    }
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) enum Framed {
    /// It can be read.
    Plain(Bytes),
    /// It must be decompressed first, which takes a while.
    Packed(Packed),
}

/// A compressed message, to be decompressed on a thread that may block.
#[derive(Debug)]
pub(crate) struct Packed {
    message: Bytes,
    limit: usize,
    /// Counts the memory that the decompressed message may need, until it is decompressed.
    reserved: Held,
}

impl Packed {
    pub(crate) fn unpack(self) -> Result<Bytes, FrameError> {
        let Packed { message, limit, reserved } = self;
        let unpacked = decompress(Codec::GZIP, &message, limit);
        unpacked
            .map(|message| counted(message.into(), reserved))
            .map_err(|error| refused(error, limit))
    }
}

/// Invariant: `partial` is shorter than `left` was, and empty unless a prefix was read.
pub(crate) struct Deframer {
    compression: Compression,
    limit: usize,
    /// Bytes that have arrived and were not parsed yet.
    chunk: Bytes,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// The part of a message that has arrived, if the message spans chunks.
    partial: BytesMut,
    /// Counts that memory.
    held: Held,
    /// At a server: for what messages count besides the process.
    call: Option<Arc<CallUse>>,
    /// Whether the latest message was compressed.
    compressed: bool,
}

impl Deframer {
    /// A deframer for messages of at most `limit` bytes.
    pub(crate) fn new(compression: Compression, limit: usize) -> Deframer {
        let (prefix, partial) = ([0; PREFIX_BYTES], BytesMut::new());
        Deframer {
            compression,
            limit,
            chunk: Bytes::new(),
            prefix,
            prefix_bytes: 0,
            partial,
            held: Held::default(),
            call: None,
            compressed: false,
        }
    }

    /// Lets messages count for a call.
    pub(crate) fn counted_for(mut self, call: Arc<CallUse>) -> Deframer {
        self.held = Held::of(Some(&call));
        self.call = Some(call);
        self
    }

    /// How the latest message was compressed.
    pub(crate) fn compression(&self) -> Compression {
        if self.compressed { self.compression } else { Compression::Identity }
    }

    pub(crate) fn set_compression(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// Adds bytes that have arrived. Call it only after [`Deframer::next`] has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the last chunk was used up");
        self.chunk = chunk;
    }

    /// The next message, if all of it has arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Framed>, FrameError> {
        if !self.read_prefix()? {
            return Ok(None);
        }
        let [flag, length @ ..] = self.prefix;
        let length = u32::from_be_bytes(length) as usize;
        self.compressed = flag == 1;
        let Some(message) = self.read_body(length)? else { return Ok(None) };
        self.prefix_bytes = 0;
        match flag {
            0 => Ok(Some(Framed::Plain(counted(message, self.none_held())))),
            _ => self.unpack(message).map(Some),
        }
    }

    /// Checks the end of the stream. Call it when the stream has ended.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.prefix_bytes == 0 { Ok(()) } else { Err(FrameError::CutOff) }
    }

    /// Whether a message's prefix has arrived. It is checked once, as soon as it has.
    fn read_prefix(&mut self) -> Result<bool, FrameError> {
        if self.prefix_bytes == PREFIX_BYTES {
            return Ok(true);
        }
        let count = self.chunk.len().min(PREFIX_BYTES - self.prefix_bytes);
        self.chunk.copy_to_slice(&mut self.prefix[self.prefix_bytes..][..count]);
        self.prefix_bytes += count;
        if self.prefix_bytes < PREFIX_BYTES {
            return Ok(false);
        }
        self.check_prefix().map(|()| true)
    }

    fn check_prefix(&self) -> Result<(), FrameError> {
        let [flag, length @ ..] = self.prefix;
        match flag {
            0 => {}
            1 if self.compression != Compression::Identity => {}
            1 => return Err(FrameError::NotAgreed),
            _ => return Err(FrameError::Flag(flag)),
        }
        if u32::from_be_bytes(length) as usize > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        Ok(())
    }

    fn read_body(&mut self, length: usize) -> Result<Option<Bytes>, FrameError> {
        if self.partial.is_empty() && self.chunk.len() >= length {
            return Ok(Some(self.chunk.split_to(length)));
        }
        let count = self.chunk.len().min(length - self.partial.len());
        if length >= LONG_BYTES_MIN {
            CallUse::admit(self.call.as_ref(), count)?;
        }
        self.partial.extend_from_slice(&self.chunk.split_to(count));
        if self.partial.len() < length {
            self.held.set(self.partial.len());
            return Ok(None);
        }
        self.held.set(0);
        Ok(Some(self.partial.split().freeze()))
    }

    fn unpack(&self, message: Bytes) -> Result<Framed, FrameError> {
        let limit = self.limit;
        let unpacked = decompress_short(Codec::GZIP, &message, limit);
        Ok(match unpacked.map_err(|error| refused(error, limit))? {
            Some(message) => {
                if message.len() >= LONG_BYTES_MIN {
                    CallUse::admit(self.call.as_ref(), message.len())?;
                }
                Framed::Plain(counted(message.into(), self.none_held()))
            }
            None => {
                let bytes_max = decompressed_bytes_max(Codec::GZIP, message.len(), limit);
                CallUse::admit(self.call.as_ref(), bytes_max)?;
                let mut reserved = self.none_held();
                reserved.set(bytes_max);
                Framed::Packed(Packed { message, limit, reserved })
            }
        })
    }

    fn none_held(&self) -> Held {
        Held::of(self.call.as_ref())
    }
}

fn refused(error: DecompressError, limit: usize) -> FrameError {
    match error {
        DecompressError::TooLong => FrameError::TooLong { limit },
        _ => FrameError::Corrupt,
    }
}

/// Bytes that are counted for as long as anybody holds a part of them.
struct Owned {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Counts a long message; after decoding, its fields may refer to these bytes.
fn counted(bytes: Bytes, mut held: Held) -> Bytes {
    if bytes.len() < LONG_BYTES_MIN {
        return bytes;
    }
    held.set(bytes.len());
    Bytes::from_owner(Owned { bytes, _held: held })
}

#[cfg(test)]
mod tests;
