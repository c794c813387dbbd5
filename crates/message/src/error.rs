//! Why an encoding was refused, in either direction.

use thiserror::Error;

/// Why a message has no encoding. The sender's fault, and no retry helps, `HeapFull` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// More than [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) bytes (M18).
    #[error("the message is larger than 2^28 - 1 bytes")]
    TooLarge,
    /// More than [`DEPTH_MAX`](crate::DEPTH_MAX) levels of messages within messages (M18).
    #[error("messages are nested more than 100 deep")]
    TooDeep,
    /// The heap that the encoding belongs in has no room; later it may.
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
    /// An image lies where it cannot be read in place (M25). Not its fault: a copy can be read.
    #[error("the image does not lie at a multiple of 8 bytes")]
    Misaligned,
}
