//! Message buffers, laid out for zero-copy sending, and the pools that keep them.
//!
//! A [`MsgBuf`] holds one message: room for packet header 0, the data (contiguous), then room
//! for the headers of the later packets (eRPC, section 4.2.1). A small message is thus one
//! contiguous packet, and no header ever interrupts the data.
//!
//! Ownership is the type's: whoever holds the `MsgBuf` owns its memory. Nothing else refers to
//! it, so dropping one is always safe; giving it back to a [`Pool`] saves the allocation, and so
//! does leaving a long one to the process ([`give_spare`]).
//!
//! Boundary rule: knows sizes and bytes, nothing of packets' meaning or of sockets.

mod copy;
mod huge;
mod layout;
pub mod memory;
mod msgbuf;
mod pool;
mod spare;
mod tail;

pub use copy::{copy_short, copy_short_twice};
pub use huge::HugePages;
pub use layout::{HEADER_BYTES, PAYLOAD_BYTES_MIN, SPARE_BYTES_MIN};
pub use msgbuf::MsgBuf;
pub use pool::{Pool, PoolConfig, PoolError, PoolStats};
pub use spare::{SPARE_KEPT_BYTES_MAX, give_spare, take_spare};
pub use tail::SEGMENTS_MAX;
