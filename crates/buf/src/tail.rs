//! Bytes that are sent after a buffer's own data, without a copy.
//!
//! A packet that lies within one piece (the buffer's own data, or an owned segment) is sent as its
//! header and that piece. A packet that spans pieces is copied once, behind its header, and sent
//! from the copy. So a packet never has more than two pieces, and a long message has only as many
//! copied packets as there are boundaries between pieces. Packets of shared segments are copied,
//! too: whoever sends many of them copies them to a place of its own instead (see
//! [`is_shared`](crate::MsgBuf::is_shared)).
//!
//! Invariants: no segment is empty; `headers` has an entry for each packet up to the last that was
//! written, but only those of packets within one piece are valid; `stitched` has each other packet
//! once.

use crate::Segment;
use crate::layout::HEADER_BYTES;

/// The most segments that a tail can have.
pub const SEGMENTS_MAX: usize = 32;

pub(crate) struct Tail {
    segments: Vec<Segment>,
    headers: Vec<[u8; HEADER_BYTES]>,
    /// Packets that span pieces, by index, header first.
    stitched: Vec<(u32, Vec<u8>)>,
}

impl Tail {
    /// # Panics
    /// If there are more than [`SEGMENTS_MAX`].
    pub(crate) fn new(mut segments: Vec<Segment>) -> Tail {
        assert!(segments.len() <= SEGMENTS_MAX, "a tail of a few segments");
        segments.retain(|segment| !segment.is_empty());
        Tail { segments, headers: Vec::new(), stitched: Vec::new() }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Whether some bytes lie in memory that somebody else may write.
    pub(crate) fn is_shared(&self) -> bool {
        self.segments.iter().any(|segment| segment.owned().is_none())
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    /// Writes the header of packet `index`, where packets carry `payload_bytes` each and the
    /// message begins with `own`.
    pub(crate) fn write_header(
        &mut self,
        own: &[u8],
        index: u32,
        payload_bytes: usize,
        header: &[u8; HEADER_BYTES],
    ) {
        let (start, bytes) = self.range(own, index, payload_bytes);
        // A packet that is made again may have another length and other contents.
        self.stitched.retain(|(known, _)| *known != index);
        if self.piece(own, start, bytes).is_some() {
            let at = index as usize;
            if self.headers.len() <= at {
                self.headers.resize(at + 1, [0; HEADER_BYTES]);
            }
            self.headers[at] = *header;
            return;
        }
        let mut packet = vec![0; HEADER_BYTES + bytes];
        packet[..HEADER_BYTES].copy_from_slice(header);
        self.copy_range(own, start, &mut packet[HEADER_BYTES..]);
        self.stitched.push((index, packet));
    }

    /// Packet `index` with its header, which must have been written: one piece or two.
    pub(crate) fn packet<'a>(
        &'a self,
        own: &'a [u8],
        index: u32,
        payload_bytes: usize,
    ) -> (&'a [u8], &'a [u8]) {
        if let Some((_, packet)) = self.stitched.iter().find(|(known, _)| *known == index) {
            return (packet, &[]);
        }
        let (start, bytes) = self.range(own, index, payload_bytes);
        let body = self.piece(own, start, bytes).expect("what lies across pieces was stitched");
        (&self.headers[index as usize], body)
    }

    /// Copies the message's bytes from `start` on.
    ///
    /// # Panics
    /// If there are fewer bytes than `to` has.
    pub(crate) fn copy_range(&self, own: &[u8], start: usize, to: &mut [u8]) {
        let (mut skipped, mut to) = (start, to);
        for piece in self.pieces(own) {
            let at = skipped.min(piece.len());
            skipped -= at;
            let (now, later) = to.split_at_mut((piece.len() - at).min(to.len()));
            piece.copy_to(at, now);
            to = later;
        }
        assert!(to.is_empty(), "the message has such a range");
    }

    fn pieces<'a>(&'a self, own: &'a [u8]) -> impl Iterator<Item = Piece<'a>> {
        core::iter::once(Piece::Own(own)).chain(self.segments.iter().map(Piece::Segment))
    }

    /// Where packet `index` begins in the message, and its bytes.
    fn range(&self, own: &[u8], index: u32, payload_bytes: usize) -> (usize, usize) {
        let start = index as usize * payload_bytes;
        let rest = (own.len() + self.bytes()).checked_sub(start).filter(|rest| *rest > 0);
        (start, rest.expect("the message has such a packet").min(payload_bytes))
    }

    /// `bytes` from `start` on, if they lie within one piece that nobody writes.
    fn piece<'a>(&'a self, own: &'a [u8], start: usize, bytes: usize) -> Option<&'a [u8]> {
        let mut start = start;
        for piece in self.pieces(own) {
            if start < piece.len() {
                return piece.slice()?[start..].get(..bytes);
            }
            start -= piece.len();
        }
        None
    }
}

/// A piece of a message.
enum Piece<'a> {
    Own(&'a [u8]),
    Segment(&'a Segment),
}

impl<'a> Piece<'a> {
    fn len(&self) -> usize {
        match self {
            Piece::Own(own) => own.len(),
            Piece::Segment(segment) => segment.len(),
        }
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        match self {
            _ if to.is_empty() => {}
            Piece::Own(own) => to.copy_from_slice(&own[at..at + to.len()]),
            Piece::Segment(segment) => segment.copy_to(at, to),
        }
    }

    fn slice(&self) -> Option<&'a [u8]> {
        match self {
            Piece::Own(own) => Some(own),
            Piece::Segment(segment) => segment.owned().map(|bytes| &bytes[..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;

    use super::*;
    use crate::{MsgBuf, SharedMemory};

    /// A message of pieces of these lengths, the first in the buffer, and its bytes.
    fn message(lengths: &[usize]) -> (MsgBuf, Vec<u8>) {
        let bytes: Vec<u8> = (0..lengths.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
        let shared = Bytes::from(bytes.clone());
        let mut buf = MsgBuf::from_slice(&bytes[..lengths[0]]);
        let mut start = lengths[0];
        let segments = lengths[1..].iter().map(|len| {
            start += len;
            Segment::Owned(shared.slice(start - len..start))
        });
        buf.attach(segments.collect());
        (buf, bytes)
    }

    fn packets(buf: &mut MsgBuf, payload_bytes: usize, mark: u8) -> Vec<u8> {
        let count = buf.len().div_ceil(payload_bytes) as u32;
        for index in 0..count {
            buf.write_header(index, payload_bytes, &[mark + index as u8; HEADER_BYTES]);
        }
        let mut all = Vec::new();
        for index in 0..count {
            let (head, body) = buf.packet(index, payload_bytes);
            let (header, first) = head.split_at(HEADER_BYTES);
            assert_eq!(header, [mark + index as u8; HEADER_BYTES]);
            assert!(first.is_empty() || body.is_empty(), "a header and one piece");
            all.extend_from_slice(first);
            all.extend_from_slice(body);
        }
        all
    }

    #[test]
    fn packets_are_the_message_wherever_it_lies() {
        for lengths in [
            &[40, 10_000][..],
            &[40, 10_000, 3],
            &[3000, 1, 1, 5000, 0, 7],
            &[0, 4096, 2048],
            &[1024, 1024, 1024],
            &[0, 1025],
        ] {
            let (mut buf, bytes) = message(lengths);
            assert_eq!(buf.len(), bytes.len());
            for payload_bytes in [1024, 1500, 4096, 65_000] {
                // Again, as for packets that were lost; and of other lengths, in another session.
                assert_eq!(packets(&mut buf, payload_bytes, 1), bytes);
                assert_eq!(packets(&mut buf, payload_bytes, 100), bytes);
            }
        }
    }

    #[test]
    fn only_packets_across_pieces_are_copied() {
        let long = Bytes::from(vec![5; 10_000]);
        let mut buf = MsgBuf::from_slice(&[1; 24]);
        buf.attach(vec![long.clone().into()]);
        packets(&mut buf, 1000, 0);
        for index in 1..10 {
            let (_, body) = buf.packet(index, 1000);
            let at = index as usize * 1000 - 24;
            assert_eq!(body.as_ptr(), long[at..].as_ptr(), "where it lies");
        }
    }

    /// Memory that tests write while a message has it.
    #[derive(Debug)]
    struct Written(Mutex<Vec<u8>>);

    impl SharedMemory for Written {
        fn bytes(&self) -> usize {
            self.0.lock().expect("nobody panics").len()
        }

        fn copy_to(&self, at: usize, to: &mut [u8]) {
            let bytes = self.0.lock().expect("nobody panics");
            to.copy_from_slice(&bytes[at..at + to.len()]);
        }
    }

    #[test]
    fn packets_of_shared_memory_have_what_is_there_when_they_are_made() {
        let memory = Arc::new(Written(Mutex::new(vec![7; 5000])));
        let mut buf = MsgBuf::from_slice(&[1; 24]);
        let end = Segment::Owned(Bytes::from_static(&[3; 10]));
        buf.attach(vec![Segment::Shared(memory.clone()), end]);
        assert!(buf.is_shared() && buf.len() == 5034);
        let expected = |leaf: u8| [&[1; 24][..], &[leaf; 5000], &[3; 10]].concat();
        assert_eq!(packets(&mut buf, 1000, 0), expected(7));
        memory.0.lock().expect("nobody panics").fill(9);
        let mut whole = vec![0; 5034];
        buf.copy_range(0, &mut whole);
        assert_eq!(whole, expected(9));
        assert_eq!(packets(&mut buf, 1000, 0), expected(9));
        buf.flatten();
        assert_eq!((buf.as_slice(), buf.is_shared()), (&expected(9)[..], false));
        assert_eq!(Arc::strong_count(&memory), 1, "nothing is kept");
    }

    #[test]
    fn a_packet_that_is_made_again_has_what_was_written_since() {
        let (mut buf, _) = message(&[8, 2000]);
        packets(&mut buf, 1024, 1);
        buf.as_mut_slice()[4] = 0xff;
        assert_eq!(packets(&mut buf, 1024, 1)[4], 0xff);
    }

    #[test]
    fn any_range_is_copied() {
        let (buf, bytes) = message(&[10, 20, 1000]);
        for start in 0..40 {
            for end in [start, start + 1, start + 15, start + 25, bytes.len()] {
                let mut to = vec![0; end - start];
                buf.copy_range(start, &mut to);
                assert_eq!(to, bytes[start..end]);
            }
        }
    }

    #[test]
    fn short_messages_are_slices() {
        let (buf, bytes) = message(&[10, 20, 994]);
        assert_eq!((buf.as_slice(), buf.has_tail()), (&bytes[..], false));
        assert!(message(&[10, 20, 995]).0.has_tail());
    }

    #[test]
    fn a_buffer_that_is_used_again_has_no_tail() {
        let segment = Bytes::from(vec![1; 2000]);
        let mut buf = MsgBuf::new(16);
        buf.skip(8);
        buf.attach(vec![segment.clone().into(), Bytes::new().into()]);
        assert_eq!((buf.len(), buf.as_slice().len(), buf.has_tail()), (2008, 8, true));
        buf.rewind();
        assert_eq!((buf.len(), buf.has_tail(), segment.is_unique()), (16, false, true));
        buf.attach(vec![segment.clone().into()]);
        drop(buf);
        assert!(segment.is_unique(), "nothing is kept");
        let mut plain = MsgBuf::new(5);
        plain.attach(vec![Bytes::new().into()]);
        assert!(!plain.has_tail());
    }

    #[test]
    #[should_panic(expected = "such a packet")]
    fn a_packet_behind_the_end_is_a_bug() {
        message(&[8, 2016]).0.write_header(2, 1024, &[0; HEADER_BYTES]);
    }
}
