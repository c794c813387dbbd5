//! Recognising a session's most common packets with a single comparison.
//!
//! [`Packet::parse`] checks a header field by field, and a session then checks tag, kind and flags
//! one by one. For an ordinary message of one packet, there is only one right value for all of
//! these together, and it is known when the session is set up: its [`Signature`]. A packet that
//! differs goes through the full checks, which find out what is wrong.

use crate::header::{ENCODING_MASK, FLAG_KEY_PHASE, SESSION_IN_WORD_MASK, SESSION_SHIFT, words_of};
use crate::{HEADER_BYTES, Kind, Packet, SessionMark, VERSION};

/// A datagram that is long enough for a header. Nothing else has been checked.
#[derive(Clone, Copy, Debug)]
pub struct RawPacket<'a> {
    words: [u64; 3],
    payload: &'a [u8],
}

/// A packet that may carry a session's [`Signature`].
pub trait Signed<'a> {
    /// The packet, if it carries `signature`. It then passes the checks of [`Packet::parse`], and
    /// its tag is right.
    fn signed(&self, signature: Signature) -> Option<Packet<'a>>;
}

/// A packet whose checksum or seal has been verified and cut off.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a>(pub Packet<'a>);

impl<'a> Signed<'a> for Verified<'a> {
    #[inline(always)]
    fn signed(&self, signature: Signature) -> Option<Packet<'a>> {
        let word = self.0.words[0] & !(SESSION_IN_WORD_MASK | ENCODING_MASK | FLAG_KEY_PHASE);
        (word | SESSION_IN_WORD_MASK == signature.0).then_some(self.0)
    }
}

impl<'a> RawPacket<'a> {
    /// Reads the header of `bytes`; `None` if they are too short for one (W1).
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<RawPacket<'a>> {
        let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        Some(RawPacket { words: words_of(header), payload })
    }

    /// Whether a server claims to have sent the packet.
    #[inline(always)]
    pub fn from_server(&self) -> bool {
        self.unchecked().from_server()
    }

    /// The session that the packet claims to be for (W4): below [`crate::SESSIONS_MAX`].
    #[inline(always)]
    pub fn session(&self) -> usize {
        ((self.words[0] & SESSION_IN_WORD_MASK) >> SESSION_SHIFT) as usize
    }

    /// The request that the packet claims to be about (W5).
    #[inline(always)]
    pub fn request(&self) -> u64 {
        self.unchecked().request()
    }

    #[inline(always)]
    fn unchecked(&self) -> Packet<'a> {
        Packet { words: self.words, payload: self.payload }
    }
}

impl<'a> Signed<'a> for RawPacket<'a> {
    #[inline(always)]
    fn signed(&self, signature: Signature) -> Option<Packet<'a>> {
        let word = self.words[0] & !(SESSION_IN_WORD_MASK | ENCODING_MASK);
        (word == signature.0).then_some(self.unchecked())
    }
}

/// The first word of a session's most common packets: this version, one kind, the session's tag,
/// and no flag set. The session's index and the encoding are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(u64);

impl Signature {
    /// The signature of packets of `kind` with `mark`. In a session with checksums (W12) or seals
    /// (W27), only [`Verified`] packets match it.
    pub const fn new(kind: Kind, mark: SessionMark) -> Signature {
        let word = VERSION as u64 | (kind as u64) << 4 | mark.word();
        if mark.has_checksum() {
            // No word has these bits once the session's index is masked out.
            return Signature(word | SESSION_IN_WORD_MASK);
        }
        Signature(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Header};

    const TAG: u32 = 0xabc_def0;

    fn request() -> Header {
        Header::for_session(77, TAG).with_request(Kind::Request, 5, 6).with_client(0, 0, 9)
    }

    fn is_signed(header: Header, signature: Signature) -> bool {
        let bytes = header.to_bytes();
        let raw = RawPacket::read(&bytes).expect("a header is long enough");
        assert_eq!((raw.session(), raw.from_server()), (77, false));
        raw.signed(signature).is_some()
    }

    #[test]
    fn only_the_ordinary_packet_is_signed() {
        let signature = Signature::new(Kind::Request, SessionMark::new(TAG, false));
        assert!(is_signed(request(), signature));
        assert!(is_signed(request().with_encoding(Encoding::Protobuf), signature));
        assert!(!is_signed(request().with_checksum(), signature));
        assert!(!is_signed(request().with_later(), signature));
        assert!(!is_signed(request().with_ecn_echo(true), signature));
        let other_kind = Signature::new(Kind::Pull, SessionMark::new(TAG, false));
        assert!(!is_signed(request(), other_kind));
        let other_tag = Signature::new(Kind::Request, SessionMark::new(TAG + 1, false));
        assert!(!is_signed(request(), other_tag));
    }

    #[test]
    fn a_session_with_checksums_has_no_ordinary_packets() {
        let signature = Signature::new(Kind::Request, SessionMark::new(TAG, true));
        assert!(!is_signed(request(), signature));
        assert!(!is_signed(request().with_checksum(), signature));
        for word in [0, u64::MAX, SESSION_IN_WORD_MASK] {
            let bytes = [word.to_le_bytes(), [0; 8], [0; 8]].concat();
            let raw = RawPacket::read(&bytes).expect("a header is long enough");
            assert!(raw.signed(signature).is_none(), "{word:x}");
        }
    }

    #[test]
    fn verified_packets_of_such_a_session_are_ordinary_whatever_the_key_phase() {
        let signature = Signature::new(Kind::Request, SessionMark::new(TAG, true));
        let is_signed = |header: Header, odd: bool, signature| {
            let mut bytes = header.to_bytes();
            crate::set_key_phase(&mut bytes, odd);
            let packet = Packet::parse(&bytes).expect("the header is one");
            Verified(packet).signed(signature).is_some()
        };
        for odd in [false, true] {
            assert!(is_signed(request().with_checksum(), odd, signature));
            assert!(!is_signed(request(), odd, signature), "it says that nothing follows");
            assert!(!is_signed(request().with_checksum().with_ecn_echo(true), odd, signature));
            let other_tag = Signature::new(Kind::Request, SessionMark::new(TAG + 1, true));
            assert!(!is_signed(request().with_checksum(), odd, other_tag));
            let plain = Signature::new(Kind::Request, SessionMark::new(TAG, false));
            assert!(!is_signed(request(), odd, plain));
        }
    }

    #[test]
    fn w1_short_bytes_are_no_packet() {
        assert!(RawPacket::read(&[0; HEADER_BYTES - 1]).is_none());
    }

    /// Whatever is signed also parses, to the same packet: no flipped bit slips through.
    #[test]
    fn what_is_signed_parses() {
        let signature = Signature::new(Kind::Request, SessionMark::new(TAG, false));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = request().to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let raw = RawPacket::read(&bytes).expect("a header is long enough");
            if let Some(signed) = raw.signed(signature) {
                let parsed = Packet::parse(&bytes).expect("a signed packet is well-formed");
                assert!(parsed.is_of(SessionMark::new(TAG, false)), "bit {bit}");
                assert!(parsed.is_first(Kind::Request), "bit {bit}");
                assert_eq!(parsed.request(), signed.request());
            }
        }
    }
}
