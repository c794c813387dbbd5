//! The numbers of message encodings and compression codecs.

use crate::{Malformed, Status};

/// The encoding of a body (R6): two bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Not a typed message: a bind, or no body.
    #[default]
    None,
    /// The native encoding of `message.md`.
    Native,
    /// Protobuf's encoding.
    Protobuf,
}

impl Encoding {
    /// The encoding with a number from the wire; 3 and above are invalid.
    pub const fn from_number(number: u8) -> Result<Encoding, Malformed> {
        match number {
            0 => Ok(Encoding::None),
            1 => Ok(Encoding::Native),
            2 => Ok(Encoding::Protobuf),
            _ => Err(Malformed::Encoding),
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The compression of a body (R8). Numbers without a name can be represented, but not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Codec(u8);

impl Codec {
    /// Not compressed.
    pub const IDENTITY: Codec = Codec(0);
    /// gzip (RFC 1952).
    pub const GZIP: Codec = Codec(1);
    /// The decompressed length as a `u32`, then one LZ4 block.
    pub const LZ4: Codec = Codec(2);

    const NAMES: [&'static str; 3] = ["identity", "gzip", "lz4"];

    /// The codec with a number from the wire.
    pub const fn from_number(number: u8) -> Codec {
        Codec(number)
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The codec with a name, as in `grpc-encoding`.
    pub fn from_name(name: &str) -> Option<Codec> {
        let number = Self::NAMES.iter().position(|known| *known == name)?;
        u8::try_from(number).ok().map(Codec)
    }

    /// The name, if the codec has one.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.get(usize::from(self.0)).copied()
    }

    /// Bodies of at least this many bytes may be compressed (R8).
    pub const BODY_BYTES_MIN: usize = 1024;

    /// R8: the codec for a body of `body_bytes`. This codec is preferred; the receiver accepts the
    /// codecs in `accepted`.
    pub const fn for_body(self, body_bytes: usize, accepted: CodecSet) -> Codec {
        let worth = body_bytes >= Self::BODY_BYTES_MIN && accepted.contains(self);
        if worth { self } else { Codec::IDENTITY }
    }

    /// R8: checks that a receiver which supports `spoken` can decompress a body with this codec.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`: the sender's fault, because it knew which codecs are supported.
    pub fn check(self, spoken: CodecSet) -> Result<(), Status> {
        if spoken.contains(self) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("compression codec {} is not supported", self.0)))
    }
}

/// A set of codecs, as in binds (R2): bit *c* for codec *c*. It always contains the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecSet(u32);

impl CodecSet {
    /// The identity alone.
    pub const IDENTITY: CodecSet = CodecSet(1);

    /// The set with these bits, plus the identity.
    pub const fn from_bits(bits: u32) -> CodecSet {
        CodecSet(bits | 1)
    }

    /// The bits as on the wire.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// This set plus `codec`. Codecs with numbers of 32 and above cannot be added.
    #[must_use]
    pub const fn with(self, codec: Codec) -> CodecSet {
        if codec.0 < 32 { CodecSet(self.0 | 1 << codec.0) } else { self }
    }

    /// Whether the set contains `codec`.
    pub const fn contains(self, codec: Codec) -> bool {
        codec.0 < 32 && self.0 & (1 << codec.0) != 0
    }
}

impl Default for CodecSet {
    fn default() -> CodecSet {
        CodecSet::IDENTITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn r8_codecs_have_names_and_numbers() {
        for (number, name) in [(0, "identity"), (1, "gzip"), (2, "lz4")] {
            let codec = Codec::from_number(number);
            assert_eq!((codec.name(), codec.number()), (Some(name), number));
            assert_eq!(Codec::from_name(name), Some(codec));
        }
        assert_eq!(Codec::from_number(3).name(), None);
        assert_eq!(Codec::from_name("br"), None);
    }

    #[test]
    fn r8_only_long_bodies_are_compressed_and_only_for_who_takes_it() {
        let takes = CodecSet::IDENTITY.with(Codec::GZIP);
        assert_eq!(Codec::GZIP.for_body(1024, takes), Codec::GZIP);
        assert_eq!(Codec::GZIP.for_body(1023, takes), Codec::IDENTITY);
        assert_eq!(Codec::LZ4.for_body(1 << 20, takes), Codec::IDENTITY);
    }

    #[test]
    fn r8_an_unknown_codec_is_unimplemented() {
        let spoken = CodecSet::from_bits(0b010);
        assert!(Codec::IDENTITY.check(spoken).is_ok() && Codec::GZIP.check(spoken).is_ok());
        for number in [2, 7, 31, 32, 255] {
            let refused = Codec::from_number(number).check(spoken).unwrap_err();
            assert_eq!(refused.code(), Code::Unimplemented);
        }
        assert!(!CodecSet::from_bits(u32::MAX).contains(Codec::from_number(32)));
    }
}
