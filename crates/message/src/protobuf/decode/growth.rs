//! Memory for lists, and moving them when it is not enough (M15).

use std::slice;

use super::Decoder;
use crate::DecodeError;
use crate::arena::Object;
use crate::plan::{EntryPlan, Plan, Relocation};

/// What an array is made of: how large, and which pointers have to follow when it moves.
#[derive(Clone, Copy)]
pub(super) struct Element<'p> {
    pub(super) bytes: u32,
    pointers: Pointers<'p>,
}

#[derive(Clone, Copy)]
enum Pointers<'p> {
    /// Numbers have none.
    None,
    /// A `Text` or `Blob` begins with one.
    First,
    Message(Plan<'p>),
    Entry(Plan<'p>, &'p EntryPlan),
}

impl<'p> Element<'p> {
    /// A `Text` or a `Blob`.
    pub(super) const SPAN: Element<'static> = Element { bytes: 16, pointers: Pointers::First };

    pub(super) fn number(bytes: u32) -> Element<'p> {
        Element { bytes, pointers: Pointers::None }
    }

    pub(super) fn message(plan: Plan<'p>) -> Element<'p> {
        Element { bytes: plan.bytes(), pointers: Pointers::Message(plan) }
    }

    /// An entry of a map that a message of `plan` has.
    pub(super) fn entry(plan: Plan<'p>, entry: &'p EntryPlan) -> Element<'p> {
        Element { bytes: entry.bytes, pointers: Pointers::Entry(plan, entry) }
    }
}

impl<'a, 'p> Decoder<'a, 'p, '_> {
    /// Appends `more` zeroed elements, at least one, to the list at `offset`. Answers an array that
    /// ends with the last of them, and where the first is, in bytes.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        object: Object<'a>,
        offset: u32,
        more: usize,
        element: Element<'p>,
    ) -> Result<(Object<'a>, u32), DecodeError> {
        if object.load(offset + 8) != [0; 4] {
            return self.append_to_some(object, offset, more, element);
        }
        let array = self.object(more as u64 * u64::from(element.bytes))?;
        object.point(offset, array, more as u32, more as u32);
        Ok((array, 0))
    }

    /// [`Decoder::append`] to a list that has elements.
    #[inline(never)]
    fn append_to_some(
        &mut self,
        object: Object<'a>,
        offset: u32,
        more: usize,
        element: Element<'p>,
    ) -> Result<(Object<'a>, u32), DecodeError> {
        let (old, len) = object.target(offset, element.bytes).expect("the list has elements");
        let cap = u32::from_le_bytes(object.load(offset + 12));
        let new_len = u64::from(len) + more as u64;
        let mut array = old;
        if new_len > u64::from(cap & !UNSORTED) {
            // Twice as many, so that appending one by one stays linear.
            let new_cap = new_len.max(2 * u64::from(len));
            array = self.object(new_cap * u64::from(element.bytes))?;
            copy(old, array);
            self.arena.abandon(old.bytes());
            let distance = array.at().addr().get().wrapping_sub(old.at().addr().get());
            relocate(array.part(0, old.bytes()), distance as i64, element);
            object.point(offset, array, len, new_cap as u32 | cap & UNSORTED);
        }
        object.store(offset + 8, (new_len as u32).to_le_bytes());
        let whole = Object::new(array.at(), (new_len * u64::from(element.bytes)) as u32);
        Ok((whole, old.bytes()))
    }
}

/// A bit of a map's capacity that says, while it is decoded, that its entries are not ascending and
/// that it is noted to be sorted. Objects have less than 2^31 bytes, so that no capacity has it.
pub(super) const UNSORTED: u32 = 1 << 31;

/// Copies an array into a larger one.
fn copy(from: Object<'_>, to: Object<'_>) {
    let to = to.part(0, from.bytes());
    // SAFETY: both are objects of this many bytes in an arena, and `to` is new, so that they do not
    // overlap.
    unsafe { from.at().copy_to_nonoverlapping(to.at(), from.bytes() as usize) }
}

/// Makes the elements at `order` the first of `array`, in this order, and the rest zeros.
pub(super) fn permute(array: Object<'_>, order: &[u32], element: Element<'_>) {
    // SAFETY: an array of this many bytes, of which nothing else is borrowed.
    let bytes = unsafe { slice::from_raw_parts_mut(array.at().as_ptr(), array.bytes() as usize) };
    let old = bytes.to_vec();
    let (kept, rest) = bytes.split_at_mut(order.len() * element.bytes as usize);
    rest.fill(0);
    let places = kept.chunks_exact_mut(element.bytes as usize);
    for (place, index) in places.zip(order) {
        let from = *index as usize * element.bytes as usize;
        place.copy_from_slice(&old[from..from + element.bytes as usize]);
    }
    for (place, index) in order.iter().enumerate() {
        let new = array.part(place as u32 * element.bytes, element.bytes);
        let distance = i64::from(place as u32 * element.bytes) - i64::from(index * element.bytes);
        relocate(new, distance, element);
    }
}

/// Corrects the pointers in the elements of `array`, which were moved by `distance` bytes.
fn relocate(array: Object<'_>, distance: i64, element: Element<'_>) {
    let moved = |base: u32, at: Relocation| {
        let offset = base + at.offset;
        if at.case == 0 || u32::from_le_bytes(array.load(offset - 8)) == at.case {
            let pointer = i64::from_le_bytes(array.load(offset));
            if pointer != 0 {
                array.store(offset, pointer.wrapping_sub(distance).to_le_bytes());
            }
        }
    };
    for base in (0..array.bytes()).step_by(element.bytes as usize) {
        match element.pointers {
            Pointers::None => return,
            Pointers::First => moved(base, Relocation { offset: 0, case: 0 }),
            Pointers::Message(plan) => {
                plan.relocations().iter().for_each(|at| moved(base, *at));
            }
            Pointers::Entry(plan, entry) => {
                plan.entry_relocations(entry).for_each(|at| moved(base, at));
            }
        }
    }
}
