//! Where a call that has begun is, as short as can be: see `Stage`.

use petasos_runtime::remote::CallKey;

/// A place in a loop's table, in one word.
#[derive(Clone, Copy)]
pub(super) struct Begun(u64);

impl Begun {
    #[inline(always)]
    pub(super) fn new((index, generation): CallKey) -> Begun {
        Begun(u64::from(generation) << 32 | u64::from(index))
    }

    #[inline(always)]
    pub(super) fn at(self) -> CallKey {
        (self.0 as u32, (self.0 >> 32) as u32)
    }
}
