//! Limits for a decoder.

use bytes::Bytes;

use crate::MESSAGE_BYTES_MAX;

/// Bytes to decode.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// All that is kept of these is copied.
    Borrowed(&'a [u8]),
    /// Long `bytes` fields keep these, and are not copied (M16).
    Owned(Bytes),
}

impl Input<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Input::Borrowed(bytes) => bytes,
            Input::Owned(bytes) => bytes,
        }
    }
}

/// What a decoder may take (M30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The longest input, in bytes. [`MESSAGE_BYTES_MAX`] holds besides.
    pub message_bytes_max: usize,
    /// The most memory that one decode allocates in all, in bytes.
    pub memory_bytes_max: usize,
}

impl DecodeLimits {
    /// The usual limits for an input of `bytes`: 64 times as much memory, and at least 1 MiB.
    pub const fn for_input(bytes: usize) -> DecodeLimits {
        let memory = bytes.saturating_mul(64);
        let least = 1 << 20;
        DecodeLimits {
            message_bytes_max: MESSAGE_BYTES_MAX,
            memory_bytes_max: if memory < least { least } else { memory },
        }
    }
}
