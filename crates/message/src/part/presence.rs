//! Presence bits (M6).

/// `N` words of bits: bit `i` is in word `i / 32`. Generated code's; programs see `Option`s.
#[repr(transparent)]
pub struct Presence<const N: usize>([u32; N]);

impl<const N: usize> Presence<N> {
    /// Whether field number `bit` of those with a bit is present.
    #[inline(always)]
    pub const fn has(&self, bit: usize) -> bool {
        self.0[bit / 32] & (1 << (bit % 32)) != 0
    }

    #[doc(hidden)]
    #[inline(always)]
    pub const fn set(&mut self, bit: usize) {
        self.0[bit / 32] |= 1 << (bit % 32);
    }

    #[doc(hidden)]
    #[inline(always)]
    pub const fn clear(&mut self, bit: usize) {
        self.0[bit / 32] &= !(1 << (bit % 32));
    }
}
