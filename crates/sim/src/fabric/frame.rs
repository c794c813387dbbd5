//! A packet without its payload: experiments only need lengths and the protocol's header.

use petasos_wire::{BITMAP_WORDS_MAX, HEADER_BYTES, Header, Packet};

use crate::link::Link;
use crate::packet::Body;

/// One packet, small and `Copy`: nothing is allocated for it.
///
/// An acknowledgement's bitmap is included, up to [`BITMAP_WORDS`] words; the rest is cut off, as
/// if the packet had no room for it (W18 allows any number of words).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    head: [u8; HEADER_BYTES],
    payload_bytes: u32,
    bitmap_words: u32,
    bitmap: [u64; BITMAP_WORDS],
}

/// Enough for 256 packets behind the first gap; windows in the experiments are below 128.
pub(crate) const BITMAP_WORDS: usize = 4;
const _: () = assert!(BITMAP_WORDS <= BITMAP_WORDS_MAX);

impl Frame {
    /// A header with `payload_bytes` of payload whose content does not matter.
    #[inline]
    pub(crate) fn new(header: Header, payload_bytes: u32) -> Frame {
        let head = header.to_bytes();
        Frame { head, payload_bytes, bitmap_words: 0, bitmap: [0; BITMAP_WORDS] }
    }

    /// An acknowledgement with its bitmap.
    #[inline]
    pub(crate) fn with_bitmap(header: Header, words: &[u64]) -> Frame {
        let mut bitmap = [0; BITMAP_WORDS];
        let used = words.len().min(BITMAP_WORDS);
        bitmap[..used].copy_from_slice(&words[..used]);
        let payload_bytes = (used * size_of::<u64>()) as u32;
        Frame { head: header.to_bytes(), payload_bytes, bitmap_words: used as u32, bitmap }
    }
}

impl Body for Frame {
    #[inline]
    fn payload_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes as usize
    }

    /// The packet is refused by its receiver's checksum, so which bits flipped does not matter.
    fn damage(&mut self, _link: &mut Link) {}
}

/// A buffer in which frames are encoded, one at a time, to be parsed like received packets.
#[derive(Debug)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    /// Room for payloads of up to `payload_bytes_max`.
    pub(crate) fn new(payload_bytes_max: u32) -> Scratch {
        let bitmap_bytes = BITMAP_WORDS * size_of::<u64>();
        let room = (payload_bytes_max as usize).max(bitmap_bytes);
        Scratch { bytes: vec![0; HEADER_BYTES + room] }
    }

    /// The frame as the protocol sees it. Payloads other than bitmaps have arbitrary content.
    #[inline]
    pub(crate) fn packet(&mut self, frame: &Frame) -> Packet<'_> {
        let (head, payload) = self.bytes.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&frame.head);
        let words = &frame.bitmap[..frame.bitmap_words as usize];
        for (bytes, word) in payload.chunks_exact_mut(size_of::<u64>()).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let bytes = &self.bytes[..frame.payload_bytes()];
        Packet::parse(bytes).expect("the protocol emits headers that parse")
    }
}
