//! Several queues: the same load over one queue or several.

use petasos_floor::lab::{QUEUES as QUEUE_COUNT, QueueCount, RingCount, SocketCount};

use super::guideline::QUEUES;
use super::{Pair, veth};

/// The pairs of this guideline.
pub static PAIRS: [Pair; 3] = [
    Pair {
        name: "queues-udp",
        guideline: &QUEUES,
        over: "UDP sockets over loopback, trains of 16",
        off: "1 socket",
        on: "4 sockets",
        operations: "datagrams",
        why: "a NIC has a unit for each queue; behind these sockets is the same core, and more of \
              them fill its caches",
        open: |_| Ok(Box::new(SocketCount::open()?)),
    },
    Pair {
        name: "queues-xdp",
        guideline: &QUEUES,
        over: "AF_XDP into a veth pair, 16 for a kick",
        off: "1 queue",
        on: "4 queues",
        operations: "frames",
        why: "veth has no units that work beside the core; the kick does all the work",
        open: |_| Ok(Box::new(QueueCount(veth::senders(QUEUE_COUNT)?))),
    },
    Pair {
        name: "queues-shm",
        guideline: &QUEUES,
        over: "rings to another core, 16 published at once",
        off: "1 ring",
        on: "4 rings",
        operations: "records",
        why: "one consumer empties all rings, so nothing more works at the same time",
        open: |bench| Ok(Box::new(RingCount::open(bench.partner_core()?)?)),
    },
];
