//! Any sequence of operations on a send heap, against bytes in a vector.

use std::os::fd::AsFd;

use petasos_abi::Extent;
use petasos_shm::{HeapError, HeapKind, HeapSlice};
use proptest::prelude::*;

use crate::{Heap, UNIT, load};

const UNITS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// So many units.
    Grow(u64),
    /// The extent at this unit.
    Remove(u64),
    Store(u64, Vec<u8>),
    Copy(u64, usize),
    Slice(u64, u64),
    /// One of those that are held.
    DropSlice(prop::sample::Index),
}

/// Places near the boundaries of units, where mistakes would be.
fn offset() -> impl Strategy<Value = u64> {
    let near = (0..=UNITS, -600_i64..600);
    near.prop_map(|(unit, distance)| (unit * UNIT).saturating_add_signed(distance))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_u64).prop_map(Step::Grow),
        2 => (0..UNITS).prop_map(Step::Remove),
        4 => (offset(), prop::collection::vec(any::<u8>(), 1..600))
            .prop_map(|(offset, bytes)| Step::Store(offset, bytes)),
        3 => (offset(), 0..1200_usize).prop_map(|(offset, bytes)| Step::Copy(offset, bytes)),
        3 => (offset(), 1..UNIT + 600).prop_map(|(offset, bytes)| Step::Slice(offset, bytes)),
        2 => any::<prop::sample::Index>().prop_map(Step::DropSlice),
    ]
}

struct Held {
    slice: HeapSlice,
    offset: usize,
    /// Of each byte, whether its extent has been removed since, so that it reads as zero.
    gone: Vec<bool>,
}

struct Model {
    heap: Heap,
    extents: Vec<Extent>,
    bytes: Vec<u8>,
    held: Vec<Held>,
}

fn range(extent: Extent) -> core::ops::Range<usize> {
    extent.offset as usize..(extent.offset + extent.bytes) as usize
}

impl Model {
    fn new() -> Model {
        let heap = Heap::new(HeapKind::Send, UNITS);
        let bytes = vec![0; (UNITS * UNIT) as usize];
        Model { heap, extents: Vec::new(), bytes, held: Vec::new() }
    }

    fn has_memory(&self, offset: u64, bytes: u64) -> bool {
        let unit_has = |unit: u64| {
            let holds = |extent: &Extent| range(*extent).contains(&((unit * UNIT) as usize));
            self.extents.iter().any(holds)
        };
        bytes > 0 && (offset / UNIT..=(offset + bytes - 1) / UNIT).all(unit_has)
    }

    /// Whether there must be a place: otherwise it depends on which slices were made when.
    fn must_have_room(&self, units: u64) -> bool {
        let is_free = |unit| !self.has_memory(unit * UNIT, 1);
        let mut starts = 0..=UNITS - units;
        self.held.is_empty() && starts.any(|start| (start..start + units).all(is_free))
    }

    fn grow(&mut self, units: u64) {
        let (extent, file) = match self.heap.service.grow(units * UNIT) {
            Ok(made) => made,
            Err(HeapError::Extent(_)) if units == 0 => return,
            Err(HeapError::NoRoom(_)) if !self.must_have_room(units) => return,
            Err(error) => panic!("{error}"),
        };
        let place = range(extent);
        let free =
            |other: &Extent| place.end <= range(*other).start || range(*other).end <= place.start;
        assert!(self.extents.iter().all(free) && place.end <= self.bytes.len());
        for held in &self.held {
            let end = held.offset + held.gone.len();
            assert!(place.end <= held.offset || end <= place.start, "a slice leads there");
        }
        self.heap.application.map(file.as_fd(), extent).expect("the places are the same");
        self.extents.push(extent);
        self.bytes[place].fill(0);
    }

    fn remove(&mut self, offset: u64) {
        let known = self.extents.iter().position(|extent| extent.offset == offset);
        let removed = self.heap.service.remove(offset).ok();
        assert_eq!(removed, known.map(|index| self.extents.swap_remove(index)));
        let Some(extent) = removed else { return };
        self.heap.application.unmap(offset).expect("it was mapped");
        for held in &mut self.held {
            let gone = held.gone.iter_mut().enumerate();
            let in_extent = |index: usize| range(extent).contains(&(held.offset + index));
            gone.filter(|(index, _)| in_extent(*index)).for_each(|(_, gone)| *gone = true);
        }
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        if self.heap.application.extents().covers(offset, bytes.len() as u64) {
            self.heap.store(offset, bytes);
            self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            assert_eq!(load(&self.heap.application, offset, bytes.len()), bytes);
        }
    }

    fn copy(&self, offset: u64, bytes: usize) {
        let mut out = vec![0xdd; bytes];
        let copied = self.heap.service.copy_out(offset, &mut out).is_ok();
        assert_eq!(copied, self.has_memory(offset, bytes as u64));
        if copied {
            assert_eq!(out, self.bytes[offset as usize..][..bytes]);
        }
    }

    fn slice(&mut self, offset: u64, bytes: u64) {
        let slice = self.heap.service.slice(offset, bytes);
        assert_eq!(slice.is_ok(), self.has_memory(offset, bytes));
        if let Ok(slice) = slice {
            let gone = vec![false; bytes as usize];
            self.held.push(Held { slice, offset: offset as usize, gone });
        }
    }

    fn check_held(&self) {
        for Held { slice, offset, gone } in &self.held {
            let mut out = vec![0xdd; gone.len()];
            slice.copy_to(0, &mut out).expect("it is the whole slice");
            let stored = self.bytes[*offset..].iter().zip(gone);
            let expected = stored.map(|(byte, gone)| if *gone { 0 } else { *byte });
            assert!(expected.eq(out), "a slice at {offset}");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Grow(units) => self.grow(units),
            Step::Remove(unit) => self.remove(unit * UNIT),
            Step::Store(offset, bytes) => self.store(offset, &bytes),
            Step::Copy(offset, bytes) => self.copy(offset, bytes),
            Step::Slice(offset, bytes) => self.slice(offset, bytes),
            Step::DropSlice(_) if self.held.is_empty() => {}
            Step::DropSlice(index) => drop(self.held.swap_remove(index.index(self.held.len()))),
        }
        self.check_held();
        let bytes = self.extents.iter().map(|extent| extent.bytes).sum::<u64>();
        assert_eq!(self.heap.service.extents().bytes(), bytes);
    }
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn d2_d3_heaps_do_what_a_vector_does(steps in prop::collection::vec(step(), 1..40)) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.step(step));
    }
}
