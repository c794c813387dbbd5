//! Huge pages: fewer address translations.

use petasos_floor::lab::PageWalk;

use super::Pair;
use super::guideline::PAGES;

/// The pairs of this guideline.
pub static PAIRS: [Pair; 1] = [Pair {
    name: "huge-pages",
    guideline: &PAGES,
    over: "memory, a line at random",
    off: "pages of 4 KiB",
    on: "pages of 2 MiB",
    operations: "accesses",
    why: "the processor keeps enough translations for this memory (--memory-mb), or finds them \
          while it waits",
    open: |bench| Ok(Box::new(PageWalk::map(bench.args.memory_bytes())?)),
}];
