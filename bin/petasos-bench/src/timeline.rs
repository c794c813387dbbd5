//! How many calls ended in each millisecond of a turn.

use std::time::Duration;

use petasos_base::Time;
use petasos_report::median;

const BUCKET_NS: u64 = 1_000_000;
/// Rates are averaged over this many milliseconds. A single millisecond may be a gap or a burst,
/// because the kernel and other guests of the machine interrupt.
const WINDOW_MS: usize = 10;

/// Completed calls per millisecond, on the client's clock.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Time,
    /// Calls that ended in each millisecond since `start`. Later ones are not counted.
    per_ms: Vec<u32>,
}

impl Timeline {
    /// A timeline of `duration` from `start`. It allocates all memory now.
    pub fn new(start: Time, duration: Duration) -> Timeline {
        Timeline { start, per_ms: vec![0; duration.as_millis() as usize] }
    }

    /// Counts a call that ended at `at`.
    #[inline]
    pub fn note(&mut self, at: Time) {
        let bucket = at.nanos_since(self.start) / BUCKET_NS;
        if let Some(calls) = self.per_ms.get_mut(bucket as usize) {
            *calls += 1;
        }
    }

    /// The median rate of the windows, in calls per millisecond; `None` if there is no complete
    /// window.
    pub fn typical_per_ms(&self) -> Option<f64> {
        median(self.per_ms.chunks_exact(WINDOW_MS).map(per_ms))
    }

    /// The mean rate before `end`, in calls per millisecond; `None` if `end` is the start.
    pub fn mean_per_ms_before(&self, end: Time) -> Option<f64> {
        let before = &self.per_ms[..self.bucket(end)];
        (!before.is_empty()).then(|| per_ms(before))
    }

    /// The number of milliseconds from `from` to the first window whose rate is at least
    /// `goal_per_ms`; `None` if there is none. A window that begins in the same millisecond as
    /// `from` counts as 0.
    pub fn reaches_after_ms(&self, from: Time, goal_per_ms: f64) -> Option<usize> {
        let after = &self.per_ms[self.bucket(from)..];
        after.windows(WINDOW_MS).position(|window| per_ms(window) >= goal_per_ms)
    }

    /// The bucket of `at`, limited to the end.
    fn bucket(&self, at: Time) -> usize {
        let bucket = at.nanos_since(self.start) / BUCKET_NS;
        (bucket as usize).min(self.per_ms.len())
    }
}

fn per_ms(calls: &[u32]) -> f64 {
    calls.iter().map(|calls| f64::from(*calls)).sum::<f64>() / calls.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::from_nanos(7_000_000_000 + ms * BUCKET_NS)
    }

    /// Calls per millisecond as (milliseconds, calls in each).
    fn timeline(spans: &[(u64, u32)]) -> Timeline {
        let total_ms = spans.iter().map(|(ms, _)| ms).sum();
        let mut timeline = Timeline::new(at_ms(0), Duration::from_millis(total_ms));
        let mut ms = 0;
        for (length_ms, calls) in spans {
            for _ in 0..*length_ms {
                (0..*calls)
                    .for_each(|call| timeline.note(at_ms(ms) + Duration::from_nanos(call.into())));
                ms += 1;
            }
        }
        timeline
    }

    #[test]
    fn a_gap_does_not_change_the_typical_rate() {
        assert_eq!(timeline(&[(40, 8), (20, 0), (40, 8)]).typical_per_ms(), Some(8.0));
        assert_eq!(timeline(&[(9, 8)]).typical_per_ms(), None);
    }

    #[test]
    fn the_rate_is_back_where_a_whole_window_has_it() {
        let timeline = timeline(&[(100, 1), (30, 2), (1, 99), (19, 0), (50, 10)]);
        // A burst of one millisecond is 9.9 calls per millisecond of its window, and not 10.
        assert_eq!(timeline.reaches_after_ms(at_ms(100), 20.0), None);
        assert_eq!(timeline.reaches_after_ms(at_ms(100), 10.0), Some(21));
        assert_eq!(timeline.reaches_after_ms(at_ms(140), 10.0), Some(10));
        assert_eq!(timeline.reaches_after_ms(at_ms(150), 10.0), Some(0));
        assert_eq!(timeline.reaches_after_ms(at_ms(195), 10.0), None, "less than a window is left");
        assert_eq!(timeline.mean_per_ms_before(at_ms(100)), Some(1.0));
        assert_eq!(timeline.mean_per_ms_before(at_ms(0)), None);
    }

    #[test]
    fn what_lies_beyond_the_end_is_not_counted() {
        let mut timeline = timeline(&[(20, 1)]);
        timeline.note(at_ms(20));
        timeline.note(at_ms(1_000_000));
        assert_eq!(timeline.mean_per_ms_before(at_ms(1_000_000)), Some(1.0));
        assert_eq!(timeline.reaches_after_ms(at_ms(1_000_000), 1.0), None);
    }
}
