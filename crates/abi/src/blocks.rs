//! Allocates places in a heap, for the side that writes the heap.
//!
//! Free memory consists of *spans* of 64 KiB units. A message of at most 32 KiB takes a block of a
//! *slab*: one unit, divided into blocks of one size. A longer message takes a span. Sizes grow in
//! steps of a quarter, so at most a fifth of a block is lost.
//!
//! The offset of a block names it. [`Blocks::free`] gets offsets from the other side, which may
//! send any number. It frees something only if the offset was given out and has not been returned
//! since.
//!
//! Invariant: each unit is either free, or in a slab, or in a span that was given out.

use std::collections::BTreeMap;

/// What spans are made of, and the size of a slab, in bytes.
pub const UNIT_BYTES: u64 = 64 << 10;
/// The smallest block.
const BLOCK_BYTES_MIN: u64 = 64;
/// The longest block of a slab; two fit.
const BLOCK_BYTES_MAX: u64 = UNIT_BYTES / 2;
/// Quarters of nine powers of two, and the last.
const CLASSES: usize = 4 * 9 + 1;
const NO_SLAB: u32 = u32::MAX;

/// A token that names no block that is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no message that is outstanding")]
pub struct NotOutstanding(pub u64);

/// The places of a heap, free and given out.
#[derive(Debug)]
pub struct Blocks {
    /// Bytes of free spans, by offset; neighbours are one.
    spans: BTreeMap<u64, u64>,
    /// Bytes of spans that were given out, by offset.
    given: BTreeMap<u64, u64>,
    slabs: Vec<Slab>,
    free_slabs: Vec<u32>,
    /// The slab that a unit is, or [`NO_SLAB`].
    slab_of_unit: Vec<u32>,
    /// By class: slabs that have a free block.
    partial: [Vec<u32>; CLASSES],
    used_bytes: u64,
}

#[derive(Debug)]
struct Slab {
    offset: u64,
    class: u8,
    free: u16,
    /// One bit for each block: given out. Those that there are no blocks for are set.
    used: [u64; 16],
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks::new()
    }
}

impl Blocks {
    /// No memory yet.
    pub fn new() -> Blocks {
        Blocks {
            spans: BTreeMap::new(),
            given: BTreeMap::new(),
            slabs: Vec::new(),
            free_slabs: Vec::new(),
            slab_of_unit: Vec::new(),
            partial: [const { Vec::new() }; CLASSES],
            used_bytes: 0,
        }
    }

    /// Adds memory, in units.
    ///
    /// # Panics
    /// If it is not made of units.
    pub fn add(&mut self, offset: u64, bytes: u64) {
        assert!(offset.is_multiple_of(UNIT_BYTES) && bytes.is_multiple_of(UNIT_BYTES));
        let units = ((offset + bytes) / UNIT_BYTES) as usize;
        if self.slab_of_unit.len() < units {
            self.slab_of_unit.resize(units, NO_SLAB);
        }
        self.put_span(offset, bytes);
    }

    /// A place for so many bytes, at least one; none if there is none now.
    pub fn allocate(&mut self, bytes: u32) -> Option<u64> {
        let bytes = u64::from(bytes.max(1));
        let place = match bytes {
            ..=BLOCK_BYTES_MAX => self.allocate_block(class_of(bytes))?,
            _ => self.allocate_span(bytes.next_multiple_of(UNIT_BYTES))?,
        };
        self.used_bytes += self.size_at(place);
        Some(place)
    }

    /// Takes a place back.
    ///
    /// # Errors
    /// It was not given out: nothing has changed.
    pub fn free(&mut self, place: u64) -> Result<(), NotOutstanding> {
        let Some(slab) = self.slab_at(place) else {
            let bytes = self.given.remove(&place).ok_or(NotOutstanding(place))?;
            self.used_bytes -= bytes;
            self.put_span(place, bytes);
            return Ok(());
        };
        let Slab { offset, class, used, .. } = &self.slabs[slab as usize];
        let bytes = block_bytes(usize::from(*class));
        let block = (place - offset) / bytes;
        let bit = 1 << (block % 64);
        // Behind the last block there is no other, although its bits are set.
        let is_block = (place - offset).is_multiple_of(bytes) && block < UNIT_BYTES / bytes;
        if !is_block || used[(block / 64) as usize] & bit == 0 {
            return Err(NotOutstanding(place));
        }
        self.used_bytes -= bytes;
        self.free_block(slab, block as usize);
        Ok(())
    }

    /// Bytes of blocks and spans that are given out.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn allocate_block(&mut self, class: usize) -> Option<u64> {
        let slab = match self.partial[class].last() {
            Some(slab) => *slab,
            None => self.new_slab(class)?,
        };
        let Slab { offset, free, used, .. } = &mut self.slabs[slab as usize];
        let word = used.iter().position(|word| *word != u64::MAX).expect("a block is free");
        let bit = used[word].trailing_ones();
        used[word] |= 1 << bit;
        *free -= 1;
        if *free == 0 {
            self.partial[class].pop();
        }
        Some(*offset + (word as u64 * 64 + u64::from(bit)) * block_bytes(class))
    }

    fn new_slab(&mut self, class: usize) -> Option<u32> {
        let offset = self.take_span(UNIT_BYTES)?;
        let blocks = (UNIT_BYTES / block_bytes(class)) as usize;
        let mut used = [u64::MAX; 16];
        for block in 0..blocks {
            used[block / 64] &= !(1 << (block % 64));
        }
        let slab = Slab { offset, class: class as u8, free: blocks as u16, used };
        let index = match self.free_slabs.pop() {
            Some(index) => {
                self.slabs[index as usize] = slab;
                index
            }
            None => {
                self.slabs.push(slab);
                (self.slabs.len() - 1) as u32
            }
        };
        self.slab_of_unit[(offset / UNIT_BYTES) as usize] = index;
        self.partial[class].push(index);
        Some(index)
    }

    fn free_block(&mut self, index: u32, block: usize) {
        let slab = &mut self.slabs[index as usize];
        let class = usize::from(slab.class);
        slab.used[block / 64] &= !(1 << (block % 64));
        slab.free += 1;
        let blocks = (UNIT_BYTES / block_bytes(class)) as u16;
        if slab.free == 1 {
            self.partial[class].push(index);
        }
        // One is kept, so that a lone message does not make and end a slab each time.
        if slab.free == blocks && self.partial[class].len() > 1 {
            let offset = slab.offset;
            self.partial[class].retain(|other| *other != index);
            self.slab_of_unit[(offset / UNIT_BYTES) as usize] = NO_SLAB;
            self.free_slabs.push(index);
            self.put_span(offset, UNIT_BYTES);
        }
    }

    fn allocate_span(&mut self, bytes: u64) -> Option<u64> {
        let offset = self.take_span(bytes)?;
        self.given.insert(offset, bytes);
        Some(offset)
    }

    /// Takes the front of the first free span that is long enough.
    fn take_span(&mut self, bytes: u64) -> Option<u64> {
        let fits = self.spans.iter().find(|(_, free)| **free >= bytes);
        let (offset, free) = fits.map(|(offset, free)| (*offset, *free))?;
        self.spans.remove(&offset);
        if free > bytes {
            self.spans.insert(offset + bytes, free - bytes);
        }
        Some(offset)
    }

    fn put_span(&mut self, mut offset: u64, mut bytes: u64) {
        if let Some((before, len)) = self.spans.range(..offset).next_back()
            && before + len == offset
        {
            (offset, bytes) = (*before, bytes + len);
            self.spans.remove(&offset);
        }
        if let Some(behind) = self.spans.remove(&(offset + bytes)) {
            bytes += behind;
        }
        self.spans.insert(offset, bytes);
    }

    fn slab_at(&self, place: u64) -> Option<u32> {
        let unit = usize::try_from(place / UNIT_BYTES).ok()?;
        self.slab_of_unit.get(unit).copied().filter(|slab| *slab != NO_SLAB)
    }

    /// The size of what was given out at a place.
    fn size_at(&self, place: u64) -> u64 {
        match self.slab_at(place) {
            Some(slab) => block_bytes(usize::from(self.slabs[slab as usize].class)),
            None => self.given[&place],
        }
    }
}

/// The bytes of a class's blocks, a multiple of 16: 64, 80, 96, 112, 128, 160, …
const fn block_bytes(class: usize) -> u64 {
    let (power, quarter) = (class / 4, class as u64 % 4);
    let base = BLOCK_BYTES_MIN << power;
    base + base / 4 * quarter
}

/// The class with the smallest blocks that have so many bytes.
const fn class_of(bytes: u64) -> usize {
    if bytes <= BLOCK_BYTES_MIN {
        return 0;
    }
    let power = (bytes - 1).ilog2() - BLOCK_BYTES_MIN.ilog2();
    let base = BLOCK_BYTES_MIN << power;
    (power as usize) * 4 + (bytes - base).div_ceil(base / 4) as usize
}

const _: () = assert!(block_bytes(CLASSES - 1) == BLOCK_BYTES_MAX);
const _: () = assert!(class_of(BLOCK_BYTES_MAX) == CLASSES - 1);

#[cfg(test)]
mod tests {
    use petasos_base::Rng;

    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_fits() {
        for bytes in 1..=BLOCK_BYTES_MAX {
            let class = class_of(bytes);
            assert!(block_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || block_bytes(class - 1) < bytes, "{bytes}");
            assert!(block_bytes(class).is_multiple_of(16));
        }
    }

    #[test]
    fn blocks_never_overlap_and_all_memory_comes_back() {
        for seed in 0..20 {
            let (mut rng, mut blocks) = (Rng::new(seed), Blocks::new());
            let mut given: Vec<(u64, u32)> = Vec::new();
            blocks.add(UNIT_BYTES, 20 * UNIT_BYTES);
            blocks.add(40 * UNIT_BYTES, 12 * UNIT_BYTES);
            blocks.add(21 * UNIT_BYTES, 3 * UNIT_BYTES);
            for _ in 0..3000 {
                if rng.chance(0.55) {
                    let bytes_max = 1 << rng.below(20);
                    let bytes = 1 + rng.below(bytes_max) as u32;
                    let Some(place) = blocks.allocate(bytes) else { continue };
                    assert!(place.is_multiple_of(16));
                    for (other, len) in &given {
                        let ends = (place + u64::from(bytes), other + u64::from(*len));
                        assert!(ends.0 <= *other || ends.1 <= place, "seed {seed}");
                    }
                    given.push((place, bytes));
                } else if !given.is_empty() {
                    let (place, bytes) = given.swap_remove(rng.below(given.len() as u64) as usize);
                    let wrong = place + 1 + rng.below(u64::from(bytes));
                    let is_another = given.iter().any(|(other, _)| *other == wrong);
                    assert!(is_another || blocks.free(wrong) == Err(NotOutstanding(wrong)));
                    assert_eq!(blocks.free(place), Ok(()), "seed {seed}");
                    assert_eq!(blocks.free(place), Err(NotOutstanding(place)));
                }
            }
            for (place, _) in given {
                blocks.free(place).expect("it was given out");
            }
            assert_eq!(blocks.used_bytes(), 0);
            let free: u64 = blocks.spans.values().sum();
            assert!(
                free >= (35 - CLASSES.min(35) as u64) * UNIT_BYTES,
                "one slab of a class stays"
            );
        }
    }

    #[test]
    fn tokens_that_nobody_has_free_nothing() {
        let mut blocks = Blocks::new();
        blocks.add(0, UNIT_BYTES);
        let place = blocks.allocate(100).unwrap();
        let behind_last = UNIT_BYTES / 112 * 112;
        for wrong in [place + 112, place + 1, behind_last, UNIT_BYTES, u64::MAX, 1 << 40] {
            assert_eq!(blocks.free(wrong), Err(NotOutstanding(wrong)));
        }
        assert_eq!((blocks.used_bytes(), blocks.free(place)), (112, Ok(())));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_fits_later() {
        let mut blocks = Blocks::new();
        assert_eq!(blocks.allocate(1), None);
        blocks.add(0, 2 * UNIT_BYTES);
        let whole = blocks.allocate(2 * UNIT_BYTES as u32).unwrap();
        assert_eq!((blocks.allocate(1), blocks.allocate(u32::MAX)), (None, None));
        blocks.free(whole).unwrap();
        assert!(blocks.allocate(40_000).is_some() && blocks.allocate(1).is_some());
    }
}
