//! Slots that are made when they are first used.
//!
//! Most sessions of many have one call at a time. What their other slots would take is several
//! times what the session itself takes, and spreads it over memory.

/// Makes the slots up to `index`, and as many more as make their number a power of two.
#[cold]
pub(crate) fn provide<S>(slots: &mut Box<[S]>, index: u32, make: impl Fn(u64) -> S) {
    let (before, after) = (slots.len(), (index as usize + 1).next_power_of_two());
    if before >= after {
        return;
    }
    let mut all = core::mem::take(slots).into_vec();
    all.reserve_exact(after - before);
    all.extend((before as u64..after as u64).map(make));
    *slots = all.into_boxed_slice();
}
