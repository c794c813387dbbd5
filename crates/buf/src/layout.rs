//! Lengths that a message's memory is laid out by.

/// Bytes of one packet header, as the wire protocol fixes it.
pub const HEADER_BYTES: usize = 24;

/// The smallest payload that a packet of a multi-packet message may carry; it bounds the number
/// of headers for which a buffer reserves room.
pub const PAYLOAD_BYTES_MIN: usize = 1024;
