//! What workers tell, between a thread that hears them and the one that decides (R2P2, section 4.2:
//! a loop for feedback beside that for requests, and arrays with a single writer).
//!
//! Each place has an entry with the newest counts of its worker. Who decides reads all entries with
//! news once per batch, and writes back which counts it has heeded or refused: so what cannot be
//! keeps no later word out.
//!
//! Who may touch what: [`FeedbackBoard::put`] belongs to the thread that hears; everything else to
//! the one that decides.
//!
//! Invariant: after the last `put` for a place, who decides finds its counts. Counts that were
//! replaced before they were read are not missed: counts only grow.

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_base::{Doorbell, Time};
use petasos_wire::{GIVEN_NUMBERS, TRANSMISSION_NUMBERS, WorkerCounts};

use crate::members::FeedbackError;
use crate::router::Router;
use crate::worker::{WorkerId, is_newer};

/// Where the fields of an entry's words are.
const GENERATION: u32 = 20;
const REFUSED: u32 = 24;
const HAS_REFUSED: u64 = 1 << 48;
const SEQUENCE_MASK: u64 = TRANSMISSION_NUMBERS as u64 - 1;
const _: () = assert!(GIVEN_NUMBERS == 1 << GENERATION && TRANSMISSION_NUMBERS == 1 << REFUSED);

/// One worker's, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    /// See [`WorkerCounts::to_word`].
    told: AtomicU64,
    /// The highest number that has arrived, and the generation of the place. Written before `told`.
    received: AtomicU64,
    /// The messages that were heeded and refused last: written by who decides.
    judged: AtomicU64,
    /// Failures that who decides has not taken.
    failed: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct FeedbackBoard {
    entries: Box<[Entry]>,
    /// A bit for each place.
    news: Box<[AtomicU64]>,
    bell: Doorbell,
}

/// A worker, for the thread that hears it.
#[derive(Debug)]
pub struct HeardWorker {
    worker: WorkerId,
    /// The number of the last message that was put.
    put: u32,
}

impl HeardWorker {
    /// The membership.
    pub fn id(&self) -> WorkerId {
        self.worker
    }
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Who decides will find it.
    There,
    /// The same, and it sleeps: wake it.
    Wakes,
    /// It is not newer than the newest (RT22).
    Stale,
}

impl FeedbackBoard {
    /// For so many places.
    pub fn new(places: usize) -> FeedbackBoard {
        let word = || AtomicU64::new(0);
        let entry = || Entry { told: word(), received: word(), judged: word(), failed: word() };
        FeedbackBoard {
            entries: (0..places).map(|_| entry()).collect(),
            news: (0..places.div_ceil(64)).map(|_| word()).collect(),
            bell: Doorbell::default(),
        }
    }

    /// A worker has joined, for the thread that hears it.
    pub fn hear(&self, worker: WorkerId) -> HeardWorker {
        let entry = &self.entries[worker.index()];
        // In this order: who finds the generation finds nothing of those before.
        entry.told.store(0, Ordering::Release);
        entry.failed.store(0, Ordering::Relaxed);
        entry.received.store(u64::from(worker.generation) << GENERATION, Ordering::Release);
        HeardWorker { worker, put: 0 }
    }

    /// Puts what a worker tells, if it is newer than what was put before and not refused.
    pub fn put(&self, HeardWorker { worker, put }: &mut HeardWorker, told: &WorkerCounts) -> Put {
        let place = worker.index();
        let entry = &self.entries[place];
        let judged = entry.judged.load(Ordering::Relaxed);
        let is_refused =
            judged & HAS_REFUSED != 0 && (judged >> REFUSED) & SEQUENCE_MASK == u64::from(*put);
        let newest = if is_refused { (judged & SEQUENCE_MASK) as u32 } else { *put };
        if !is_newer(told.sequence, newest) {
            return Put::Stale;
        }
        *put = told.sequence;
        let received = u64::from(told.received) | (u64::from(worker.generation) << GENERATION);
        // In this order: who finds the other word finds this one, or a later.
        entry.received.store(received, Ordering::Release);
        entry.told.store(told.to_word(), Ordering::Release);
        let bit = 1 << (place % 64);
        let before = self.news[place / 64].fetch_or(bit, Ordering::AcqRel);
        // A bit that was set was rung for, and its reader finds what was written since.
        match before & bit == 0 && self.bell.ring() {
            true => Put::Wakes,
            false => Put::There,
        }
    }

    /// Adds requests that a worker has failed. Who decides finds them with what is put next, if not
    /// before.
    #[cold]
    pub fn add_failed(&self, worker: WorkerId, failed: u64) {
        self.entries[worker.index()].failed.fetch_add(failed, Ordering::Relaxed);
    }

    fn take_failed(&self, worker: WorkerId) -> u64 {
        let failed = &self.entries[worker.index()].failed;
        // Mostly there are none: the line is not written then.
        if failed.load(Ordering::Relaxed) == 0 { 0 } else { failed.swap(0, Ordering::Relaxed) }
    }

    /// A worker has joined: nothing of it was heeded or refused.
    pub fn begin(&self, worker: WorkerId) {
        self.entries[worker.index()].judged.store(0, Ordering::Relaxed);
    }

    /// Whether there may be news.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.bell.has_rung()
    }

    /// Says that who decides is about to sleep, and wants to be woken by news. If this returns
    /// false, there are some. After waking, it calls [`FeedbackBoard::rise`].
    #[must_use]
    pub fn doze(&self) -> bool {
        self.bell.doze()
    }

    /// Says that who decides is awake.
    pub fn rise(&self) {
        self.bell.rise();
    }

    /// Reads the entries with news: the place, its generation, and what its worker tells.
    fn take(&self, mut each: impl FnMut(usize, u32, &WorkerCounts)) {
        self.bell.answer();
        for (word, news) in self.news.iter().enumerate() {
            let mut places = match news.load(Ordering::Relaxed) {
                0 => continue,
                _ => news.swap(0, Ordering::AcqRel),
            };
            while places != 0 {
                let place = word * 64 + places.trailing_zeros() as usize;
                places &= places - 1;
                self.entries[place].read(|generation, told| each(place, generation, told));
            }
        }
    }

    fn judge(&self, worker: WorkerId, sequence: u32, is_heeded: bool) {
        let judged = &self.entries[worker.index()].judged;
        let (before, sequence) = (judged.load(Ordering::Relaxed), u64::from(sequence));
        let after = match is_heeded {
            true => sequence,
            false => (before & SEQUENCE_MASK) | (sequence << REFUSED) | HAS_REFUSED,
        };
        judged.store(after, Ordering::Relaxed);
    }
}

impl Entry {
    fn read(&self, each: impl FnOnce(u32, &WorkerCounts)) {
        let generation_of = |received: u64| (received >> GENERATION) as u32;
        let generation = generation_of(self.received.load(Ordering::Acquire));
        let told = self.told.load(Ordering::Acquire);
        let received = self.received.load(Ordering::Acquire);
        // Otherwise another worker has come to the place, whose news will have a bit of their own.
        if generation == generation_of(received) {
            let received = received as u32 % GIVEN_NUMBERS;
            each(generation, &WorkerCounts::of_word(told, received));
        }
    }
}

impl<T> Router<T> {
    /// Heeds what another thread has put on a board, each as
    /// [`handle_feedback`](Router::handle_feedback) does. Returns whether there was anything.
    pub fn handle_board(&mut self, now: Time, board: &FeedbackBoard) -> bool {
        if !board.has_news() {
            return false;
        }
        board.take(|place, generation, counts| {
            let worker = WorkerId { index: place as u16, generation };
            match self.handle_feedback(now, worker, counts) {
                Ok(_) => {
                    board.judge(worker, counts.sequence, true);
                    let failed = board.take_failed(worker);
                    if failed > 0 {
                        self.handle_failure(now, worker, failed);
                    }
                }
                Err(FeedbackError::WrongCounts) => board.judge(worker, counts.sequence, false),
                // It was said of a membership that has ended.
                Err(FeedbackError::Stranger) => {}
            }
        });
        true
    }

    /// Counts feedback that another thread has found not to be the newest.
    pub fn count_stale(&mut self, messages: u64) {
        self.counts.stale += messages;
    }

    /// Whether news of a worker may change something before the next timer: requests wait, or a
    /// worker that gets none may get some, or is watched until it has ended what it has.
    pub fn wants_news(&self) -> bool {
        self.waiting() > 0 || self.workers.usable < self.workers.members.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::{Config, Join, Request};

    struct Pair {
        router: Router<u32>,
        board: FeedbackBoard,
        worker: HeardWorker,
        rng: petasos_base::Rng,
    }

    fn told(sequence: u32, settled: u32, received: u32) -> WorkerCounts {
        WorkerCounts { sequence, received, settled, bound: 4 }
    }

    impl Pair {
        /// A worker that was given so many requests.
        fn new(given: u32) -> Pair {
            let mut router = Router::new(&Config::default()).expect("it is right");
            let join = Join { identity: 7, bound: 4, weight: 100 };
            let id = router.handle_join(Time::ZERO, join).expect("there is room");
            let board = FeedbackBoard::new(router.config().workers_max);
            board.begin(id);
            let worker = board.hear(id);
            let mut pair = Pair { router, board, worker, rng: petasos_base::Rng::new(1) };
            for token in 0..given {
                let given = pair.router.route(Time::ZERO, Request::new(token), &mut pair.rng);
                assert!(given.is_ok(), "it is free");
            }
            pair
        }

        fn put(&mut self, told: &WorkerCounts) -> Put {
            self.board.put(&mut self.worker, told)
        }

        /// What is outstanding once the router has looked.
        fn outstanding(&mut self) -> u64 {
            let now = Time::ZERO + Duration::from_micros(1);
            self.router.handle_board(now, &self.board);
            self.router.outstanding()
        }
    }

    #[test]
    fn the_newest_word_is_heeded_once() {
        let mut pair = Pair::new(3);
        assert_eq!(pair.put(&told(1, 1, 1)), Put::There);
        assert_eq!(pair.put(&told(2, 2, 3)), Put::There);
        assert_eq!(pair.put(&told(1, 1, 1)), Put::Stale, "it is older");
        assert_eq!(pair.outstanding(), 1);
        assert_eq!(pair.router.counts().feedback, 1, "one has replaced the other");
        assert!(!pair.router.handle_board(Time::ZERO, &pair.board), "there is nothing else");
        assert_eq!(pair.put(&told(3, 3, 3)), Put::There);
        assert_eq!(pair.outstanding(), 0);
    }

    #[test]
    fn rt22_what_cannot_be_keeps_no_later_word_out() {
        let mut pair = Pair::new(3);
        pair.put(&told(1, 1, 1));
        assert_eq!(pair.outstanding(), 2);
        // It has a number far ahead, and has received more than it was given.
        assert_eq!(pair.put(&told(5000, 9, 9)), Put::There);
        assert_eq!(pair.outstanding(), 2);
        assert_eq!(pair.router.counts().wrong_counts, 1);
        assert_eq!(pair.put(&told(1, 1, 1)), Put::Stale, "that was heeded");
        assert_eq!(pair.put(&told(2, 3, 3)), Put::There, "it is newer than what was heeded");
        assert_eq!(pair.outstanding(), 0);
    }

    #[test]
    fn a_word_of_who_was_at_the_place_before_is_nobodys() {
        let mut pair = Pair::new(2);
        let before = pair.worker.worker;
        pair.put(&told(1, 2, 2));
        pair.router.handle_end(before);
        let join = Join { identity: 8, bound: 4, weight: 100 };
        let id = pair.router.handle_join(Time::ZERO, join).expect("there is room");
        assert_eq!(id.index(), before.index());
        pair.board.begin(id);
        let given = pair.router.route(Time::ZERO, Request::new(9), &mut pair.rng);
        assert!(given.is_ok_and(|given| given.worker == id));
        assert_eq!(pair.outstanding(), 1, "the word was another's");
        assert_eq!(pair.router.counts().from_strangers, 1);
        // The thread that hears learns of it, and the numbers begin anew.
        pair.worker = pair.board.hear(id);
        assert_eq!(pair.put(&told(1, 1, 1)), Put::There);
        assert_eq!(pair.outstanding(), 0);
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let mut pair = Pair::new(2);
        assert!(pair.board.doze());
        assert_eq!(pair.put(&told(1, 1, 1)), Put::Wakes);
        assert_eq!(pair.put(&told(2, 2, 2)), Put::There, "it was woken");
        pair.board.rise();
        assert!(!pair.board.doze(), "there is news");
        assert_eq!(pair.outstanding(), 0);
        assert!(pair.board.doze());
    }

    #[test]
    fn news_are_wanted_while_something_hangs_on_them() {
        let mut pair = Pair::new(1);
        assert!(!pair.router.wants_news());
        let id = pair.worker.worker;
        assert!(pair.router.drain(id, true) && pair.router.wants_news());
        assert!(pair.router.drain(id, false) && !pair.router.wants_news());
        for token in 0..4 {
            let _ = pair.router.handle_request(Time::ZERO, Request::new(token));
        }
        while pair.router.poll(Time::ZERO, &mut pair.rng).is_some() {}
        assert!(pair.router.wants_news(), "one waits");
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p petasos-router --lib board`
#[cfg(all(test, loom))]
mod model {
    use loom::sync::{Arc, Notify};
    use loom::thread;

    use super::*;

    /// Who decides sleeps whenever it may, and ends once it has the last word: loom reports a
    /// deadlock if that is lost. What it reads is what one message said, or has a later `received`.
    fn the_last_word_is_found(words: u32) {
        let shared = Arc::new((FeedbackBoard::new(1), Notify::new()));
        let to = shared.clone();
        let id = WorkerId { index: 0, generation: 3 };
        let hears = thread::spawn(move || {
            let (board, notify) = &*to;
            let mut worker = board.hear(id);
            for number in 1..=words {
                let told =
                    WorkerCounts { sequence: number, received: number, settled: number, bound: 4 };
                if board.put(&mut worker, &told) == Put::Wakes {
                    notify.notify();
                }
            }
        });
        let (board, notify) = &*shared;
        let mut last = 0;
        while last < words {
            if board.has_news() {
                board.take(|place, generation, told| {
                    assert_eq!((place, generation), (0, 3));
                    assert!(told.sequence == told.settled && told.received >= told.settled);
                    assert!(told.sequence >= last);
                    last = told.sequence;
                    board.judge(id, last, true);
                });
            } else if board.doze() {
                notify.wait();
                board.rise();
            }
        }
        hears.join().expect("it ends");
    }

    #[test]
    fn board_loses_no_last_word_of_one() {
        loom::model(|| the_last_word_is_found(1));
    }

    #[test]
    fn board_loses_no_last_word_of_two() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| the_last_word_is_found(2));
    }
}
