//! Errors of encoding and decoding.

use thiserror::Error;

/// Why a message cannot be encoded. The sender's fault; no retry helps, except after `HeapFull`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// More than [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) bytes (M18).
    #[error("the message is larger than 2^28 - 1 bytes")]
    TooLarge,
    /// More than [`DEPTH_MAX`](crate::DEPTH_MAX) levels of messages within messages (M18).
    #[error("messages are nested more than 100 deep")]
    TooDeep,
    /// The heap for the encoding has no room; it may have later.
    #[error("the heap has no room for the message")]
    HeapFull,
}

/// Why bytes are not a message. The sender's fault; the same bytes are refused again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the message does.
    #[error("the message ends early")]
    Truncated,
    /// The bytes break a rule of the encoding.
    #[error("the message is malformed")]
    Malformed,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// More than [`DEPTH_MAX`](crate::DEPTH_MAX) levels of messages within messages (M18).
    #[error("messages are nested more than 100 deep")]
    TooDeep,
    /// More bytes, encoded or in memory, than the limits allow.
    #[error("the message is larger than the limits allow")]
    TooLarge,
    /// An image is at an address where it cannot be read in place (M25). That is nobody's fault: a
    /// copy can be read.
    #[error("the image does not lie at a multiple of 8 bytes")]
    Misaligned,
}
