//! The packet I/O contract, shared types, and the in-memory backend.
//!
//! A backend moves datagrams in batches. The contract says:
//!
//! - **Receiving.** [`PacketIo::receive`] returns frames in memory that the backend owns; they
//!   are borrowed until the next call on the backend. Keeping one means copying it. Frames that
//!   arrived together (GRO) come as one [`RxChunk`] and are split without copying.
//! - **Sending.** A packet has at most two pieces ([`TxPacket`]). When [`PacketIo::transmit`]
//!   returns, the backend no longer refers to either piece, so the endpoint keeps ownership of its
//!   buffers. A backend takes a prefix of the batch and returns its length; the caller keeps the
//!   rest. A backend never holds a packet back to wait for a larger batch, except until
//!   [`PacketIo::end_batch`] if the caller has begun one.
//! - **Routes.** A peer's address is resolved once into an opaque [`Route`].
//! - **Errors.** Errors that retransmission repairs are counted in [`IoStats`], not returned.
//!
//! Boundary rule: sees bytes and addresses; knows nothing of the protocol's headers.

mod error;
pub mod memory;
mod switch;
mod types;

pub use error::{RouteError, SetupError, check_peer};
pub use switch::Switch;
pub use types::{
    Ecn, Frame, Frames, IoStats, Origin, PacketIo, Route, RxBatch, RxChunk, TX_BATCH_MAX, TxPacket,
};
