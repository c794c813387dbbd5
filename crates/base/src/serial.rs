//! Counts that packets carry with fewer bits than they have.

/// The number with these lowest `bits` that is nearest to `near`; of two, the higher one (RFC 9000,
/// appendix A.3).
///
/// The sender's number must be less than half the range away from `near`, the latest one that is
/// known, or the one after it. `low` must have no higher bits.
///
/// # Panics
/// If `bits` is 0 or above 63.
#[inline]
pub const fn extend(near: u64, low: u64, bits: u32) -> u64 {
    assert!(bits > 0 && bits < 64, "there are numbers beyond the range");
    let range = 1u64 << bits;
    debug_assert!(low < range, "it has more bits");
    let ahead = low.wrapping_sub(near) & (range - 1);
    let forward = near.wrapping_add(ahead);
    // Numbers begin with 0: there is none before it.
    if ahead <= range / 2 || forward < range { forward } else { forward - range }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_near_the_known_one_are_found() {
        for near in [0u64, 1, 100, 127, 128, 255, 256, 1000, 1 << 40] {
            for number in near.saturating_sub(127)..=near + 128 {
                assert_eq!(extend(near, number & 255, 8), number, "near {near}");
            }
        }
    }
}
