//! The lengths that define the layout of a message's memory.

/// Bytes of one packet header, as the wire protocol fixes it.
pub const HEADER_BYTES: usize = 24;

/// The smallest payload that a packet of a multi-packet message may carry; it bounds the number
/// of headers for which a buffer reserves room.
pub const PAYLOAD_BYTES_MIN: usize = 1024;

/// Bytes of the shortest buffers that are kept here. From this length on, handing a buffer over is
/// cheaper than copying it.
pub const SPARE_BYTES_MIN: usize = 16 << 10;
