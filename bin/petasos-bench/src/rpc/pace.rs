//! What callers of any system do around their calls: count them, time some, and end with the turn.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{SystemClock, Time};

use super::phase::Turn;

/// Of a window of calls one in so many is timed, since reading the clock twice takes as long as a
/// fifth of a fast call. It is also how often each caller looks for the turn's end; they do so one
/// after the other, so that some caller looks soon enough.
const SAMPLE: u64 = 32;

/// The end of a turn, shared by all callers.
#[derive(Clone)]
pub struct Pace {
    clock: SystemClock,
    begun: Time,
    ends: Time,
    over: Arc<AtomicBool>,
    sample: u64,
    /// After how many calls the next caller looks first.
    first: Cell<u64>,
}

/// One caller's count.
pub struct Meter {
    pace: Pace,
    completed: u64,
    /// Calls until one is timed.
    untimed: u64,
    /// When the call under way was begun, if it is timed.
    begun: Option<Time>,
    sampled_ns: Vec<u64>,
}

/// What one caller counted.
pub struct Count {
    completed: u64,
    ended: Time,
    sampled_ns: Vec<u64>,
}

impl Pace {
    /// A turn that begins now, of so many callers.
    pub fn new(duration: Duration, callers: usize) -> Pace {
        let clock = SystemClock::default();
        let begun = clock.now();
        let over = Arc::new(AtomicBool::new(false));
        let sample = if callers == 1 { 1 } else { SAMPLE };
        Pace { ends: begun + duration, clock, begun, over, sample, first: Cell::new(0) }
    }

    /// The count of one caller, who has done nothing yet.
    pub fn meter(&self) -> Meter {
        let untimed = self.first.replace((self.first.get() + 1) % self.sample);
        let (begun, sampled_ns) = (None, Vec::new());
        Meter { pace: self.clone(), completed: 0, untimed, begun, sampled_ns }
    }

    /// What all callers did.
    pub fn turn(&self, counts: impl IntoIterator<Item = Count>) -> Turn {
        let mut turn = Turn::default();
        let mut ended = self.begun;
        for count in counts {
            turn.completed += count.completed;
            ended = ended.max(count.ended);
            count.sampled_ns.iter().for_each(|nanos| turn.latency.record_ns(*nanos));
        }
        turn.elapsed_s = ended.nanos_since(self.begun) as f64 / 1e9;
        turn
    }
}

impl Meter {
    /// Whether to make another call, which begins now.
    #[inline]
    pub fn goes_on(&mut self) -> bool {
        if self.untimed == 0 {
            self.untimed = self.pace.sample;
            let now = self.pace.clock.now();
            if now >= self.pace.ends {
                self.pace.over.store(true, Ordering::Relaxed);
            }
            self.begun = Some(now);
        }
        self.untimed -= 1;
        !self.pace.over.load(Ordering::Relaxed)
    }

    /// The call has ended, with so many bytes of payload.
    ///
    /// # Errors
    /// If these are not as many as were asked for.
    #[inline]
    pub fn ended(&mut self, bytes: usize, wanted_bytes: u32) -> Result<(), String> {
        if bytes != wanted_bytes as usize {
            return Err(format!("a response of {bytes} bytes, not {wanted_bytes}"));
        }
        self.completed += 1;
        if let Some(begun) = self.begun.take() {
            self.sampled_ns.push(self.pace.clock.now().nanos_since(begun));
        }
        Ok(())
    }

    /// What was begun is not waited for.
    #[inline]
    pub fn passed(&mut self) {
        self.completed += 1;
    }

    /// The turn is over.
    pub fn count(self) -> Count {
        let ended = self.pace.clock.now();
        Count { completed: self.completed, ended, sampled_ns: self.sampled_ns }
    }
}
