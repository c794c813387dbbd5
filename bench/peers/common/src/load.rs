//! The closed loop of one turn: calls are begun until the time is up, and each response is checked.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::histogram::Histogram;
use crate::lines::Phase;
use crate::options::Options;
use crate::payloads::Payloads;

/// In a window of calls, one in this many is timed and checked byte for byte, as in Petasos's own
/// measurement: two readings of the clock are a large part of a fast call.
const SAMPLE: u64 = 32;

/// One turn.
pub struct Load {
    window: usize,
    sample: u64,
    begun: Instant,
    duration: Duration,
    is_over: bool,
    next: u64,
    completed: u64,
    latency: Histogram,
}

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The number that its request carries.
    pub number: u64,
    begun: Option<Instant>,
}

impl Load {
    /// A turn that begins now.
    pub fn new(options: &Options, phase: Phase, duration: Duration) -> Load {
        let window = if phase == Phase::Window { options.window } else { 1 };
        Load {
            window,
            sample: if window == 1 { 1 } else { SAMPLE },
            begun: Instant::now(),
            duration,
            is_over: false,
            next: 0,
            completed: 0,
            latency: Histogram::default(),
        }
    }

    /// Calls that are outstanding at once.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The next call, which begins now; `None` once the time is up.
    pub fn begin(&mut self) -> Option<Call> {
        if self.is_over {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let begun = number.is_multiple_of(self.sample).then(Instant::now);
        if begun.is_some_and(|now| now - self.begun >= self.duration) {
            self.is_over = true;
            return None;
        }
        Some(Call { number, begun })
    }

    /// Notes that the call was answered.
    ///
    /// # Errors
    /// If the response is wrong.
    pub fn end(&mut self, payloads: &Payloads, call: Call, response: &[u8]) -> Result<(), Error> {
        payloads.check(call.number, response, call.begun.is_some())?;
        self.completed += 1;
        if let Some(begun) = call.begun {
            self.latency.record_ns(begun.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// The result of the turn for the parent. All its calls have ended.
    pub fn done(&self) -> String {
        let (completed, elapsed_s) = (self.completed, self.begun.elapsed().as_secs_f64());
        let latency = self.latency.json();
        format!(r#"done {{"completed":{completed},"elapsed_s":{elapsed_s},"latency":{latency}}}"#)
    }
}
