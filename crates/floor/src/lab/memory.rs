//! Guidelines on memory: pages, and connection state. On a cache miss, a NIC fetches over its bus;
//! on this host a processor fetches from its own memory instead.

use core::hint::black_box;

use petasos_base::Rng;
use petasos_shm::{Pages, PagesError};

use super::Switch;
use crate::FloorError;

const WORD_BYTES: usize = size_of::<u64>();
const LINE_WORDS: usize = 64 / WORD_BYTES;
/// Operations of a step.
const ROUNDS: usize = 256;

/// Huge pages: reads a random cache line in a large memory that consists of ordinary pages or of
/// huge ones. Each access depends on the previous one.
pub struct PageWalk {
    small: Pages,
    huge: Pages,
    rng: Rng,
    last: u64,
}

impl PageWalk {
    /// Maps `bytes` twice.
    ///
    /// # Errors
    /// See [`PagesError`]: without huge pages there is nothing to measure.
    pub fn map(bytes: usize) -> Result<PageWalk, PagesError> {
        let huge = Pages::huge(bytes)?;
        Ok(PageWalk { small: Pages::small(bytes)?, huge, rng: Rng::new(1), last: 0 })
    }
}

impl Switch for PageWalk {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let words = if follow { self.huge.words() } else { self.small.words() };
        let lines = (words.len() / LINE_WORDS) as u64;
        let mut last = self.last;
        for _ in 0..ROUNDS {
            // Always zero, but the processor does not know that before it has read the line.
            let line = self.rng.below(lines).wrapping_add(last) as usize;
            last = words[line * LINE_WORDS];
        }
        self.last = last;
        Ok(ROUNDS as u64)
    }
}

/// The number of connections that [`States`] uses when it uses few.
pub const FEW: usize = 10;

/// Connection state: for each packet, the state of a random connection is read and updated, either
/// one of many connections or one of a few.
pub struct States {
    words: Vec<u64>,
    /// Words of a state, rounded up to whole cache lines.
    stride: usize,
    many: usize,
    rng: Rng,
}

impl States {
    /// States of `many` connections, `bytes` each, rounded up to whole cache lines.
    ///
    /// # Panics
    /// If there are fewer than [`FEW`] connections, or if the states are empty.
    pub fn new(many: usize, bytes: usize) -> States {
        assert!(many >= FEW && bytes > 0, "there are states to choose from");
        let stride = bytes.div_ceil(LINE_WORDS * WORD_BYTES) * LINE_WORDS;
        // Not zero, so that the system maps all pages.
        States { words: vec![1; many * stride], stride, many, rng: Rng::new(1) }
    }

    /// A random connection.
    #[inline]
    pub(super) fn pick(&mut self, few: bool) -> usize {
        let of = if few { FEW } else { self.many };
        self.rng.below(of as u64) as usize
    }

    /// Handles a packet of a connection: reads all its state and counts the packet there.
    #[inline]
    pub(super) fn handle(&mut self, connection: usize) -> u64 {
        let start = connection % self.many * self.stride;
        let state = &mut self.words[start..start + self.stride];
        state[0] = state[0].wrapping_add(1);
        state.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word))
    }
}

impl Switch for States {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        for _ in 0..ROUNDS {
            let connection = self.pick(follow);
            black_box(self.handle(connection));
        }
        Ok(ROUNDS as u64)
    }
}
