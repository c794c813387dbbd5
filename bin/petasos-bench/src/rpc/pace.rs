//! What callers of all systems do besides their calls: count them, time some, and check for the
//! turn's end.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{SystemClock, Time};

use super::phase::Turn;

/// In a window of calls, one of this many is timed, because reading the clock twice takes as long
/// as a fifth of a fast call. Each caller also checks for the turn's end this often. The callers
/// check at different calls, so that one of them notices the end soon.
const SAMPLE: u64 = 32;

/// The end of a turn, shared by all callers.
#[derive(Clone)]
pub struct Pace {
    clock: SystemClock,
    begun: Time,
    ends: Time,
    over: Arc<AtomicBool>,
    sample: u64,
    /// The number of calls until the next new caller's first check.
    first: Cell<u64>,
}

/// One caller's count.
pub struct Meter {
    pace: Pace,
    completed: u64,
    /// Calls until the next one that is timed.
    untimed: u64,
    /// When the current call started, if it is timed.
    begun: Option<Time>,
    sampled_ns: Vec<u64>,
}

/// The counts of one caller.
pub struct Count {
    completed: u64,
    ended: Time,
    sampled_ns: Vec<u64>,
}

impl Pace {
    /// Starts a turn of this many callers.
    pub fn new(duration: Duration, callers: usize) -> Pace {
        let clock = SystemClock::default();
        let begun = clock.now();
        let over = Arc::new(AtomicBool::new(false));
        let sample = if callers == 1 { 1 } else { SAMPLE };
        Pace { ends: begun + duration, clock, begun, over, sample, first: Cell::new(0) }
    }

    /// The meter for one caller.
    pub fn meter(&self) -> Meter {
        let untimed = self.first.replace((self.first.get() + 1) % self.sample);
        let (begun, sampled_ns) = (None, Vec::new());
        Meter { pace: self.clone(), completed: 0, untimed, begun, sampled_ns }
    }

    /// The total of all callers.
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
    /// Whether to make another call, which starts now.
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

    /// Records the end of a call with this many bytes of payload.
    ///
    /// # Errors
    /// If that is not the expected number of bytes.
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

    /// Counts a message without timing it.
    #[inline]
    pub fn passed(&mut self) {
        self.completed += 1;
    }

    /// The call was refused: it does not count.
    #[inline]
    pub fn refused(&mut self) {
        self.begun = None;
    }

    /// Returns the counts at the end of the turn.
    pub fn count(self) -> Count {
        let ended = self.pace.clock.now();
        Count { completed: self.completed, ended, sampled_ns: self.sampled_ns }
    }
}
