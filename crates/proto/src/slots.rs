//! Slots that are allocated when they are first used.
//!
//! Where there are many sessions, most have one call at a time. Their other slots would take
//! several times as much memory as the sessions themselves, and spread them over memory.

/// Makes the slots up to `index`, and rounds their number up to a power of two.
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
