//! Control messages. Sent: the segment size. Received: segment size, ECN bits and drop count.
//!
//! Received control data is read as bytes, and every length is checked, so that no claim in it can
//! lead outside the buffer.

use core::mem::{offset_of, size_of};

use petasos_netio::Ecn;

/// The control data of a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// Bytes of each datagram in the train, if it is one.
    pub segment_bytes: Option<u32>,
    /// ECN bits of the IP header.
    pub ecn: Ecn,
    /// How many datagrams the socket has dropped in its life, modulo 2^32; none so far if absent.
    pub drops: Option<u32>,
}

/// Room for the control messages of one datagram: three of 24 bytes, and one to spare.
#[repr(C, align(8))]
pub(super) struct ControlBuffer(pub(super) [u8; 96]);

/// A `UDP_SEGMENT` control message, ready for the kernel.
#[repr(C, align(8))]
pub(super) struct SegmentControl {
    header: libc::cmsghdr,
    segment_bytes: u16,
}

const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

const _: () = {
    assert!(size_of::<SegmentControl>() == HEADER_BYTES + 8, "CMSG_SPACE(2)");
    assert!(offset_of!(SegmentControl, segment_bytes) == HEADER_BYTES);
    assert!(offset_of!(libc::cmsghdr, cmsg_len) == 0);
};

impl SegmentControl {
    pub(super) fn new(segment_bytes: u16) -> SegmentControl {
        let len = HEADER_BYTES + size_of::<u16>();
        let header = libc::cmsghdr {
            cmsg_len: len as _,
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        SegmentControl { header, segment_bytes }
    }
}

/// Reads the control messages in `bytes`. Skips those that are unknown or malformed.
pub(super) fn parse(bytes: &[u8]) -> Control {
    let mut control = Control::default();
    let mut rest = bytes;
    while let Some((level, kind, data, next)) = split_message(rest) {
        note(&mut control, level, kind, data);
        rest = next;
    }
    control
}

fn note(control: &mut Control, level: i32, kind: i32, data: &[u8]) {
    match (level, kind) {
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let size = data.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            control.segment_bytes = u32::try_from(size).ok().filter(|size| *size > 0);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) => {
            control.ecn = Ecn::from_traffic_class(data.first().copied().unwrap_or(0));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            let class = data.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            control.ecn = Ecn::from_traffic_class(class as u8);
        }
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
            control.drops = data.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        }
        _ => {}
    }
}

/// The first control message's level, type and data, and the bytes after it.
fn split_message(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = usize::from_ne_bytes(*header.first_chunk()?);
    let level = header[offset_of!(libc::cmsghdr, cmsg_level)..].first_chunk()?;
    let kind = header[offset_of!(libc::cmsghdr, cmsg_type)..].first_chunk()?;
    let data = bytes.get(HEADER_BYTES..len)?;
    let next = len.checked_next_multiple_of(size_of::<usize>())?;
    let rest = bytes.get(next..).unwrap_or(&[]);
    Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&level.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn every_known_message_is_read_and_unknown_ones_are_skipped() {
        let bytes = [
            message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &7u32.to_ne_bytes()),
            message(99, 98, &[1]),
            message(libc::IPPROTO_IP, libc::IP_TOS, &[0b1011]),
            message(libc::SOL_UDP, libc::UDP_GRO, &1472i32.to_ne_bytes()),
        ]
        .concat();
        let ecn = Ecn::CongestionExperienced;
        assert_eq!(parse(&bytes), Control { segment_bytes: Some(1472), ecn, drops: Some(7) });
    }

    #[test]
    fn a_segment_size_that_is_not_positive_is_none() {
        for size in [0, -1, i32::MIN] {
            let bytes = message(libc::SOL_UDP, libc::UDP_GRO, &i32::to_ne_bytes(size));
            assert_eq!(parse(&bytes).segment_bytes, None, "size {size}");
        }
    }

    #[test]
    fn a_length_beyond_the_buffer_ends_the_reading() {
        let mut bytes = message(libc::IPPROTO_IP, libc::IP_TOS, &[3]);
        bytes[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(parse(&bytes), Control::default());
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            parse(&bytes);
        }

        #[test]
        fn hostile_lengths_are_survived(len in 0usize..64, fill: u8) {
            let mut bytes = vec![fill; 48];
            bytes[..8].copy_from_slice(&len.to_ne_bytes());
            parse(&bytes);
        }
    }
}
