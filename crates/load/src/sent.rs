//! The times at which requests were sent, as far as they are checked.

use petasos_base::Time;

use crate::checks::{Checks, rate_error};

/// Gaps in a row.
const STRETCH: u64 = 1000;
const STRETCHES: u64 = 10;

/// The first and last time, and those of stretches that are spread over the run.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Requests from the start of one stretch to that of the next.
    stride: u64,
    /// Times of a stretch.
    stretch: u64,
    stretches: Vec<Vec<Time>>,
    count: u64,
    ends: Option<Ends>,
}

/// When the first and the last request were due and sent.
#[derive(Clone, Copy, Debug)]
struct Ends {
    due: (Time, Time),
    sent: (Time, Time),
}

impl Sent {
    /// For `count` requests.
    pub(crate) fn new(count: u64) -> Sent {
        let all = count <= STRETCHES * (STRETCH + 1);
        let (stride, stretch) =
            if all { (count.max(1), count) } else { (count.div_ceil(STRETCHES), STRETCH + 1) };
        Sent { stride, stretch, stretches: Vec::new(), count: 0, ends: None }
    }

    /// The next request was due and sent at these times.
    #[inline]
    pub(crate) fn push(&mut self, due: Time, sent: Time) {
        let place = self.count % self.stride;
        self.count += 1;
        if place < self.stretch {
            if place == 0 {
                self.stretches.push(Vec::with_capacity(self.stretch as usize));
            }
            self.stretches.last_mut().expect("the first of a stretch opens it").push(sent);
        }
        let ends = self.ends.get_or_insert(Ends { due: (due, due), sent: (sent, sent) });
        (ends.due.1, ends.sent.1) = (due, sent);
    }

    /// When the first request was due.
    pub(crate) fn first_due(&self) -> Option<Time> {
        self.ends.map(|ends| ends.due.0)
    }

    /// Checks the times.
    pub(crate) fn checks(&self, is_poisson: bool) -> Checks {
        let nanos = |(first, last): (Time, Time)| (first.as_nanos(), last.as_nanos());
        let error =
            self.ends.map_or(0.0, |ends| rate_error(self.count, nanos(ends.sent), nanos(ends.due)));
        if !is_poisson {
            return Checks::of_rate(error);
        }
        Checks::of_poisson(error, &self.gaps())
    }

    fn gaps(&self) -> Vec<Vec<u64>> {
        let gaps = |times: &Vec<Time>| {
            times.windows(2).map(|pair| pair[1].nanos_since(pair[0])).collect::<Vec<_>>()
        };
        self.stretches.iter().map(gaps).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> Sent {
        let mut sent = Sent::new(count);
        // The gap after request n is n.
        (0..count).for_each(|n| sent.push(Time::ZERO, Time::from_nanos(n * (n + 1) / 2)));
        sent
    }

    #[test]
    fn few_times_are_all_kept() {
        let gaps = filled(5000).gaps();
        assert_eq!(gaps, [(1..5000).collect::<Vec<u64>>()]);
        assert!(filled(0).gaps().is_empty() && filled(1).gaps()[0].is_empty());
    }

    #[test]
    fn of_many_there_are_stretches_over_the_whole_run() {
        let gaps = filled(200_005).gaps();
        assert_eq!(gaps.len(), 10);
        for (index, stretch) in (0..10u64).zip(&gaps) {
            let first = index * 20_001 + 1;
            assert_eq!(*stretch, (first..first + 1000).collect::<Vec<u64>>());
        }
    }
}
