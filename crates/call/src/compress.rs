//! Compression of message bodies (rule R8 of `spec/call.md`): gzip and LZ4.
//!
//! Stateless functions from bytes to bytes. Input may be hostile: memory grows with the output, and
//! the caller's limit bounds it, whatever length the input claims.

use std::io::{Read, Write};

use crate::{Codec, CodecSet, Status};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

/// The supported codecs.
pub const SPOKEN: CodecSet = CodecSet::IDENTITY.with(Codec::GZIP).with(Codec::LZ4);

/// Decompression that reads and writes at most this many bytes counts as fast.
pub const SHORT_BYTES_MAX: usize = 64 << 10;

/// The length of the header of an LZ4 block, which contains the decompressed length.
const LZ4_HEAD_BYTES: usize = 4;

/// The most bytes that one byte of an LZ4 block can decompress to: a length byte that adds 255.
const LZ4_FACTOR_MAX: usize = 255;
/// The most bytes that gzip can make of one byte.
const GZIP_FACTOR_MAX: usize = 1032;

/// Why a compressed body cannot be decompressed. The sender's fault; the same bytes fail again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The result is longer than the receiver's limit.
    #[error("a compressed message exceeds the size limit when decompressed")]
    TooLong,
    /// The data are invalid or truncated.
    #[error("a compressed message is damaged")]
    Corrupt,
    /// The codec is not in [`SPOKEN`].
    #[error("compression codec {0} is not supported")]
    Unknown(u8),
}

impl From<DecompressError> for Status {
    fn from(error: DecompressError) -> Status {
        let text = error.to_string();
        match error {
            DecompressError::TooLong => Status::resource_exhausted(text),
            DecompressError::Corrupt => Status::internal(text),
            DecompressError::Unknown(_) => Status::unimplemented(text),
        }
    }
}

/// Compresses `body` with `codec`, and appends the result to `out`.
///
/// # Panics
/// If `codec` is not in [`SPOKEN`]: the sender chooses the codec.
pub fn compress(codec: Codec, body: &[u8], out: Vec<u8>) -> Vec<u8> {
    match codec {
        Codec::GZIP => {
            let mut encoder = GzEncoder::new(out, flate2::Compression::fast());
            encoder.write_all(body).expect("a vector takes all");
            encoder.finish().expect("a vector takes all")
        }
        Codec::LZ4 => lz4(body, out),
        _ => panic!("{codec:?} cannot be chosen"),
    }
}

fn lz4(body: &[u8], mut out: Vec<u8>) -> Vec<u8> {
    let bytes = u32::try_from(body.len()).expect("message sizes are bounded by 2^28");
    out.extend_from_slice(&bytes.to_le_bytes());
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(body.len()), 0);
    let written = lz4_flex::block::compress_into(body, &mut out[start..]);
    out.truncate(start + written.expect("there is room for the worst case"));
    out
}

/// Decompresses `body` with `codec`, to at most `limit` bytes.
///
/// # Errors
/// See [`DecompressError`].
pub fn decompress(codec: Codec, body: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    match codec {
        Codec::GZIP => gunzip(body, limit),
        Codec::LZ4 => unlz4(body, limit),
        codec => Err(DecompressError::Unknown(codec.number())),
    }
}

/// Like [`decompress`], but only if that is fast. Returns `None` if decompression would be slow
/// judging by the body, or has turned out to be slow. Then the caller should leave it to another
/// thread.
/// nobody else.
///
/// # Errors
/// See [`DecompressError`].
pub fn decompress_short(
    codec: Codec,
    body: &[u8],
    limit: usize,
) -> Result<Option<Vec<u8>>, DecompressError> {
    if body.len().max(claimed_bytes(codec, body)) > SHORT_BYTES_MAX {
        return Ok(None);
    }
    match decompress(codec, body, limit.min(SHORT_BYTES_MAX)) {
        Err(DecompressError::TooLong) if limit > SHORT_BYTES_MAX => Ok(None),
        out => out.map(Some),
    }
}

/// The decompressed length that `body` claims. The claim may be false.
fn claimed_bytes(codec: Codec, body: &[u8]) -> usize {
    let bytes = match codec {
        Codec::GZIP => body.last_chunk(),
        Codec::LZ4 => body.first_chunk(),
        _ => None,
    };
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// The most bytes that a body of `body_bytes` can decompress to, within `limit`.
pub fn decompressed_bytes_max(codec: Codec, body_bytes: usize, limit: usize) -> usize {
    let factor = if codec == Codec::LZ4 { LZ4_FACTOR_MAX } else { GZIP_FACTOR_MAX };
    limit.min(body_bytes.saturating_mul(factor))
}

fn gunzip(body: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::new();
    let mut decoder = MultiGzDecoder::new(body).take((limit as u64).saturating_add(1));
    decoder.read_to_end(&mut out).map_err(|_| DecompressError::Corrupt)?;
    if out.len() > limit { Err(DecompressError::TooLong) } else { Ok(out) }
}

fn unlz4(body: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let (bytes, block) =
        body.split_first_chunk::<LZ4_HEAD_BYTES>().ok_or(DecompressError::Corrupt)?;
    let bytes = u32::from_le_bytes(*bytes) as usize;
    if bytes > limit {
        return Err(DecompressError::TooLong);
    }
    // Reject claims that the block cannot reach.
    if bytes > block.len().saturating_mul(LZ4_FACTOR_MAX) {
        return Err(DecompressError::Corrupt);
    }
    let mut out = vec![0; bytes];
    match lz4_flex::block::decompress_into(block, &mut out) {
        Ok(written) if written == bytes => Ok(out),
        _ => Err(DecompressError::Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    const CODECS: [Codec; 2] = [Codec::GZIP, Codec::LZ4];

    fn message() -> Vec<u8> {
        (0..10_000_u32).map(|value| ((value * value) >> 7) as u8).collect()
    }

    #[test]
    fn r8_messages_come_back_and_limits_are_exact() {
        for codec in CODECS {
            let message = message();
            let packed = compress(codec, &message, vec![9; 5]);
            assert_eq!(packed[..5], [9; 5]);
            assert_eq!(decompress(codec, &packed[5..], 10_000), Ok(message));
            let refused = decompress(codec, &packed[5..], 9_999).unwrap_err();
            assert_eq!(refused, DecompressError::TooLong);
            assert_eq!(Status::from(refused).code(), Code::ResourceExhausted);
        }
    }

    #[test]
    fn what_is_short_comes_out_at_once_and_what_is_long_does_not() {
        for codec in CODECS {
            for (bytes, is_short) in [(SHORT_BYTES_MAX, true), (SHORT_BYTES_MAX + 1, false)] {
                let packed = compress(codec, &vec![7; bytes], Vec::new());
                let out = decompress_short(codec, &packed, usize::MAX);
                assert_eq!(out, Ok(is_short.then(|| vec![7; bytes])), "{codec:?}");
            }
            let packed = compress(codec, &[7; 1000], Vec::new());
            assert_eq!(decompress_short(codec, &packed, 999), Err(DecompressError::TooLong));
        }
        // A body with a false claim is detected once its output has become long.
        let mut liar = compress(Codec::GZIP, &vec![7; 1 << 20], Vec::new());
        liar.extend(compress(Codec::GZIP, &[], Vec::new()));
        assert_eq!(decompress_short(Codec::GZIP, &liar, usize::MAX), Ok(None));
        // So is one that has no output.
        let nothing = compress(Codec::GZIP, &[], Vec::new()).repeat(5000);
        assert_eq!(decompress_short(Codec::GZIP, &nothing, usize::MAX), Ok(None));
    }

    #[test]
    fn r8_the_empty_message_comes_back() {
        for codec in CODECS {
            let packed = compress(codec, &[], Vec::new());
            assert_eq!(decompress(codec, &packed, 0), Ok(Vec::new()));
        }
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_corrupt() {
        for codec in CODECS {
            let packed = compress(codec, &[7; 1000], Vec::new());
            let cut = &packed[..packed.len() - 1];
            assert_eq!(decompress(codec, cut, 1000), Err(DecompressError::Corrupt));
            assert_eq!(decompress(codec, b"not at all", 1 << 30), Err(DecompressError::Corrupt));
        }
        let mut damaged = compress(Codec::GZIP, &[7; 1000], Vec::new());
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        assert_eq!(decompress(Codec::GZIP, &damaged, 1000), Err(DecompressError::Corrupt));
    }

    #[test]
    fn a_length_that_cannot_be_takes_no_memory() {
        let mut body = u32::MAX.to_le_bytes().to_vec();
        body.extend([0; 8]);
        assert_eq!(decompress(Codec::LZ4, &body, usize::MAX), Err(DecompressError::Corrupt));
    }

    #[test]
    fn an_unknown_codec_is_refused() {
        let refused = decompress(Codec::from_number(7), &[], 10).unwrap_err();
        assert_eq!(Status::from(refused).code(), Code::Unimplemented);
        assert!(CODECS.iter().all(|codec| SPOKEN.contains(*codec)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_out_or_do_not(bytes: Vec<u8>, gzip: bool) {
            let codec = if gzip { Codec::GZIP } else { Codec::LZ4 };
            if let Ok(out) = decompress(codec, &bytes, 100) {
                proptest::prop_assert!(out.len() <= 100);
            }
        }
    }
}
