//! Netlink's framing: messages, their fixed part, and attributes (RFC 3549, section 2.3).
//!
//! Everything is in host byte order, except addresses and ports. Every length in received bytes is
//! checked; reading stops at malformed bytes.

/// A request under construction.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this kind, with its fixed part.
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32, fixed: &[u8]) -> Request {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(fixed);
        Request { bytes }
    }

    /// Adds an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        let len = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// The bytes to send.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let len = (self.bytes.len() as u32).to_ne_bytes();
        self.bytes[..4].copy_from_slice(&len);
        self.bytes
    }
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The body's fixed part of `len` bytes, and the attributes behind it.
    pub(crate) fn split(&self, len: usize) -> Option<(&'a [u8], Attributes<'a>)> {
        let rest = self.body.get(len.next_multiple_of(ALIGNMENT)..)?;
        Some((&self.body[..len], Attributes { rest }))
    }
}

/// The messages of one datagram.
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = u32_at(self.rest, 0)? as usize;
        let kind = u16_at(self.rest, 4)?;
        let sequence = u32_at(self.rest, 8)?;
        let body = self.rest.get(MESSAGE_HEADER_BYTES..len)?;
        self.rest = self.rest.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some(Message { kind, sequence, body })
    }
}

/// The attributes of a message, or those nested in an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this kind.
    pub(crate) fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find_map(|(found, value)| (found == kind).then_some(value))
    }

    /// The attributes nested in the first attribute of this kind.
    pub(crate) fn nested(self, kind: u16) -> Attributes<'a> {
        Attributes { rest: self.find(kind).unwrap_or(&[]) }
    }

    /// The first attribute of this kind as a number.
    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        u32_at(self.find(kind)?, 0)
    }

    /// The first attribute of this kind as text.
    pub(crate) fn text(self, kind: u16) -> Option<String> {
        let value = self.find(kind)?;
        let len = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        Some(String::from_utf8_lossy(&value[..len]).into_owned())
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let len = u16_at(self.rest, 0)? as usize;
        let kind = u16_at(self.rest, 2)? & ATTRIBUTE_KIND_MASK;
        let value = self.rest.get(ATTRIBUTE_HEADER_BYTES..len)?;
        self.rest = self.rest.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

const MESSAGE_HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ALIGNMENT: usize = 4;
/// Without the flags for nesting and byte order.
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;
const NLM_F_REQUEST: u16 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_built_can_be_read(
            kind: u16,
            sequence: u32,
            values in proptest::collection::vec(
                (0u16..0x4000, proptest::collection::vec(any::<u8>(), 0..30)), 0..6)
        ) {
            let request = Request::new(kind, 0, sequence, &[7; 8]);
            let request = values.iter().fold(request, |request, (kind, value)| {
                request.attribute(*kind, value)
            });
            let bytes = request.finish();
            let messages: Vec<_> = Messages::new(&bytes).collect();
            prop_assert_eq!(messages.len(), 1);
            prop_assert_eq!((messages[0].kind, messages[0].sequence), (kind, sequence));
            let (fixed, attributes) = messages[0].split(8).expect("the fixed part is there");
            prop_assert_eq!(fixed, [7; 8]);
            let read: Vec<_> = attributes.map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn hostile_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in Messages::new(&bytes) {
                if let Some((_, attributes)) = message.split(4) {
                    attributes.nested(1).for_each(drop);
                }
            }
        }

        #[test]
        fn hostile_lengths_are_survived(len in 0u32..64, inner in 0u16..64, fill: u8) {
            let mut bytes = vec![fill; 48];
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            bytes[16..18].copy_from_slice(&inner.to_ne_bytes());
            let count = Messages::new(&bytes).filter_map(|message| message.split(0))
                .map(|(_, attributes)| attributes.count()).sum::<usize>();
            prop_assert!(count <= 48);
        }
    }

    #[test]
    fn a_length_of_zero_ends_the_reading() {
        assert_eq!(Messages::new(&[0; 64]).count(), 0);
        assert_eq!(Attributes { rest: &[0; 64] }.count(), 0);
    }
}
