//! Message buffers, laid out for zero-copy sending, and the pools that keep them.
//!
//! A [`MsgBuf`] holds one message: room for packet header 0, the data (contiguous), then room for
//! the headers of the later packets (eRPC, section 4.2.1). So a small message is one contiguous
//! packet, and no header ever interrupts the data.
//!
//! Whoever holds a `MsgBuf` owns its memory. Nothing else refers to that memory, so dropping the
//! buffer is always safe. Returning it to a [`Pool`] saves an allocation; so does leaving a long
//! buffer to the rest of the process ([`give_spare`]).
//!
//! Boundary rule: knows sizes and bytes, but not what packets mean, and no sockets.

mod copy;
mod huge;
mod layout;
pub mod memory;
mod msgbuf;
mod pool;
mod segment;
mod spare;
mod tail;

pub use copy::{copy_short, copy_short_twice};
pub use huge::HugePages;
pub use layout::{HEADER_BYTES, PAYLOAD_BYTES_MIN, SPARE_BYTES_MIN};
pub use msgbuf::MsgBuf;
pub use pool::{Pool, PoolConfig, PoolError, PoolStats};
pub use segment::{Segment, SharedMemory};
pub use spare::{SPARE_KEPT_BYTES_MAX, give_spare, take_spare};
pub use tail::SEGMENTS_MAX;
