//! Connection state: data that must be fetched for each packet when it does not fit into a cache.

use petasos_floor::lab::{StatefulEcho, States};

use super::guideline::CONNECTIONS;
use super::{Bench, Pair};

/// The connection state of the thesis's NICs, in bytes.
const NIC_BYTES: usize = 375;
/// The approximate size of a Petasos session.
const SESSION_BYTES: usize = 1300;

/// The pairs of this guideline.
pub static PAIRS: [Pair; 3] = [
    Pair {
        name: "connections-nic",
        guideline: &CONNECTIONS,
        over: "memory, a whole state for each packet",
        off: "MANY states of 375 B",
        on: "10 states of 375 B",
        operations: "packets",
        why: "all states fit the processor's cache, which is larger than a NIC's",
        open: |bench| Ok(Box::new(states(bench, NIC_BYTES))),
    },
    Pair {
        name: "connections-session",
        guideline: &CONNECTIONS,
        over: "memory, a whole state for each packet",
        off: "MANY states of 1300 B",
        on: "10 states of 1300 B",
        operations: "packets",
        why: "the lines of a state are fetched together, ahead of their use",
        open: |bench| Ok(Box::new(states(bench, SESSION_BYTES))),
    },
    Pair {
        name: "connections-udp",
        guideline: &CONNECTIONS,
        over: "UDP echo of trains of 16, a whole state for each request",
        off: "MANY states of 1300 B",
        on: "10 states of 1300 B",
        operations: "round trips",
        why: "as in the thesis for RPCs: states come from memory, which is quick beside the \
              packet's own cost",
        open: |bench| Ok(Box::new(StatefulEcho::open(states(bench, SESSION_BYTES))?)),
    },
];

fn states(bench: &Bench<'_>, bytes: usize) -> States {
    States::new(bench.args.connections, bytes)
}
