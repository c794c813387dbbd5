//! The program, and the memory that it shares with this process.

use core::net::SocketAddrV4;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_netio_xdp::{
    AttachMode, BpfFiles, BpfLink, BpfObject, BpfProgram, ProgramRun, SharedWords, XdpError,
    XdpMode,
};
use petasos_router_plane::{TierPacket, TierStats};
use petasos_wire::{GIVEN_NUMBERS, SEAL_BYTES, SETTLED_NUMBERS, WorkerCounts};
use rustix::time::{ClockId, clock_gettime};

use crate::layout::{
    CLIENT_WORDS, COUNT_WORDS, Client, HEADERS_BYTES, MODE_ON, MODE_PARTIAL, PARKED_AT,
    PARKED_BYTES, PROCESSORS, Place, Table, WINDOW_NUMBERS, WINDOW_WORDS, address_word,
    client_mark, named, place, worker_mark,
};

/// The object that CI compares with what Debian's clang 14 makes of `program/router.bpf.c`.
pub const OBJECT: &[u8] = include_bytes!("../program/router.bpf.o");
/// The section of [`OBJECT`] that has the program.
pub const SECTION: &str = "xdp";
/// What a request weighs at a worker with a share of one percent.
const WEIGHT: u64 = 6400;

/// What the program has to know of a group.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// Where first packets and feedback come, and what is sent comes from.
    pub address: SocketAddrV4,
    /// The group's payload size (RT32).
    pub payload_bytes: u32,
    /// Whether first packets end with a seal.
    pub is_sealed: bool,
    /// The most numbers of clients.
    pub clients_max: u32,
    /// The most requests that are parked, 1 or more.
    pub parked_max: u32,
    /// How long a request may be parked (RT24).
    pub age_max: Duration,
    /// Checksums of UDP are not complete, since a virtual interface of this host has left them to a
    /// device; so they are not heeded, and packets are sent without.
    pub partial_checksums: bool,
}

/// A worker as the program has to know it.
#[derive(Clone, Copy, Debug)]
pub struct PlaceNames {
    /// Where it is.
    pub address: SocketAddrV4,
    /// Its index and tag for the router.
    pub named: (u32, u32),
    /// The router's tag for it; the index is its place.
    pub own_tag: u32,
    /// The secret bits of its feedback.
    pub secret: u64,
}

/// What is known of a worker's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceCounts {
    /// How many numbers were given.
    pub given: u64,
    /// The newest feedback.
    pub told: WorkerCounts,
}

/// The program. All methods may be called while it runs: see the crate's documentation.
#[derive(Debug)]
pub struct RouterProgram {
    program: BpfProgram,
    table: SharedWords,
    clients: SharedWords,
    counts: SharedWords,
    clients_max: u32,
    /// For values of queues.
    value: Mutex<Vec<u8>>,
}

impl RouterProgram {
    /// Loads the program, which decides nothing before [`RouterProgram::start`].
    ///
    /// # Errors
    /// If the process may not, or the kernel refuses.
    pub fn load(config: &ProgramConfig) -> Result<RouterProgram, XdpError> {
        let object = BpfObject::parse(OBJECT, SECTION).expect("the committed object is one");
        // What the process has taken from one queue, the other one may have meanwhile.
        let (clients_max, parked_max) = (config.clients_max.max(1), config.parked_max.max(1));
        let entries = [("clients", clients_max), ("queue", parked_max), ("returned", parked_max)];
        let program = object.load("petasos_router", &entries)?;
        let (table, clients) = (program.words("tables")?, program.words("clients")?);
        let counts = program.words("counters")?;
        let value = Mutex::new(vec![0; PARKED_AT + PARKED_BYTES]);
        let program = RouterProgram { program, table, clients, counts, clients_max, value };
        let seal_bytes = if config.is_sealed { SEAL_BYTES as u64 } else { 0 };
        program.set(Table::Address, address_word(config.address));
        program.set(Table::Form, u64::from(config.payload_bytes) | seal_bytes << 16);
        program.set(Table::ParkedMax, parked_max.into());
        program.set(Table::AgeMax, u64::try_from(config.age_max.as_nanos()).unwrap_or(u64::MAX));
        program.set(Table::Mode, if config.partial_checksums { MODE_PARTIAL } else { 0 });
        program.set_epochs([None, None]);
        Ok(program)
    }

    /// Attaches the program to an interface of the thread's network namespace.
    ///
    /// # Errors
    /// Mostly, another program is there.
    pub fn attach(&self, interface: &str, mode: AttachMode) -> Result<BpfLink, XdpError> {
        self.program.attach(interface, mode)
    }

    /// Leaves what the program does not know to the one of the process before, or no longer to
    /// anybody. It does so until [`RouterProgram`] is dropped and nobody keeps its
    /// [files](RouterProgram::files).
    ///
    /// # Errors
    /// If it is no such program.
    pub fn follow(&self, earlier: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.program.set_program("earlier", earlier)
    }

    /// Takes the place of the program that a link has.
    ///
    /// # Errors
    /// Mostly, the link was detached. Then nothing has changed.
    pub fn replace(&self, link: OwnedFd, mode: XdpMode) -> Result<BpfLink, XdpError> {
        self.program.replace(link, mode)
    }

    /// What keeps the program at a link when this process is gone.
    ///
    /// # Errors
    /// If the process has as many descriptors as it may.
    pub fn files(&self, link: BorrowedFd<'_>) -> io::Result<BpfFiles> {
        self.program.files(link, "tables", "earlier")
    }

    /// Lets the program decide, or nothing more if `is_on` is false.
    pub fn start(&self, is_on: bool) {
        let partial = self.get(Table::Mode) & MODE_PARTIAL;
        self.set(Table::Mode, partial | if is_on { MODE_ON } else { 0 });
    }

    /// The epochs whose first packets are taken (RT30).
    pub fn set_epochs(&self, epochs: [Option<u16>; 2]) {
        let [newest, before] = epochs.map(|epoch| u64::from(epoch.unwrap_or(u16::MAX)));
        self.set(Table::Epochs, newest | before << 16);
    }

    /// Whether something waits in the process, so that the program has to leave all to it.
    pub fn set_above(&self, is_above: bool) {
        self.set(Table::Above, is_above.into());
    }

    /// Asks for the next packet as it is, so that it wakes the process.
    pub fn doze(&self) {
        self.set(Table::Asleep, 1);
    }

    /// Runs the program on a frame, without an interface.
    ///
    /// # Errors
    /// If the kernel refuses such a frame.
    pub fn run(&self, frame: &[u8], out: &mut [u8], times: u32) -> io::Result<ProgramRun> {
        self.program.run(frame, out, times)
    }

    /// What the program has done.
    pub fn stats(&self) -> TierStats {
        let sum = |at: usize| {
            let counters = self.counts.words().chunks_exact(COUNT_WORDS).take(PROCESSORS);
            counters.map(|counters| counters[at].load(Ordering::Relaxed)).sum()
        };
        TierStats {
            given: sum(0),
            parked: sum(1),
            unparked: sum(2),
            returned: sum(3),
            feedback: sum(4),
            contended: sum(5),
            taken: sum(6),
            sent: sum(7),
        }
    }

    fn get(&self, word: Table) -> u64 {
        self.table.words()[word as usize].load(Ordering::Acquire)
    }

    fn set(&self, word: Table, value: u64) {
        self.table.words()[word as usize].store(value, Ordering::Release);
    }
}

impl AsFd for RouterProgram {
    /// The program's.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// Workers.
impl RouterProgram {
    fn at(&self, worker: usize, word: Place) -> &AtomicU64 {
        &self.table.words()[place(worker, word)]
    }

    /// A worker joins at a place, to which nothing is given yet: nobody knows where it is. The
    /// place was not used before, or [`wait_for_runs`](petasos_netio_xdp::wait_for_runs) was called
    /// since.
    pub fn begin_place(&self, worker: usize, bound: u16) {
        self.begin_place_at(worker, bound, 0);
    }

    /// The same as if so many numbers had been given and settled: for tests of counts that wrap.
    #[doc(hidden)]
    pub fn begin_place_at(&self, worker: usize, bound: u16, count: u64) {
        self.end_place(worker);
        let settled = (count % u64::from(SETTLED_NUMBERS)) as u32;
        let told = WorkerCounts { sequence: 0, received: 0, settled, bound };
        let (own, told) = (worker as u64, told.to_word());
        for (word, value) in [
            (Place::Own, own),
            (Place::Given, count),
            (Place::Told, told),
            (Place::Received, count),
        ] {
            self.at(worker, word).store(value, Ordering::Relaxed);
        }
        let places = self.get(Table::Workers).max(worker as u64 + 1);
        self.set(Table::Workers, places);
    }

    /// What names a worker at its place.
    pub fn name_place(&self, worker: usize, names: &PlaceNames) {
        let (session, tag) = names.named;
        for (word, value) in [
            (Place::Address, address_word(names.address)),
            (Place::Named, named(session, tag)),
            (Place::Secret, names.secret),
            (Place::Mark, worker_mark(worker as u32, names.own_tag)),
        ] {
            self.at(worker, word).store(value, Ordering::Release);
        }
    }

    /// Nothing is given to a worker, or heard from it, any more.
    pub fn end_place(&self, worker: usize) {
        for word in [Place::Limit, Place::Mark, Place::Neighbour] {
            self.at(worker, word).store(0, Ordering::Release);
        }
    }

    /// The most that a worker may have, and its part of the requests in percent of a full one's.
    pub fn set_limit(&self, worker: usize, limit: u16, share: u8) {
        // What a request weighs there: 64 with a full share, 6400 with the smallest.
        let weight = WEIGHT / u64::from(share.clamp(1, 100));
        let word = if limit == 0 { 0 } else { u64::from(limit) | weight << 16 };
        self.at(worker, Place::Limit).store(word, Ordering::Release);
    }

    /// A worker's slots.
    pub fn counts(&self, worker: usize) -> PlaceCounts {
        // In this order: what is settled and received is never more than what was given by then.
        let told = self.at(worker, Place::Told).load(Ordering::Acquire);
        let received = self.at(worker, Place::Received).load(Ordering::Acquire);
        let given = self.at(worker, Place::Given).load(Ordering::Acquire);
        let received = (received % u64::from(GIVEN_NUMBERS)) as u32;
        PlaceCounts { given, told: WorkerCounts::of_word(told, received) }
    }

    /// Takes a worker's next number, while it has a slot.
    pub fn take_slot(&self, worker: usize) -> Option<u64> {
        let given = self.at(worker, Place::Given);
        loop {
            let limit = self.at(worker, Place::Limit).load(Ordering::Acquire) & 0xffff;
            let told = self.at(worker, Place::Told).load(Ordering::Acquire);
            let before = given.load(Ordering::Acquire);
            let outstanding = before.wrapping_sub(told) % u64::from(SETTLED_NUMBERS);
            if outstanding >= limit.min(WorkerCounts::of_word(told, 0).bound.into()) {
                return None;
            }
            let next = before + 1;
            let (ok, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            if given.compare_exchange_weak(before, next, ok, relaxed).is_ok() {
                return Some(next);
            }
        }
    }

    /// Takes a worker's next number, also if it has no slot: for a probe (RT22).
    pub fn take_probe(&self, worker: usize) -> u64 {
        self.at(worker, Place::Given).fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Puts newer feedback in the place of what was the newest, unless another is there meanwhile.
    /// `received` is the count, not modulo anything.
    pub fn tell(
        &self,
        worker: usize,
        before: &WorkerCounts,
        told: &WorkerCounts,
        received: u64,
    ) -> bool {
        let (before, after) = (before.to_word(), told.to_word());
        let (ok, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let word = self.at(worker, Place::Told);
        let is_newest = word.compare_exchange(before, after, ok, relaxed).is_ok();
        if is_newest {
            self.at(worker, Place::Received).store(received, Ordering::Release);
        }
        is_newest
    }

    /// Whether the program knows where a worker is: it has heard it.
    pub fn knows(&self, worker: usize) -> bool {
        self.at(worker, Place::Neighbour).load(Ordering::Relaxed) != 0
    }
}

/// Clients.
impl RouterProgram {
    fn client(&self, client: u32) -> Option<&[AtomicU64]> {
        let at = client as usize * CLIENT_WORDS;
        (client < self.clients_max).then(|| &self.clients.words()[at..at + CLIENT_WORDS])
    }

    /// A client attaches. Its number was nobody's for as long as packets may be under way (RT28).
    /// One whose number is too high is the plane's alone.
    pub fn attach_client(&self, client: u32, tag: u32, address: SocketAddrV4) {
        let Some(words) = self.client(client) else { return };
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // Numbers begin with 1.
        words[Client::Window as usize].store(1, Ordering::Relaxed);
        words[Client::Address as usize].store(address_word(address), Ordering::Relaxed);
        words[Client::Mark as usize].store(client_mark(client, tag), Ordering::Release);
    }

    /// A client is gone.
    pub fn detach_client(&self, client: u32) {
        if let Some(words) = self.client(client) {
            words[Client::Mark as usize].store(0, Ordering::Release);
        }
    }

    /// Takes a number of a first packet, for the first and only time (RT3). `None` if the program
    /// does not have the client.
    pub fn take_number(&self, client: u32, number: u64) -> Option<bool> {
        let words = self.client(client)?;
        let highest = &words[Client::Highest as usize];
        if number + WINDOW_NUMBERS <= highest.load(Ordering::Relaxed) {
            return Some(false);
        }
        let at = Client::Window as usize + (number / 32 % WINDOW_WORDS) as usize;
        let (row, bit) = (number / (32 * WINDOW_WORDS), 1 << (number % 32));
        let taken = words[at].fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            let of_row = if old >> 32 == row { old } else { row << 32 };
            (old >> 32 <= row && of_row & bit == 0).then_some(of_row | bit)
        });
        if taken.is_ok() {
            highest.fetch_max(number, Ordering::Relaxed);
        }
        Some(taken.is_ok())
    }
}

/// Requests that wait in the kernel.
impl RouterProgram {
    /// How many there are, about.
    pub fn parked(&self) -> u64 {
        self.get(Table::Parked)
    }

    /// Takes who has waited longest.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take_parked(&self) -> io::Result<Option<TierPacket>> {
        let packet = self.take("queue")?;
        if packet.is_some() {
            self.table.words()[Table::Parked as usize].fetch_sub(1, Ordering::AcqRel);
        }
        Ok(packet)
    }

    /// Takes one that the program has handed back: it is too old, or nobody was free.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take_returned(&self) -> io::Result<Option<TierPacket>> {
        self.take("returned")
    }

    fn take(&self, queue: &str) -> io::Result<Option<TierPacket>> {
        let mut value = self.value.lock().expect("nothing panics under the lock");
        if !self.program.take(queue, &mut value)? {
            return Ok(None);
        }
        let (words, bytes) = value.split_at(PARKED_AT);
        let (words, _) = words.as_chunks::<8>();
        let [arrived, len] = [0, 1].map(|at| u64::from_ne_bytes(words[at]));
        let len = usize::try_from(len).map_or(PARKED_BYTES, |len| len.min(PARKED_BYTES));
        let waited = Duration::from_nanos(monotonic_ns().saturating_sub(arrived));
        let bytes = bytes[HEADERS_BYTES.min(len)..len].to_vec();
        Ok(Some(TierPacket { bytes, waited }))
    }
}

/// The program's clock.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
