//! The segment size that is set on the socket itself.
//!
//! The kernel takes a train's segment size from a control message, or from the socket. A control
//! message costs a send some 55 ns of 820. Most programs send trains of one length for a long time,
//! so that length is set on the socket, and such trains need no control message. Only lengths that
//! every path carries are set: a kernel may refuse even short datagrams on a socket whose segments
//! do not fit the path.
//!
//! On a socket with a segment size, the kernel also puts the payload of a single datagram into
//! pages beside its headers, and computes its checksum: 0.25 µs more. So a socket that sends only
//! single datagrams loses its segment size again.

use crate::sys::Message;

/// How many messages in a row must suit another size better before that one is set: a system call
/// costs as much as a dozen control messages.
const PATIENCE: u8 = 64;

/// The longest segment that is set, in bytes.
const SET_BYTES_MAX: u16 = 1024;

/// The socket's segment size, and the size that it should have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// The socket's segment size, in bytes; 0 if it has none.
    set: u16,
    /// Another size that recent messages needed, and how many of them in a row.
    wanted: u16,
    times: u8,
}

impl Segment {
    /// The socket's segment size.
    #[inline]
    pub(crate) fn set(self) -> u16 {
        self.set
    }

    /// Notes that the socket's segment size was changed.
    #[cold]
    pub(crate) fn change(&mut self, set: u16) {
        *self = Segment { set, wanted: set, times: 0 };
    }

    /// Notes that `message` is about to be sent. Returns the segment size to set on the socket
    /// before that, if it should change.
    #[inline]
    pub(crate) fn note(&mut self, message: &Message<'_>) -> Option<u16> {
        let wanted = message.segment_bytes.unwrap_or(0);
        if wanted == self.set {
            if self.times > 0 {
                self.times = 0;
            }
            return None;
        }
        self.note_other(wanted)
    }

    #[inline(never)]
    fn note_other(&mut self, wanted: u16) -> Option<u16> {
        if wanted > SET_BYTES_MAX {
            return None;
        }
        self.times = if wanted == self.wanted { self.times + 1 } else { 1 };
        self.wanted = wanted;
        (self.times >= PATIENCE).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    /// What the socket has after so many messages of `bytes` bytes in segments, one after another.
    fn set_after(segment: &mut Segment, count: usize, shapes: &[(usize, Option<u16>)]) -> u16 {
        for (bytes, segment_bytes) in shapes.iter().cycle().take(count) {
            let (bytes, segment_bytes) = (vec![0; *bytes], *segment_bytes);
            let pieces = [IoSlice::new(&bytes)];
            let message = Message { destination: None, pieces: &pieces, segment_bytes };
            if let Some(size) = segment.note(&message) {
                segment.change(size);
            }
        }
        segment.set()
    }

    #[test]
    fn a_size_is_set_once_it_has_lasted() {
        let mut segment = Segment::default();
        assert_eq!(set_after(&mut segment, 63, &[(560, Some(56))]), 0);
        assert_eq!(set_after(&mut segment, 1, &[(560, Some(56))]), 56);
        assert_eq!(set_after(&mut segment, 63, &[(640, Some(64))]), 56);
        assert_eq!(set_after(&mut segment, 1, &[(560, Some(56))]), 56, "it suits this one");
        assert_eq!(set_after(&mut segment, 63, &[(640, Some(64))]), 56, "so they count anew");
        assert_eq!(set_after(&mut segment, 1, &[(640, Some(64))]), 64);
    }

    #[test]
    fn sizes_that_change_all_the_time_are_not_set() {
        let mut segment = Segment::default();
        assert_eq!(set_after(&mut segment, 1000, &[(560, Some(56)), (640, Some(64))]), 0);
    }

    #[test]
    fn single_datagrams_end_it_and_long_trains_do_not() {
        for bytes in [56, 57] {
            let mut segment = Segment::default();
            set_after(&mut segment, 64, &[(560, Some(56))]);
            assert_eq!(set_after(&mut segment, 1000, &[(14_480, Some(1448))]), 56);
            assert_eq!(set_after(&mut segment, 1000, &[(56, None), (560, Some(56))]), 56);
            assert_eq!(set_after(&mut segment, 63, &[(bytes, None)]), 56);
            assert_eq!(set_after(&mut segment, 1, &[(bytes, None)]), 0);
        }
    }
}
