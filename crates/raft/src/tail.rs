//! The newest entries' data, in memory.
//!
//! Entries lie one behind the other in blocks, so that one costs no allocation, and what is no
//! longer needed goes block by block.

use std::collections::VecDeque;

use crate::Kind;

/// The bytes of a block, unless an entry alone is longer.
const BLOCK_BYTES: usize = 256 << 10;

/// Blocks that are kept for later.
const SPARE_BLOCKS: usize = 4;

/// Entries `first..next`.
#[derive(Debug)]
pub(crate) struct Tail {
    first: u64,
    entries: VecDeque<Place>,
    blocks: VecDeque<Vec<u8>>,
    /// The number of the first block: they are counted from the beginning.
    first_block: u64,
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    kind: Kind,
    block: u64,
    at: usize,
    length: usize,
}

impl Tail {
    /// No entries, the next of which is `first`.
    pub(crate) fn new(first: u64) -> Tail {
        let (entries, blocks) = (VecDeque::new(), VecDeque::new());
        Tail { first, entries, blocks, first_block: 0, spare: Vec::new() }
    }

    /// The first entry that is there, or would be.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The one after the last.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The bytes of all data.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// The bytes of data from `index` on.
    pub(crate) fn bytes_from(&self, index: u64) -> usize {
        let at = usize::try_from(index.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let Some(place) = self.entries.get(at) else { return 0 };
        let block = self.block(place);
        self.blocks.iter().skip(block).map(Vec::len).sum::<usize>() - place.at
    }

    pub(crate) fn get(&self, index: u64) -> Option<(Kind, &[u8])> {
        let place = self.entries.get(usize::try_from(index.checked_sub(self.first)?).ok()?)?;
        let block = &self.blocks[self.block(place)];
        Some((place.kind, &block[place.at..place.at + place.length]))
    }

    /// Appends the next entry.
    pub(crate) fn push(&mut self, kind: Kind, data: &[u8]) {
        let fits = |block: &Vec<u8>| block.len() + data.len() <= block.capacity();
        if !self.blocks.back().is_some_and(fits) {
            let block = self.spare.pop().filter(|_| data.len() <= BLOCK_BYTES);
            let bytes = data.len().max(BLOCK_BYTES);
            self.blocks.push_back(block.unwrap_or_else(|| Vec::with_capacity(bytes)));
        }
        let block = self.blocks.back_mut().expect("there is one with room");
        let (at, length) = (block.len(), data.len());
        block.extend_from_slice(data);
        let block = self.first_block + self.blocks.len() as u64 - 1;
        self.entries.push_back(Place { kind, block, at, length });
    }

    /// Takes entries from `index` on away.
    pub(crate) fn truncate(&mut self, index: u64) {
        let keep = usize::try_from(index.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let Some(place) = self.entries.get(keep).copied() else { return };
        self.entries.truncate(keep);
        let block = self.block(&place);
        while self.blocks.len() > block + 1 {
            let last = self.blocks.pop_back();
            self.recycle(last);
        }
        self.blocks[block].truncate(place.at);
    }

    /// Takes entries below `index` away.
    pub(crate) fn release(&mut self, index: u64) {
        let index = index.clamp(self.first, self.next());
        let gone = usize::try_from(index - self.first).expect("they are in memory");
        self.entries.drain(..gone);
        self.first = index;
        let next_block = self.first_block + self.blocks.len() as u64;
        let needed = self.entries.front().map_or(next_block, |place| place.block);
        while self.first_block < needed {
            let block = self.blocks.pop_front();
            self.recycle(block);
            self.first_block += 1;
        }
    }

    /// Takes all away: the next entry is `first`.
    pub(crate) fn reset(&mut self, first: u64) {
        self.release(self.next());
        self.first = first;
    }

    fn block(&self, place: &Place) -> usize {
        usize::try_from(place.block - self.first_block).expect("blocks are in memory")
    }

    fn recycle(&mut self, block: Option<Vec<u8>>) {
        if let Some(mut block) = block.filter(|block| block.capacity() == BLOCK_BYTES)
            && self.spare.len() < SPARE_BLOCKS
        {
            block.clear();
            self.spare.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use petasos_base::Rng;

    use super::*;

    /// Pushes, cuts and releases as a plain list does.
    #[test]
    fn entries_are_as_in_a_list() {
        let mut rng = Rng::new(1);
        let mut tail = Tail::new(1);
        let (mut list, mut first) = (VecDeque::new(), 1_u64);
        for step in 0..20_000_u64 {
            match rng.below(100) {
                0..90 => {
                    let most = if rng.chance(0.01) { 600_000 } else { 4_000 };
                    let length = rng.below(most);
                    let data = vec![step as u8; usize::try_from(length).unwrap()];
                    tail.push(Kind::Command, &data);
                    list.push_back(data);
                }
                90..95 => {
                    let keep = list.len() - list.len().min(rng.below(20) as usize);
                    tail.truncate(first + keep as u64);
                    list.truncate(keep);
                }
                _ => {
                    let gone = list.len().min(rng.below(40) as usize);
                    list.drain(..gone);
                    first += gone as u64;
                    tail.release(first);
                }
            }
            assert_eq!((tail.first(), tail.next()), (first, first + list.len() as u64));
            let index = first + rng.below(list.len() as u64 + 1);
            let expected = list.get(usize::try_from(index - first).unwrap());
            assert_eq!(tail.get(index).map(|(_, data)| data), expected.map(Vec::as_slice));
            assert_eq!(tail.get(first.wrapping_sub(1)), None);
        }
        let all = list.iter().map(Vec::len).sum::<usize>();
        // What is gone may still be in the first block.
        assert!((all..all + 1_000_000).contains(&tail.bytes()));
        tail.reset(7);
        assert_eq!((tail.first(), tail.next(), tail.bytes()), (7, 7, 0));
    }
}
