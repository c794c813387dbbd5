//! The 24 bytes before every payload: three little-endian words.
//!
//! ```text
//! word 0            version:4  kind:4  flags:8  session:20  tag:28
//! word 1            request:40  transmission:24
//! word 2, client    packet_index:20  message_bytes:28  method:16
//! word 2, server    echo:24  value:28  credits:12
//! ```
//! The fields of each word are listed from the least significant bit upwards.

use core::fmt;

use crate::{Encoding, HEADER_BYTES, Kind, VERSION};

const VERSION_MASK: u64 = 0xf;
const KIND_MASK: u64 = 0xf << 4;
const FROM_SERVER: u64 = 1 << 7;
pub(crate) const FLAG_KEY_PHASE: u64 = 1 << 8;
pub(crate) const FLAG_ECN_ECHO: u64 = 1 << 9;
const ENCODING_SHIFT: u32 = 10;
pub(crate) const ENCODING_MASK: u64 = 0b11 << ENCODING_SHIFT;
const FLAG_CHECKSUM: u64 = 1 << 12;
pub(crate) const FLAG_LATER: u64 = 1 << 13;
const FLAGS_RESERVED: u64 = 0b11 << 14;
pub(crate) const FLAGS_MASK: u64 = 0xff << 8;
pub(crate) const SESSION_SHIFT: u32 = 16;
const SESSION_MASK: u64 = (1 << 20) - 1;
/// The bits of the session's index in the first word.
pub(crate) const SESSION_IN_WORD_MASK: u64 = SESSION_MASK << SESSION_SHIFT;
const TAG_SHIFT: u32 = 36;
const MARK_MASK: u64 = u64::MAX << TAG_SHIFT | FLAG_CHECKSUM;
const REQUEST_MASK: u64 = (1 << 40) - 1;
pub(crate) const TRANSMISSION_SHIFT: u32 = 40;
pub(crate) const INDEX_MASK: u64 = (1 << 20) - 1;
const MESSAGE_BYTES_SHIFT: u32 = 20;
const VALUE_MASK: u64 = (1 << 28) - 1;
const METHOD_SHIFT: u32 = 48;
const ECHO_MASK: u64 = (1 << 24) - 1;
const VALUE_SHIFT: u32 = 24;
const CREDITS_SHIFT: u32 = 52;

const _: () = assert!(HEADER_BYTES == 3 * size_of::<u64>());

/// Why received bytes are not a packet. The sender is at fault, or the bytes are noise. They are
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// Shorter than a header (W1).
    Short,
    /// Another version of the protocol (W2).
    Version(u8),
    /// A kind that is not assigned (W3).
    Kind(u8),
    /// A reserved flag is set (W11).
    ReservedFlag,
    /// The checksum does not match (W12).
    Checksum,
}

impl Malformed {
    /// Says what is wrong with a first word that has failed the checks.
    #[cold]
    fn of(word: u64) -> Malformed {
        if word & VERSION_MASK != u64::from(VERSION) {
            Malformed::Version((word & VERSION_MASK) as u8)
        } else if word & KIND_MASK == 0 {
            Malformed::Kind(0)
        } else {
            Malformed::ReservedFlag
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short => write!(f, "shorter than a header"),
            Malformed::Version(version) => write!(f, "version {version}, not {VERSION}"),
            Malformed::Kind(kind) => write!(f, "kind {kind} is not assigned"),
            Malformed::ReservedFlag => write!(f, "a reserved flag is set"),
            Malformed::Checksum => write!(f, "the checksum does not match"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A received packet whose header has been checked.
///
/// [`Packet::parse`] has checked that there are at least [`HEADER_BYTES`] bytes, that the version
/// is this one, that the kind is assigned, and that no reserved flag is set. So no accessor can
/// fail.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub(crate) words: [u64; 3],
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the header of `bytes`.
    ///
    /// # Errors
    /// See [`Malformed`]. The checksum is not verified here (W12): that is the caller's task.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Malformed::Short);
        };
        let words = words_of(header);
        let regular = words[0] & (VERSION_MASK | FLAGS_RESERVED) == VERSION as u64;
        if !regular || words[0] & KIND_MASK == 0 {
            return Err(Malformed::of(words[0]));
        }
        Ok(Packet { words, payload })
    }

    /// Whether the packet is of `kind`, and not a response packet after the first.
    #[inline(always)]
    pub fn is_first(&self, kind: Kind) -> bool {
        self.words[0] & (KIND_MASK | FLAG_LATER) == (kind as u64) << 4
    }

    /// Whether the packet carries the tag and the checksum flag of a session (W4, W12).
    #[inline(always)]
    pub fn is_of(&self, mark: SessionMark) -> bool {
        self.words[0] & MARK_MASK == mark.0
    }

    /// Whether a server sent the packet.
    #[inline(always)]
    pub fn from_server(&self) -> bool {
        self.words[0] & FROM_SERVER != 0
    }

    /// What the packet is.
    #[inline]
    pub fn kind(&self) -> Kind {
        let bits = (self.words[0] & KIND_MASK) >> 4;
        Kind::from_bits(bits as u8).expect("parsing refuses the only unassigned kind")
    }

    /// The receiver's index of the session (W4).
    #[inline]
    pub fn session(&self) -> u32 {
        (self.words[0] >> SESSION_SHIFT & SESSION_MASK) as u32
    }

    /// The session's random tag (W4).
    #[inline]
    pub fn tag(&self) -> u32 {
        (self.words[0] >> TAG_SHIFT) as u32
    }

    /// The request's number in its session (W5).
    #[inline]
    pub fn request(&self) -> u64 {
        self.words[1] & REQUEST_MASK
    }

    /// The transmission number, fresh for every packet sent (W6).
    #[inline]
    pub fn transmission(&self) -> u32 {
        (self.words[1] >> TRANSMISSION_SHIFT) as u32
    }

    /// From the client: index of the packet in its message, or of the first one pulled (W7).
    #[inline]
    pub fn packet_index(&self) -> u32 {
        self.words[2] as u32 & INDEX_MASK as u32
    }

    /// From the client: length of the whole message, or one past the last index pulled (W8).
    #[inline]
    pub fn message_bytes(&self) -> u32 {
        (self.words[2] >> MESSAGE_BYTES_SHIFT & VALUE_MASK) as u32
    }

    /// From the client: the number of the method (W9).
    #[inline]
    pub fn method(&self) -> u16 {
        (self.words[2] >> METHOD_SHIFT) as u16
    }

    /// From the server: the transmission that this packet answers (W6).
    #[inline]
    pub fn echo(&self) -> u32 {
        (self.words[2] & ECHO_MASK) as u32
    }

    /// From the server: by kind, the message's length, a packet's index, or a code (W8).
    #[inline]
    pub fn value(&self) -> u32 {
        (self.words[2] >> VALUE_SHIFT & VALUE_MASK) as u32
    }

    /// From the server: packets that the client may have in flight on the session (W10).
    #[inline]
    pub fn credits(&self) -> u32 {
        (self.words[2] >> CREDITS_SHIFT) as u32
    }

    /// Whether the packet that this one answers met congestion (W11).
    #[inline]
    pub fn ecn_echo(&self) -> bool {
        self.words[0] & FLAG_ECN_ECHO != 0
    }

    /// Which of two keys seals the packet (W30). Always clear in plaintext.
    pub fn key_phase(&self) -> bool {
        self.words[0] & FLAG_KEY_PHASE != 0
    }

    /// How the message's bytes are encoded (W11).
    #[inline]
    pub fn encoding(&self) -> Encoding {
        match self.words[0] >> ENCODING_SHIFT & 0b11 {
            0 => Encoding::Opaque,
            1 => Encoding::Native,
            2 => Encoding::Protobuf,
            _ => Encoding::Reserved,
        }
    }

    /// Whether this is a response packet after the first, so that its value is an index and not
    /// the message's length (W8).
    #[inline]
    pub fn is_later(&self) -> bool {
        self.words[0] & FLAG_LATER != 0
    }

    /// Whether a CRC32C (W12), or in a sealed session a tag (W27), follows the payload.
    #[inline]
    pub fn has_checksum(&self) -> bool {
        self.words[0] & FLAG_CHECKSUM != 0
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The same packet, from a client, without the padding that may follow a request's only
    /// packet (W7).
    #[inline(always)]
    pub fn request_without_padding(self) -> Packet<'a> {
        self.cut(Kind::Request, self.message_bytes() as usize)
    }

    /// The same packet, from a server, without the padding that may follow a response's only
    /// packet (W7).
    #[inline(always)]
    pub fn response_without_padding(self) -> Packet<'a> {
        self.cut(Kind::Response, self.value() as usize)
    }

    #[inline(always)]
    fn cut(self, kind: Kind, bytes: usize) -> Packet<'a> {
        if bytes < self.payload.len() && self.is_first(kind) {
            return Packet { payload: &self.payload[..bytes], ..self };
        }
        self
    }

    /// The same packet with `payload` in place of its own: used once a trailer has been cut off.
    #[inline(always)]
    pub fn with_payload(self, payload: &'a [u8]) -> Packet<'a> {
        Packet { payload, ..self }
    }
}

/// The fields that all packets to one end of a session share: the tag, and whether a checksum
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionMark(u64);

impl SessionMark {
    /// The mark of packets with `tag`.
    pub const fn new(tag: u32, checksum: bool) -> SessionMark {
        let flag = if checksum { FLAG_CHECKSUM } else { 0 };
        SessionMark((tag as u64) << TAG_SHIFT | flag)
    }

    /// Whether a checksum follows.
    pub(crate) const fn has_checksum(self) -> bool {
        self.0 & FLAG_CHECKSUM != 0
    }

    /// The mark, as bits of a packet's first word.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }
}

/// A header to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    words: [u64; 3],
}

impl Header {
    /// A header with only the fields that a session fixes: the peer's `session` and `tag`. The
    /// other fields are 0.
    pub const fn for_session(session: u32, tag: u32) -> Header {
        let word = VERSION as u64
            | (session as u64 & SESSION_MASK) << SESSION_SHIFT
            | (tag as u64) << TAG_SHIFT;
        Header { words: [word, 0, 0] }
    }

    /// The part that the header shares with others of its kind in its session.
    pub const fn start(self) -> HeaderStart {
        HeaderStart(self.words[0])
    }

    /// Sets the kind, the request number and a fresh transmission number, each within its width.
    #[inline]
    pub const fn with_request(self, kind: Kind, request: u64, transmission: u32) -> Header {
        self.with_kind(kind).with_numbers(request, transmission)
    }

    /// Sets the kind alone, for a header that many packets share.
    #[inline]
    pub const fn with_kind(self, kind: Kind) -> Header {
        Header { words: [self.words[0] | (kind as u64) << 4, self.words[1], self.words[2]] }
    }

    /// Sets the request number and a fresh transmission number, each within its width.
    #[inline(always)]
    pub const fn with_numbers(self, request: u64, transmission: u32) -> Header {
        debug_assert!(request <= REQUEST_MASK && transmission as u64 <= ECHO_MASK);
        let word = request | (transmission as u64) << TRANSMISSION_SHIFT;
        Header { words: [self.words[0], word, self.words[2]] }
    }

    /// The same header with another transmission number, within its width.
    #[inline]
    pub const fn with_transmission(self, transmission: u32) -> Header {
        self.with_numbers(self.words[1] & REQUEST_MASK, transmission)
    }

    /// Sets the fields that a client sends, each within its width.
    #[inline]
    pub const fn with_client(self, packet_index: u32, message_bytes: u32, method: u16) -> Header {
        debug_assert!(packet_index as u64 <= INDEX_MASK && message_bytes as u64 <= VALUE_MASK);
        let word = packet_index as u64
            | (message_bytes as u64) << MESSAGE_BYTES_SHIFT
            | (method as u64) << METHOD_SHIFT;
        Header { words: [self.words[0], self.words[1], word] }
    }

    /// Sets the fields that a server sends, each within its width.
    #[inline]
    pub const fn with_server(self, echo: u32, value: u32, credits: u32) -> Header {
        debug_assert!(echo as u64 <= ECHO_MASK && value as u64 <= VALUE_MASK);
        debug_assert!(credits < 1 << 12);
        let word = echo as u64 | (value as u64) << VALUE_SHIFT | (credits as u64) << CREDITS_SHIFT;
        Header { words: [self.words[0], self.words[1], word] }
    }

    /// Sets whether the answered packet met congestion.
    #[inline]
    pub const fn with_ecn_echo(self, marked: bool) -> Header {
        let bit = if marked { FLAG_ECN_ECHO } else { 0 };
        Header { words: [self.words[0] | bit, self.words[1], self.words[2]] }
    }

    /// Marks the value as a packet's index, not the message's length.
    #[inline]
    pub const fn with_later(self) -> Header {
        Header { words: [self.words[0] | FLAG_LATER, self.words[1], self.words[2]] }
    }

    /// Says that a CRC32C follows the payload.
    #[inline]
    pub const fn with_checksum(self) -> Header {
        Header { words: [self.words[0] | FLAG_CHECKSUM, self.words[1], self.words[2]] }
    }

    /// Sets the message's encoding.
    #[inline]
    pub const fn with_encoding(self, encoding: Encoding) -> Header {
        let bits = (encoding as u64) << ENCODING_SHIFT;
        Header { words: [self.words[0] | bits, self.words[1], self.words[2]] }
    }

    /// Whether a CRC32C follows the payload.
    #[inline(always)]
    pub const fn has_checksum(self) -> bool {
        self.words[0] & FLAG_CHECKSUM != 0
    }

    /// The header as bytes on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.write_to(&mut bytes);
        bytes
    }

    /// Writes the header as bytes on the wire.
    #[inline(always)]
    pub fn write_to(self, bytes: &mut [u8; HEADER_BYTES]) {
        bytes[..8].copy_from_slice(&self.words[0].to_le_bytes());
        bytes[8..16].copy_from_slice(&self.words[1].to_le_bytes());
        bytes[16..].copy_from_slice(&self.words[2].to_le_bytes());
    }
}

/// The first word, which all headers of one kind in a session share. Sessions keep it ready-made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderStart(u64);

impl HeaderStart {
    /// The header with this request number and a fresh transmission number, each within its width.
    #[inline(always)]
    pub const fn with_numbers(self, request: u64, transmission: u32) -> Header {
        Header { words: [self.0, 0, 0] }.with_numbers(request, transmission)
    }
}

#[inline]
pub(crate) fn words_of(header: &[u8; HEADER_BYTES]) -> [u64; 3] {
    let word = |at: usize| {
        let bytes: [u8; 8] = header[at..at + 8].try_into().expect("eight bytes are eight bytes");
        u64::from_le_bytes(bytes)
    };
    [word(0), word(8), word(16)]
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
