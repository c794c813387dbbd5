//! The Internet checksum (RFC 1071).
//!
//! Sums are kept in the processor's byte order, in 64 bits: the ones' complement sum does not
//! depend on the order of bytes in a word (section 2 B of the RFC), and carries are folded at the
//! end. The sum of any packet is far below 2^64.

/// Adds `bytes`, padded with a zero to whole words, to `sum`.
#[inline]
pub(crate) fn add_bytes(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_ne_bytes(last))
}

/// Adds a number that the packet has in a 16-bit field.
#[inline]
pub(crate) fn add_u16(sum: u64, value: u16) -> u64 {
    sum + u64::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The sum folded to 16 bits, in memory order. It is `0xffff` for a block with a correct checksum.
#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// The bytes of the checksum field for a block with this sum, in which the field itself counted as
/// zero.
#[inline]
pub(crate) fn finish(sum: u64) -> [u8; 2] {
    (!fold(sum)).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 word by word.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_rfc(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let sum = fold(add_bytes(0, &bytes));
            prop_assert_eq!(sum.to_ne_bytes(), reference(&bytes).to_be_bytes());
        }

        #[test]
        fn a_finished_block_sums_to_all_ones(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..100)
        ) {
            bytes[..2].copy_from_slice(&[0, 0]);
            let field = finish(add_bytes(0, &bytes));
            bytes[..2].copy_from_slice(&field);
            prop_assert_eq!(fold(add_bytes(0, &bytes)), 0xffff);
        }
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add_bytes(0, &bytes)).to_ne_bytes(), [0xdd, 0xf2]);
        assert_eq!(fold(add_u16(0, 0x1234)).to_ne_bytes(), [0x12, 0x34]);
    }
}
