//! What the engines of a policy share in one runtime, if the policy puts the messages of all its
//! applications there in one order (mRPC, section 6: global QoS, runtime by runtime).
//!
//! Each engine has a seat at its runtime's board, and posts there which of its items goes next. An
//! item waits as long as one of another engine goes before it.
//!
//! Invariants:
//!
//! - Engines of a runtime work one after the other, so that nobody posts while another looks. The
//!   numbers are atomic only because engines move to other threads and end there; no ordering is
//!   needed.
//! - An engine that ends takes back what it has posted, and its bytes in flight.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use petasos_engine::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use petasos_engine::{Direction, Runtime, Time};

use crate::rate::Bucket;

/// Engines of a runtime beyond this number have no seat: no other waits for what they hold.
const SEATS_MAX: usize = 1024;

/// Where an item stands in the order: by rank, then by age. Lower ones go first.
pub(super) type Head = (u64, Time);

const NOTHING: Head = (u64::MAX, Time::NEVER);

/// The boards of a policy, by runtime.
#[derive(Default)]
pub(super) struct Boards(Mutex<Vec<Weak<Board>>>);

impl Boards {
    /// A seat at the runtime's board.
    pub(super) fn seat(&self, runtime: Runtime) -> Seat {
        let mut boards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boards.retain(|board| board.strong_count() > 0);
        let known = boards.iter().filter_map(Weak::upgrade).find(|board| board.runtime == runtime);
        let board = known.unwrap_or_else(|| {
            let board = Arc::new(Board::new(runtime));
            boards.push(Arc::downgrade(&board));
            board
        });
        let number = board.places.iter().position(|place| !place.taken.swap(true, RELAXED));
        board.end.fetch_max(number.map_or(0, |number| number + 1), RELAXED);
        Seat { board, number, in_flight_bytes: 0 }
    }
}

const RELAXED: Ordering = Ordering::Relaxed;

struct Board {
    runtime: Runtime,
    /// By direction.
    buckets: [Bucket; 2],
    in_flight_bytes: AtomicU64,
    places: Box<[Place]>,
    /// No place from here on was ever taken.
    end: AtomicUsize,
}

/// What an engine has posted.
struct Place {
    taken: AtomicBool,
    /// By direction: the rank of the item that goes next, and since when it waits, in ns.
    heads: [[AtomicU64; 2]; 2],
}

impl Place {
    fn new() -> Place {
        let nothing = || [u64::MAX, Time::NEVER.as_nanos()].map(AtomicU64::new);
        Place { taken: AtomicBool::new(false), heads: [nothing(), nothing()] }
    }

    fn head(&self, direction: Direction) -> Head {
        let [rank, since] = &self.heads[direction as usize];
        (rank.load(RELAXED), Time::from_nanos(since.load(RELAXED)))
    }
}

impl Board {
    fn new(runtime: Runtime) -> Board {
        Board {
            runtime,
            buckets: Default::default(),
            in_flight_bytes: AtomicU64::new(0),
            places: (0..SEATS_MAX).map(|_| Place::new()).collect(),
            end: AtomicUsize::new(0),
        }
    }
}

/// An engine's seat at the board of its runtime.
pub(super) struct Seat {
    board: Arc<Board>,
    number: Option<usize>,
    in_flight_bytes: u64,
}

impl Seat {
    pub(super) fn runtime(&self) -> Runtime {
        self.board.runtime
    }

    /// The bytes that all may send in this direction.
    pub(super) fn bucket(&self, direction: Direction) -> &Bucket {
        &self.board.buckets[direction as usize]
    }

    /// Which item of this engine goes next, for those that look later.
    pub(super) fn post(&self, direction: Direction, head: Option<Head>) {
        let Some(number) = self.number else { return };
        let (rank, since) = head.unwrap_or(NOTHING);
        let posted = &self.board.places[number].heads[direction as usize];
        posted[0].store(rank, RELAXED);
        posted[1].store(since.as_nanos(), RELAXED);
    }

    /// Whether an item of another engine goes before this one.
    pub(super) fn is_behind(&self, direction: Direction, head: Head) -> bool {
        let places = &self.board.places[..self.board.end.load(RELAXED)];
        let mut others = places.iter().enumerate().filter(|(at, _)| Some(*at) != self.number);
        others.any(|(_, place)| place.head(direction) < head)
    }

    /// Bytes of requests without an answer, of all engines.
    pub(super) fn all_in_flight_bytes(&self) -> u64 {
        self.board.in_flight_bytes.load(RELAXED)
    }

    /// How many of these are this engine's.
    pub(super) fn set_in_flight_bytes(&mut self, bytes: u64) {
        if bytes == self.in_flight_bytes {
            return;
        }
        let all = &self.board.in_flight_bytes;
        // Modulo 2^64, as atomic numbers add.
        all.fetch_add(bytes.wrapping_sub(self.in_flight_bytes), RELAXED);
        self.in_flight_bytes = bytes;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.set_in_flight_bytes(0);
        Direction::ALL.into_iter().for_each(|direction| self.post(direction, None));
        if let Some(number) = self.number {
            self.board.places[number].taken.store(false, RELAXED);
        }
    }
}
