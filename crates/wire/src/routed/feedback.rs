//! Feedback: what a worker has settled, and how much it takes (RT20).

use super::Void;
use crate::header::FLAGS_MASK;
use crate::{
    CREDITS_MAX, GIVEN_NUMBERS, HEADER_BYTES, Header, Kind, Packet, SETTLED_NUMBERS,
    TRANSMISSION_NUMBERS,
};

/// What a worker tells its router, modulo the range of each. The counts begin with 0 when the
/// worker joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Which of the worker's messages this is, from 1; below [`TRANSMISSION_NUMBERS`].
    pub sequence: u32,
    /// The highest given number that has arrived, 0 before the first; below [`GIVEN_NUMBERS`].
    pub received: u32,
    /// How many given numbers are settled (RT21); below [`SETTLED_NUMBERS`].
    pub settled: u32,
    /// *n*: how many requests the worker takes at a time, at most [`CREDITS_MAX`]. 0 is none more.
    pub bound: u16,
}

impl WorkerCounts {
    /// All but `received` in one word: who shares counts between threads changes it in one step.
    pub fn to_word(&self) -> u64 {
        let (settled, bound) = (u64::from(self.settled), u64::from(self.bound));
        (settled % u64::from(SETTLED_NUMBERS)) | (bound << 28) | (u64::from(self.sequence) << 40)
    }

    /// The other way round.
    pub fn of_word(word: u64, received: u32) -> WorkerCounts {
        WorkerCounts {
            sequence: (word >> 40) as u32,
            received,
            settled: word as u32 % SETTLED_NUMBERS,
            bound: (word >> 28) as u16 & CREDITS_MAX as u16,
        }
    }
}

/// A worker's packet to its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The router's index of the worker.
    pub session: u32,
    /// The router's tag for the worker.
    pub tag: u32,
    /// Bits that only the worker and its router know (RT34); below [`crate::REQUEST_NUMBERS`].
    pub secret: u64,
    /// What it tells.
    pub counts: WorkerCounts,
    /// How many of the requests that it has answered since the message before have failed by its
    /// own fault, at most [`FAILED_MAX`]. Unlike the counts, this is lost with the packet.
    pub failed: u8,
}

/// The most failures that one packet tells of.
pub const FAILED_MAX: u8 = 15;

impl Feedback {
    /// Checks a packet. Whether it is the worker's is not known yet (RT22).
    ///
    /// # Errors
    /// See [`Void`].
    #[inline]
    pub fn of(packet: Packet<'_>) -> Result<Feedback, Void> {
        if packet.kind() != Kind::Feedback {
            return Err(Void::Kind);
        }
        if packet.words[0] & FLAGS_MASK != 0 {
            return Err(Void::Flag);
        }
        if !packet.payload().is_empty() {
            return Err(Void::Long);
        }
        Ok(Feedback {
            session: packet.session(),
            tag: packet.tag(),
            secret: packet.request(),
            counts: WorkerCounts {
                sequence: packet.transmission(),
                received: packet.echo() % GIVEN_NUMBERS,
                settled: packet.value(),
                bound: packet.credits() as u16,
            },
            failed: (packet.echo() / GIVEN_NUMBERS) as u8,
        })
    }

    /// The whole packet, which is a header. Each number is within its width.
    #[inline]
    pub fn header(self) -> Header {
        let WorkerCounts { sequence, received, settled, bound } = self.counts;
        debug_assert!(received < GIVEN_NUMBERS && settled < SETTLED_NUMBERS);
        debug_assert!(sequence < TRANSMISSION_NUMBERS && self.failed <= FAILED_MAX);
        debug_assert!(u32::from(bound) <= CREDITS_MAX);
        Header::for_session(self.session, self.tag)
            .with_request(Kind::Feedback, self.secret, sequence)
            .with_server(received + u32::from(self.failed) * GIVEN_NUMBERS, settled, bound.into())
    }

    /// The bytes of [`Feedback::header`].
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        self.header().to_bytes()
    }
}
