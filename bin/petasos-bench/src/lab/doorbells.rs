//! Batched doorbells: one notification of new work for a batch.

use petasos_floor::lab::{Calls, Kicks, Publishing, Trains};

use super::guideline::DOORBELLS;
use super::{Pair, veth};

/// The pairs of this guideline.
pub static PAIRS: [Pair; 4] = [
    Pair {
        name: "doorbells-udp",
        guideline: &DOORBELLS,
        over: "UDP sockets over loopback",
        off: "a send for each datagram",
        on: "a GSO train of 16",
        operations: "datagrams",
        why: "what costs is the pass through the kernel's stack, which a train makes once",
        open: |_| Ok(Box::new(Trains::open()?)),
    },
    Pair {
        name: "doorbells-calls",
        guideline: &DOORBELLS,
        over: "UDP sockets over loopback",
        off: "a sendmsg for each datagram",
        on: "a sendmmsg for 16",
        operations: "datagrams",
        why: "only entering the kernel is saved; each datagram passes its stack alone in both",
        open: |_| Ok(Box::new(Calls::open()?)),
    },
    Pair {
        name: "doorbells-xdp",
        guideline: &DOORBELLS,
        over: "AF_XDP into a veth pair",
        off: "a kick for each frame",
        on: "a kick for 16",
        operations: "frames",
        why: "in copy mode the kick itself makes a packet of each frame and delivers it, which \
              costs more than entering the kernel",
        open: |_| Ok(Box::new(Kicks(veth::sender()?))),
    },
    Pair {
        name: "doorbells-shm",
        guideline: &DOORBELLS,
        over: "a ring to another core",
        off: "each record published",
        on: "16 published at once",
        operations: "records",
        why: "publishing is one store to a line that is written anyway and crosses no bus; records \
              seen early keep the consumer busy",
        open: |bench| Ok(Box::new(Publishing::open(bench.partner_core()?)?)),
    },
];
