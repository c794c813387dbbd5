//! UTF-8 validation that is fast for short ASCII, which most strings are.

use crate::DecodeError;

/// Longer strings are left to the standard library, which takes 16 bytes at a time.
const SHORT_BYTES: usize = 64;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Refuses what is not UTF-8.
#[inline(always)]
pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    if is_short_ascii(bytes) { Ok(()) } else { check_any(bytes) }
}

#[inline(never)]
fn check_any(bytes: &[u8]) -> Result<(), DecodeError> {
    str::from_utf8(bytes).map(|_| ()).map_err(|_| DecodeError::Utf8)
}

/// Whether `bytes` are few and ASCII.
#[inline(always)]
fn is_short_ascii(bytes: &[u8]) -> bool {
    let high = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(_), Some(last)) if bytes.len() <= SHORT_BYTES => {
            let (words, _) = bytes.as_chunks::<8>();
            // The last word overlaps the one before it.
            words
                .iter()
                .fold(u64::from_le_bytes(*last), |high, word| high | u64::from_le_bytes(*word))
        }
        (Some(_), _) => HIGH_BITS,
        _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first) | u32::from_le_bytes(*last))
            }
            _ => bytes.iter().fold(0, |high, byte| high | u64::from(*byte)),
        },
    };
    high & HIGH_BITS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library_wherever_the_odd_byte_is() {
        for len in 0..100 {
            assert_eq!(check(&vec![b'a'; len]), Ok(()), "{len}");
            for at in 0..len {
                let mut bytes = vec![b'a'; len];
                bytes[at] = 0x80;
                assert_eq!(check(&bytes), Err(DecodeError::Utf8), "{at} of {len}");
                if at + 1 < len {
                    bytes[at..at + 2].copy_from_slice("é".as_bytes());
                    assert_eq!(check(&bytes), Ok(()), "{at} of {len}");
                }
            }
        }
    }
}
