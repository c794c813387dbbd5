//! The packet I/O contract and its types.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::error::RouteError;

/// The most packets that the endpoint hands to [`PacketIo::transmit`] at once.
pub const TX_BATCH_MAX: usize = 64;

/// A peer as one backend knows it: an index into the backend's route table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route(pub u32);

/// The two ECN bits of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not speak ECN, or the backend cannot see the bits.
    #[default]
    NotCapable = 0b00,
    /// Capable, code point 1.
    Capable1 = 0b01,
    /// Capable, code point 0: what senders should set.
    Capable0 = 0b10,
    /// A switch on the path was congested.
    CongestionExperienced = 0b11,
}

impl Ecn {
    /// The code point in the low two bits of an IP traffic class byte.
    pub const fn from_traffic_class(byte: u8) -> Ecn {
        match byte & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }
}

/// A run of equally sized frames that arrived together; the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxChunk {
    /// Where the first frame starts in the batch's memory, in bytes.
    pub offset: u32,
    /// Bytes of all frames together.
    pub len: u32,
    /// Bytes of each frame, except that the last may be shorter; at least 1.
    pub segment_bytes: u32,
    /// ECN bits that the frames carried.
    pub ecn: Ecn,
}

/// Where frames come from, as far as a backend can tell. Compare it with [`PacketIo::origin`] of a
/// route; the number has no other meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(pub u32);

impl Origin {
    /// An address to which the backend has no route.
    pub const STRANGER: Origin = Origin(u32::MAX);
    /// Shared memory. Above all route numbers, like the next constant.
    pub const RINGS: Origin = Origin(u32::MAX - 1);
    /// The origin of all routes of a backend that cannot tell where frames come from.
    pub const UNTOLD: Origin = Origin(u32::MAX - 2);

    /// Whether a frame may be of the peer with this origin: `reported` is [`Frames::origin`] of it.
    /// A backend that cannot tell is not asked.
    #[inline]
    pub fn is_of(self, reported: Option<Origin>) -> bool {
        reported.is_none_or(|reported| reported == self || self == Origin::UNTOLD)
    }
}

/// The frames that one [`PacketIo::receive`] returned.
#[derive(Clone, Copy, Debug)]
pub struct RxBatch<'a> {
    /// The backend's receive memory.
    pub memory: &'a [u8],
    /// Where the frames are in it.
    pub chunks: &'a [RxChunk],
    /// Where each chunk comes from. Empty if the backend cannot tell.
    pub origins: &'a [Origin],
}

impl<'a> RxBatch<'a> {
    /// Nothing received.
    pub const EMPTY: RxBatch<'static> = RxBatch { memory: &[], chunks: &[], origins: &[] };

    /// Every frame in the order of arrival.
    #[inline]
    pub fn frames(self) -> Frames<'a> {
        Frames { batch: self, chunk: 0, rest: &[], segment_bytes: 1, ecn: Ecn::NotCapable }
    }
}

/// One received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The datagram's payload.
    pub bytes: &'a [u8],
    /// Its ECN bits.
    pub ecn: Ecn,
}

/// Iterator over the frames of an [`RxBatch`].
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    batch: RxBatch<'a>,
    chunk: usize,
    rest: &'a [u8],
    /// Bytes of the next frame if `rest` has one; otherwise bytes of the latest frame, the last of
    /// its chunk.
    segment_bytes: usize,
    ecn: Ecn,
}

impl<'a> Frames<'a> {
    /// The ECN bits of the frame that `next` returned last.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Whether the backend can tell where the frames come from.
    #[inline]
    pub fn has_origins(&self) -> bool {
        !self.batch.origins.is_empty()
    }

    /// Where the frame that `next` returned last comes from. `None` if the backend cannot tell.
    #[inline(always)]
    pub fn origin(&self) -> Option<Origin> {
        self.batch.origins.get(self.chunk.wrapping_sub(1)).copied()
    }

    /// The bytes of the frame that `next` returned last. Empty before the first.
    pub fn latest(&self) -> &'a [u8] {
        let Some(chunk) = self.chunk.checked_sub(1) else { return &[] };
        let chunk = self.batch.chunks[chunk];
        let start = chunk.offset as usize;
        let given = &self.batch.memory[start..start + chunk.len as usize - self.rest.len()];
        &given[given.len() - self.segment_bytes..]
    }

    /// Goes to the shorter last frame of a chunk, or to the next chunk. Returns whether there is
    /// one.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        if !self.rest.is_empty() {
            self.segment_bytes = self.rest.len();
            return true;
        }
        let Some(chunk) = self.batch.chunks.get(self.chunk) else { return false };
        self.chunk += 1;
        let start = chunk.offset as usize;
        self.rest = &self.batch.memory[start..start + chunk.len as usize];
        self.segment_bytes = chunk.segment_bytes as usize;
        self.ecn = chunk.ecn;
        true
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            if let Some((bytes, rest)) = self.rest.split_at_checked(self.segment_bytes) {
                self.rest = rest;
                return Some(Frame { bytes, ecn: self.ecn });
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

/// One packet to send: `head` followed by `body`, as one datagram.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// The route to the receiver.
    pub route: Route,
    /// The header, or the whole packet.
    pub head: &'a [u8],
    /// The bytes that follow; often empty.
    pub body: &'a [u8],
}

impl TxPacket<'_> {
    /// Bytes of the datagram's payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the datagram would carry no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

petasos_base::counters! {
    /// What a backend did, including failures that are not returned as errors.
    pub struct IoStats {
        /// Frames received.
        rx_frames,
        /// Bytes received.
        rx_bytes,
        /// Frames sent.
        tx_frames,
        /// Bytes sent.
        tx_bytes,
        /// System calls made to receive, including those that found nothing.
        rx_syscalls,
        /// System calls made to receive that found nothing.
        rx_syscalls_empty,
        /// System calls made to send.
        tx_syscalls,
        /// Frames lost because the receiver's memory was full.
        rx_overflows,
        /// Received frames cut short because they were longer than the backend takes.
        rx_truncated,
        /// Receive calls that failed for another reason than that nothing had arrived.
        rx_errors,
        /// Packets dropped because sending them failed.
        tx_errors,
        /// Times that the transmit queue was full and packets had to wait.
        tx_full,
    }
}

/// A backend that moves datagrams. One thread uses it; see the crate's documentation.
pub trait PacketIo {
    /// Returns frames that have arrived, without waiting. An empty batch means that there are none.
    fn receive(&mut self) -> RxBatch<'_>;

    /// Sends a prefix of `packets` now and returns its length. If that is less than all, the
    /// underlying queue is full: try again later. A packet that can never be sent counts as sent
    /// here, and in [`IoStats::tx_errors`].
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize;

    /// Sends a prefix of a train and returns how many datagrams it sent, counted as in
    /// [`PacketIo::transmit`]. The datagrams of a train lie next to each other in `bytes`, with
    /// `segment_bytes` each; the last may be shorter. A train has at most [`TX_BATCH_MAX`]
    /// datagrams.
    ///
    /// This is the counterpart of an [`RxChunk`]: small packets cost least if they are built in the
    /// memory from which they are sent.
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize;

    /// Says that more calls of [`PacketIo::transmit`] and [`PacketIo::transmit_train`] follow at
    /// once, up to [`PacketIo::end_batch`]: a backend may send their packets together, and until
    /// then hold back what it has taken.
    #[inline]
    fn begin_batch(&mut self) {}

    /// Ends what [`PacketIo::begin_batch`] has begun: nothing that was taken is held back any more,
    /// except for want of room in the underlying queue.
    #[inline]
    fn end_batch(&mut self) {}

    /// Whether packets on `other` have to wait as well after `transmit` or `transmit_train` has
    /// refused one on `full`. They do where one queue serves all peers.
    fn holds_back(&self, full: Route, other: Route) -> bool {
        let _ = (full, other);
        true
    }

    /// Whether only packets on `full` itself wait for the queue that is full.
    fn waits_alone(&self, full: Route) -> bool {
        !self.holds_back(full, Route(full.0 ^ 1))
    }

    /// Resolves a peer's address. While a route is held, the same address gives the same route.
    /// Undo each successful call with one [`PacketIo::release_route`].
    ///
    /// # Errors
    /// See [`RouteError`].
    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError>;

    /// Undoes one [`PacketIo::route`]. After the last one, the index may name another peer.
    fn release_route(&mut self, route: Route);

    /// Says that full-size packets on `route` seem to get lost. A backend that can have them
    /// fragmented does so until [`PacketIo::trust_paths`].
    fn doubt_path(&mut self, route: Route) {
        let _ = route;
    }

    /// Undoes every [`PacketIo::doubt_path`]: full-size packets are sent unfragmented again, to see
    /// whether they arrive.
    fn trust_paths(&mut self) {}

    /// The origin of frames from the peer on `route`. It does not change while the route is held.
    /// [`Origin::UNTOLD`] if [`RxBatch::origins`] is empty.
    fn origin(&self, _route: Route) -> Origin {
        Origin::UNTOLD
    }

    /// The address at which peers reach this backend.
    fn local_address(&self) -> SocketAddr;

    /// The largest datagram payload, in bytes, that leaves this host unfragmented on `route`, as of
    /// the last [`PacketIo::route`] for it. Callers may keep using the value while the route is
    /// held.
    fn datagram_bytes_max(&self, route: Route) -> usize;

    /// How many bytes of frames can wait to be received before frames are lost, including headers
    /// and the system's own overhead. Credits are granted from this number.
    fn receive_buffer_bytes(&self) -> usize;

    /// A descriptor that becomes readable when frames may have arrived, if the backend has one.
    /// Call [`PacketIo::prepare_to_sleep`] each time before waiting for it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Says that the caller is about to wait for [`PacketIo::descriptor`]. If this returns false,
    /// frames have arrived: do not wait, but receive. If it returns true, the backend has asked its
    /// peers to make the descriptor readable, until the next [`PacketIo::receive`].
    ///
    /// Where the system makes the descriptor readable by itself, this has no effect and returns
    /// true. Where peers do it, they need not do so for a receiver that spins.
    fn prepare_to_sleep(&mut self) -> bool {
        true
    }

    /// What the backend has done so far.
    fn stats(&self) -> IoStats;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_order_and_the_latest_is_known() {
        let memory: Vec<u8> = (0..20).collect();
        let ecn = Ecn::Capable0;
        let chunks = [
            RxChunk { offset: 2, len: 7, segment_bytes: 3, ecn },
            RxChunk { offset: 10, len: 4, segment_bytes: 4, ecn: Ecn::CongestionExperienced },
            RxChunk { offset: 15, len: 2, segment_bytes: 9, ecn },
        ];
        let origins = [Origin(3), Origin::STRANGER, Origin(4)];
        let mut frames = RxBatch { memory: &memory, chunks: &chunks, origins: &origins }.frames();
        assert_eq!(frames.latest(), b"");
        let expected: [(&[u8], Ecn); 5] = [
            (&[2, 3, 4], ecn),
            (&[5, 6, 7], ecn),
            (&[8], ecn),
            (&[10, 11, 12, 13], Ecn::CongestionExperienced),
            (&[15, 16], ecn),
        ];
        for (bytes, ecn) in expected {
            let frame = frames.next().expect("there are five frames");
            assert_eq!((frame.bytes, frame.ecn), (bytes, ecn));
            assert_eq!((frames.latest(), frames.ecn()), (bytes, ecn));
        }
        assert_eq!(frames.origin(), Some(Origin(4)));
        assert!(frames.next().is_none());
    }
}
