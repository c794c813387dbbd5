//! Inlining: data that are needed together are stored together.

use petasos_floor::lab::{Inlining, Placement};

use super::Pair;
use super::guideline::INLINING;

/// The pairs of this guideline.
pub static PAIRS: [Pair; 2] = [
    Pair {
        name: "inlining-udp",
        guideline: &INLINING,
        over: "UDP sockets over loopback, trains of 16",
        off: "header and payload apart, cold",
        on: "next to each other, cold",
        operations: "datagrams",
        why: "the kernel copies both pieces; what is saved is a line from memory and an entry of \
              the list of pieces",
        // A third of the memory for each of the three areas, so that they use about as much as
        // other pairs.
        open: |bench| Ok(Box::new(Placement::open(bench.args.memory_bytes() / 3)?)),
    },
    Pair {
        name: "inlining-shm",
        guideline: &INLINING,
        over: "a ring to another core",
        off: "57 B beside their slot",
        on: "56 B in their slot",
        operations: "records",
        why: "the processor fetches both lines at once, a NIC would fetch one after the other",
        open: |bench| Ok(Box::new(Inlining::open(bench.partner_core()?)?)),
    },
];
