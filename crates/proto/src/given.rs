//! Slots at the worker: the numbers that a router has given it, and which of them are settled
//! (RT19 to RT21). One value for each membership.
//!
//! The router numbers what it gives a worker, and the worker counts what it is done with. Each
//! number from 1 to the highest that has arrived is in one of three states:
//!
//! ```text
//!  not arrived: open hole ── arrives ──► held ── answered, rejected, … ──► settled
//!                   └── open for `hole`, below a probe, or 8192 below the highest ──► settled
//! ```
//!
//! Invariants: `settled + held + open holes = highest`, so each number is settled once and none is
//! lost, whatever the network does; no number that is settled is taken again. Nothing is allocated
//! after [`GivenNumbers::new`].

use core::time::Duration;
use std::collections::VecDeque;

use petasos_base::{ReplayWindow, Time, extend, replay_words};
use petasos_wire::{
    FAILED_MAX, GIVEN_NUMBERS, SETTLED_NUMBERS, TRANSMISSION_NUMBERS, WorkerCounts,
};

/// Given numbers have so many bits in packets (RT19).
const GIVEN_BITS: u32 = GIVEN_NUMBERS.trailing_zeros();
/// A number is new if it is above the highest by no more than the width, or an open hole (RT21).
type Window = ReplayWindow<{ replay_words(8192) }>;
/// The most that a worker can announce (W1).
const N_MAX: u16 = 4095;
/// Feedback is told at least so often (RT20).
const BEAT_MAX: Duration = Duration::from_secs(1);
/// A router that asks for more would keep the loop from sleeping.
const BEAT_MIN: Duration = Duration::from_millis(1);
/// Holes that have opened within this part of `hole` are written off together.
const MARKS_PER_HOLE: u32 = 8;
/// Enough, unless the loop was away for long.
const MARKS_MAX: usize = 16;

/// What the router tells a worker that joins (RT34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenTimes {
    /// A number that has not arrived is written off after this long.
    pub hole: Duration,
    /// Until feedback is repeated, at first. Taken as 1 ms to 1 s.
    pub beat: Duration,
}

/// A number whose request the worker has. It is to be settled whatever becomes of the request, once
/// ([`GivenNumbers::settle`]), in the membership in which it was taken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a number that is not settled keeps a slot for ever"]
pub struct GivenNumber(u64);

/// What a first packet's number is.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// A new one, of a request.
    Request(GivenNumber),
    /// A new one, of a probe: it is settled.
    Probe,
    /// One that has arrived before or was written off, or too far away: the packet is dropped.
    Old,
}

petasos_base::counters! {
    /// How often something has happened in a membership.
    pub struct GivenStats {
        /// Numbers that were taken with requests.
        requests,
        /// Numbers that were taken with probes.
        probes,
        /// Packets whose number was not new.
        old,
        /// Numbers that were settled since they had not arrived.
        written_off,
        /// Requests whose answer is a failure of the worker's own.
        failed,
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct GivenNumbers {
    /// Numbers that have arrived or were written off. It has seen 0, which is never given.
    window: Window,
    held: u64,
    settled: u64,
    /// No number up to this one is an open hole.
    closed: u64,
    /// Holes by age, the oldest first; both fields ascend.
    marks: VecDeque<Mark>,
    times: GivenTimes,
    n: u16,
    sequence: u64,
    /// Failed answers of which the router was not told.
    failed: u64,
    /// Something has happened that is told at the end of the turn.
    is_news: bool,
    /// When feedback is told without that, and how long after that again.
    beat_at: Time,
    beat_wait: Duration,
    stats: GivenStats,
}

/// All holes up to a number are written off at a time, unless they are closed before.
#[derive(Clone, Copy, Debug)]
struct Mark {
    through: u64,
    began_at: Time,
    due_at: Time,
}

impl GivenNumbers {
    /// A membership that begins now: nothing was given. The worker takes `n` at a time, at most
    /// 4095; with more it takes as many.
    pub fn new(now: Time, times: GivenTimes, n: u16) -> GivenNumbers {
        GivenNumbers::starting_at(now, times, n, 0)
    }

    /// One in which so many numbers were given and settled, and as often told: for tests of counts
    /// that wrap.
    #[doc(hidden)]
    pub fn starting_at(now: Time, times: GivenTimes, n: u16, count: u64) -> GivenNumbers {
        let times = GivenTimes { beat: times.beat.clamp(BEAT_MIN, BEAT_MAX), ..times };
        let mut window = Window::new();
        window.insert(count);
        GivenNumbers {
            window,
            held: 0,
            settled: count,
            closed: count,
            marks: VecDeque::with_capacity(MARKS_MAX),
            times,
            n: n.min(N_MAX),
            sequence: count,
            failed: 0,
            is_news: false,
            beat_at: now + times.beat,
            beat_wait: doubled(times.beat),
            stats: GivenStats::default(),
        }
    }

    /// Takes the number of a first packet that the router has sent (RT16, step 1):
    /// `packet_index`, modulo 2^20.
    #[inline]
    pub fn handle_given(&mut self, now: Time, packet_index: u32, is_probe: bool) -> Taken {
        let index = u64::from(packet_index % GIVEN_NUMBERS);
        let highest = self.highest();
        let number = extend(highest, index, GIVEN_BITS);
        if number > highest + Window::WIDTH || !self.window.is_new(number) {
            self.stats.old += 1;
            return Taken::Old;
        }
        if number > highest {
            self.rise(now, highest, number);
        }
        self.window.insert(number);
        // Something happens: feedback is repeated soon again.
        self.beat_wait = doubled(self.times.beat);
        self.beat_at = self.beat_at.min(now + self.times.beat);
        if is_probe {
            self.probed(number);
            return Taken::Probe;
        }
        self.held += 1;
        self.stats.requests += 1;
        Taken::Request(GivenNumber(number))
    }

    /// Opens the holes below a number that is the highest from now on.
    #[inline]
    fn rise(&mut self, now: Time, highest: u64, number: u64) {
        if number > highest + 1 {
            self.mark(now, number - 1);
        }
        // What the window forgets.
        if let Some(last) = number.checked_sub(Window::WIDTH) {
            self.write_off(last);
        }
    }

    #[cold]
    fn mark(&mut self, now: Time, through: u64) {
        let due_at = now + self.times.hole;
        let apart = self.times.hole / MARKS_PER_HOLE;
        let is_full = self.marks.len() == MARKS_MAX;
        match self.marks.back_mut() {
            Some(last) if is_full || now < last.began_at + apart => {
                (last.through, last.due_at) = (through, due_at);
            }
            _ => self.marks.push_back(Mark { through, began_at: now, due_at }),
        }
    }

    /// Nothing below a probe is waited for: it was sent later.
    #[cold]
    fn probed(&mut self, number: u64) {
        self.settled += 1;
        self.stats.probes += 1;
        self.is_news = true;
        self.write_off(number - 1);
        self.trim();
    }

    /// Settles the open holes up to a number that is no higher than the highest.
    fn write_off(&mut self, through: u64) {
        if through <= self.closed {
            return;
        }
        let holes = self.window.insert_all(self.closed + 1..=through);
        self.closed = through;
        self.settled += holes;
        self.stats.written_off += holes;
        self.is_news |= holes > 0;
    }

    fn trim(&mut self) {
        while self.marks.front().is_some_and(|mark| mark.through <= self.closed) {
            self.marks.pop_front();
        }
    }

    /// Settles a number: its request was answered or rejected, has lapsed or was released, or its
    /// packet was dropped although its number was new (RT21).
    #[inline]
    pub fn settle(&mut self, number: GivenNumber) {
        debug_assert!(number.0 <= self.highest() && self.held > 0, "{number:?} is another's");
        self.held -= 1;
        self.settled += 1;
        self.is_news = true;
    }

    /// Counts an answer that is a failure of the worker's own: the router is told with the next
    /// feedback.
    #[cold]
    pub fn count_failure(&mut self) {
        self.failed += 1;
        self.stats.failed += 1;
        self.is_news = true;
    }

    /// The failures that are told with the feedback that was just polled: with more, the others go
    /// with the next one.
    #[inline]
    pub fn take_failed(&mut self) -> u8 {
        let told = self.failed.min(FAILED_MAX.into());
        self.failed -= told;
        self.is_news |= self.failed > 0;
        told as u8
    }

    /// Sets how many the worker takes at a time, at most 4095; with more it takes as many. 0: it
    /// drains.
    pub fn set_n(&mut self, n: u16) {
        let n = n.min(N_MAX);
        self.is_news |= n != self.n;
        self.n = n;
    }

    /// Writes holes off that have been open for long enough. To be called in each turn, or at
    /// [`GivenNumbers::next_timeout`].
    #[inline]
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(mark) = self.marks.front().filter(|mark| now >= mark.due_at) {
            self.write_off(mark.through);
            self.marks.pop_front();
        }
    }

    /// Feedback to be sent now, at most one at the end of a turn.
    #[inline]
    pub fn poll_feedback(&mut self, now: Time) -> Option<WorkerCounts> {
        if !self.is_news && now < self.beat_at {
            return None;
        }
        let is_news = core::mem::take(&mut self.is_news);
        let wait = if is_news { self.times.beat } else { self.beat_wait };
        self.beat_at = now + wait;
        self.beat_wait = doubled(wait);
        self.sequence += 1;
        Some(WorkerCounts {
            sequence: low(self.sequence, TRANSMISSION_NUMBERS),
            received: low(self.highest(), GIVEN_NUMBERS),
            settled: low(self.settled, SETTLED_NUMBERS),
            bound: self.n,
        })
    }

    /// When [`GivenNumbers::handle_timeout`] or [`GivenNumbers::poll_feedback`] has something to
    /// do, unless there is other input before.
    pub fn next_timeout(&self) -> Time {
        self.marks.front().map_or(self.beat_at, |mark| mark.due_at.min(self.beat_at))
    }

    /// How many requests the worker has that are not settled.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Numbers that are missing and may still come.
    pub fn open_holes(&self) -> u64 {
        self.highest() - self.settled - self.held
    }

    /// How many the worker takes at a time.
    pub fn n(&self) -> u16 {
        self.n
    }

    /// How often something has happened.
    pub fn stats(&self) -> &GivenStats {
        &self.stats
    }

    #[inline]
    fn highest(&self) -> u64 {
        self.window.next() - 1
    }
}

fn doubled(wait: Duration) -> Duration {
    (wait * 2).min(BEAT_MAX)
}

#[inline]
fn low(count: u64, numbers: u32) -> u32 {
    (count % u64::from(numbers)) as u32
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
