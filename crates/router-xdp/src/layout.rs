//! Where everything is in the memory that the program and this process share: the other half of
//! the structures in `program/router.bpf.c`. All of it is words of 64 bits.

use core::net::SocketAddrV4;

use petasos_wire::{Feedback, Header, Kind, WorkerCounts};

/// The most workers of a group.
pub const WORKERS_MAX: usize = 64;
/// Processors that have counters of their own; more share them, and counts are too low then.
pub(crate) const PROCESSORS: usize = 64;
/// The longest frame that is parked.
pub(crate) const PARKED_BYTES: usize = 1536;
/// What is before it: when it came, and its length.
pub(crate) const PARKED_AT: usize = 16;
/// The headers of Ethernet, IPv4 and UDP.
pub const HEADERS_BYTES: usize = 42;

/// Words of the table before the workers'.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Table {
    Mode = 0,
    Address = 1,
    Epochs = 2,
    Form = 3,
    Workers = 4,
    ParkedMax = 5,
    Above = 6,
    Asleep = 7,
    AgeMax = 8,
    Parked = 9,
}

pub(crate) const MODE_ON: u64 = 1;
pub(crate) const MODE_PARTIAL: u64 = 2;
/// The process is gone.
pub(crate) const MODE_ALONE: u64 = 4;
/// And frames cannot grow, so that nothing is parked or taken from there.
pub(crate) const MODE_DIRECT: u64 = 8;
pub(crate) const TABLE_WORDS: usize = 16;
const WORKER_WORDS: usize = 16;

/// Words of a worker.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Place {
    Limit = 0,
    Given = 1,
    Told = 2,
    Received = 3,
    Address = 4,
    Neighbour = 5,
    Named = 6,
    Mark = 7,
    Secret = 8,
    Own = 9,
}

/// The index of a worker's word in the table.
pub(crate) fn place(worker: usize, word: Place) -> usize {
    assert!(worker < WORKERS_MAX, "the table has no place {worker}");
    TABLE_WORDS + worker * WORKER_WORDS + word as usize
}

/// Words of a client.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Client {
    Mark = 0,
    Address = 1,
    Highest = 2,
    Window = 4,
}

pub(crate) const CLIENT_WORDS: usize = 68;
pub(crate) const WINDOW_WORDS: u64 = 64;
/// Numbers that are remembered (RT3). There is room for twice as many.
pub(crate) const WINDOW_NUMBERS: u64 = 1024;

/// Words of a processor's counters.
pub(crate) const COUNT_WORDS: usize = 8;

/// An address and a port as they are in packets.
pub(crate) fn address_word(address: SocketAddrV4) -> u64 {
    let ip = u32::from_ne_bytes(address.ip().octets());
    u64::from(ip) | u64::from(address.port().to_be()) << 32
}

fn first_word(header: &[u8]) -> u64 {
    let bytes = header.first_chunk().expect("a header has three words");
    u64::from_le_bytes(*bytes)
}

/// The first word of a client's first packets, without flags.
pub(crate) fn client_mark(client: u32, tag: u32) -> u64 {
    first_word(&Header::for_session(client, tag).with_request(Kind::Routed, 0, 0).to_bytes())
}

/// The first word of a worker's feedback.
pub(crate) fn worker_mark(session: u32, tag: u32) -> u64 {
    let counts = WorkerCounts { sequence: 0, received: 0, settled: 0, bound: 0 };
    first_word(&Feedback { session, tag, secret: 0, counts, failed: 0 }.to_bytes())
}

/// What the first word of a worker's packets names, without what says their form.
pub(crate) fn named(session: u32, tag: u32) -> u64 {
    first_word(&Header::for_session(session, tag).to_bytes()) & !0xffff
}
