//! Varints as words: seven bits to a byte, and back.

/// The bits that a varint takes, a multiple of 8.
#[inline(always)]
pub(super) fn varint_bits(value: u64) -> u32 {
    // 1 + ⌊bits − 1 / 7⌋ bytes for 1 to 64 bits, without a division.
    (((value | 1).ilog2() * 9 + 73) >> 3) & !7
}

/// Spreads 56 bits to eight groups of seven, each in a byte: halves move apart, then their halves.
#[inline(always)]
pub(super) fn unfold(value: u64) -> u64 {
    // With x = low + high, low + (high << n) is x + high * (2^n - 1).
    let word = value + (value & 0x00ff_ffff_f000_0000) * 15;
    let word = word + (word & 0x0fff_c000_0fff_c000) * 3;
    word + (word & 0x3f80_3f80_3f80_3f80)
}

/// [`unfold`] of 28 bits to four groups.
#[inline(always)]
pub(super) fn unfold4(value: u32) -> u32 {
    let word = value + (value & 0x0fff_c000) * 3;
    word + (word & 0x3f80_3f80)
}

/// Drops the high bit of each byte: eight groups of seven bits become 56 bits.
#[inline(always)]
pub(super) fn fold(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// [`fold`] of four groups to 28 bits.
#[inline(always)]
pub(super) fn fold4(word: u32) -> u32 {
    let word = (word & 0x007f_007f) | (word & 0x7f00_7f00) >> 1;
    (word & 0x3fff) | (word & 0x3fff_0000) >> 2
}

/// A signed number as an unsigned one that is small where the number is near 0.
#[inline(always)]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
