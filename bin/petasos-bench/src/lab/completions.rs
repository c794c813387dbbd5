//! Unsignalled completions: one notification of completed work for a batch.

use petasos_floor::lab::{Reclaiming, Releasing};

use super::guideline::UNSIGNALLED;
use super::{Pair, veth};

/// The pairs of this guideline.
pub static PAIRS: [Pair; 2] = [
    Pair {
        name: "unsignalled-xdp",
        guideline: &UNSIGNALLED,
        over: "AF_XDP into a veth pair, 16 for a kick",
        off: "completions taken after each frame",
        on: "before each 16",
        operations: "frames",
        why: "the kernel writes every completion in any case, on this core; only looking is saved",
        open: |_| Ok(Box::new(Reclaiming(veth::sender()?))),
    },
    Pair {
        name: "unsignalled-shm",
        guideline: &UNSIGNALLED,
        over: "a ring from another core",
        off: "each record released",
        on: "16 released at once",
        operations: "records",
        why: "the producer asks what was released only when its ring is full, so the line stays \
              with the consumer",
        open: |bench| Ok(Box::new(Releasing::open(bench.partner_core()?)?)),
    },
];
