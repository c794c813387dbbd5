//! Answers to a pair: the worker block, and ready (RT7, RT9).
//!
//! ```text
//! word 3          session:20  tag:28  worker:16
//! ```

use super::{Void, word_at};
use crate::{Kind, Packet, SESSIONS_MAX, TAG_MAX, WORKER_BLOCK_BYTES};

const TAG_SHIFT: u32 = 20;
const WORKER_SHIFT: u32 = 48;

/// Who answers a pair, and by which session it goes on (RT7). It stands between header and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerBlock {
    /// The worker's index of the pair's session; 0, as the tag, if it keeps nothing.
    pub session: u32,
    /// The worker's tag of that session.
    pub tag: u32,
    /// The worker's number in the attachment's router; [`WorkerBlock::ROUTER`] is the router.
    pub worker: u16,
}

impl WorkerBlock {
    /// The number of the router itself, which sends rejects only.
    pub const ROUTER: u16 = 0;

    /// Whether a packet to a pair has a worker block. The others of a pair's packets have none.
    #[inline]
    pub fn is_in(packet: &Packet<'_>) -> bool {
        packet.is_first(Kind::Response) || matches!(packet.kind(), Kind::Reject | Kind::Ready)
    }

    /// Splits a packet to a pair into the block and the same packet without it. A tag at its end
    /// stays where it is: the block is in the clear.
    ///
    /// # Errors
    /// See [`Void`]; among them packets that have no block.
    #[inline]
    pub fn split(packet: Packet<'_>) -> Result<(WorkerBlock, Packet<'_>), Void> {
        if !WorkerBlock::is_in(&packet) {
            return Err(Void::Kind);
        }
        let (bytes, payload) =
            packet.payload().split_first_chunk::<WORKER_BLOCK_BYTES>().ok_or(Void::Short)?;
        let word = word_at(bytes, 0);
        let block = WorkerBlock {
            session: word as u32 & (SESSIONS_MAX - 1),
            tag: (word >> TAG_SHIFT) as u32 & (TAG_MAX - 1),
            worker: (word >> WORKER_SHIFT) as u16,
        };
        let is_reject = packet.kind() == Kind::Reject;
        if block.worker == WorkerBlock::ROUTER && (!is_reject || block.names_session()) {
            return Err(Void::Worker);
        }
        Ok((block, packet.with_payload(payload)))
    }

    /// Whether the worker has a session for the pair.
    #[inline]
    pub const fn names_session(&self) -> bool {
        self.session != 0 || self.tag != 0
    }

    /// The block as bytes on the wire. Each number is within its width.
    #[inline]
    pub const fn to_bytes(self) -> [u8; WORKER_BLOCK_BYTES] {
        debug_assert!(self.session < SESSIONS_MAX && self.tag < TAG_MAX);
        let word = self.session as u64
            | (self.tag as u64) << TAG_SHIFT
            | (self.worker as u64) << WORKER_SHIFT;
        word.to_le_bytes()
    }
}

/// A worker has the first packet of a pair (RT9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The transmission of the first packet.
    pub echo: u32,
    /// Whether the request runs. Otherwise the packet was a claim, and the request is to be sent.
    pub is_running: bool,
    /// Packets that the client may have in flight to the worker (W26).
    pub credits: u32,
    /// The worker, and its session.
    pub block: WorkerBlock,
}

impl Ready {
    /// Checks a packet to a pair whose tag, if it is sealed, has been cut off.
    ///
    /// # Errors
    /// See [`Void`].
    pub fn of(packet: Packet<'_>) -> Result<Ready, Void> {
        if packet.kind() != Kind::Ready {
            return Err(Void::Kind);
        }
        let (block, packet) = WorkerBlock::split(packet)?;
        let is_running = match packet.value() {
            0 => false,
            1 => true,
            _ => return Err(Void::Value),
        };
        if !block.names_session() {
            return Err(Void::Session);
        }
        if !packet.payload().is_empty() {
            return Err(Void::Long);
        }
        Ok(Ready { echo: packet.echo(), is_running, credits: packet.credits(), block })
    }

    /// What the header has to carry as its value.
    pub const fn value(&self) -> u32 {
        self.is_running as u32
    }
}
