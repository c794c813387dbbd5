//! A closed loop: as many requests are always outstanding, and each answer is followed by the next
//! request.
//!
//! It shows the time of one request at a time, and the rate that a target can take. It does not
//! show the tail under load: it does not send while the target stalls (see the crate's
//! documentation).

use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_report::Histogram;

use crate::generator::RunError;
use crate::outstanding::{Outstanding, Request};
use crate::refusal::Refusal;
use crate::target::{Answers, Target};

/// How long answers are waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to sleep at once.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// What a closed loop has measured.
#[derive(Debug)]
pub struct Closed {
    /// From sending to the answer.
    pub latencies: Histogram,
    /// How many requests were answered in `elapsed`.
    pub answered: u64,
    /// From the first request to the last answer that counts.
    pub elapsed: Duration,
}

impl Closed {
    /// Answers per second.
    pub fn ops_per_s(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Keeps `outstanding` requests, or as many as the target takes, outstanding for `duration`. With
/// `spins` it looks for answers all the time, otherwise it sleeps until there may be some.
///
/// # Errors
/// If the target is lost, a request fails, or answers do not come.
pub fn closed_loop(
    target: &mut dyn Target,
    clock: &Clock,
    outstanding: usize,
    duration: Duration,
    spins: bool,
) -> Result<Closed, RunError> {
    let mut slots = Outstanding::new(outstanding.min(target.outstanding_max()));
    let mut answers = Answers::new(clock);
    let (mut latencies, begun) = (Histogram::new(), clock.now());
    let (end, mut last) = (begun + duration, begun);
    let mut now = begun;
    while now < end || slots.count() > 0 {
        while now < end
            && let Some(slot) = slots.take(Request { due: clock.now(), number: None })
        {
            target.send(slot)?;
        }
        target.poll(&mut answers)?;
        let mut is_idle = true;
        for answer in answers.drain() {
            is_idle = false;
            let request = slots.give(answer.slot).expect("targets answer what was sent, once");
            answer.result.map_err(|reason| Refusal::Failing { failed: 1, sent: 1, reason })?;
            latencies.record_ns(answer.at.nanos_since(request.due));
            last = answer.at;
        }
        now = clock.now();
        if is_idle {
            wait(target, (now, last), slots.count(), spins)?;
        }
    }
    Ok(Closed { answered: latencies.count(), latencies, elapsed: last - begun })
}

fn wait(
    target: &mut dyn Target,
    (now, last): (Time, Time),
    count: usize,
    spins: bool,
) -> Result<(), RunError> {
    if now - last > ANSWER_TIMEOUT {
        return Err(Refusal::Unanswered { count, timeout: ANSWER_TIMEOUT }.into());
    }
    if !spins {
        target.wait(SLEEP_MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetError;

    /// Answers at the next poll but one.
    #[derive(Default)]
    struct Echo {
        sent: Vec<u32>,
        ready: Vec<u32>,
        most: usize,
        fails: bool,
    }

    impl Target for Echo {
        fn outstanding_max(&self) -> usize {
            8
        }

        fn send(&mut self, slot: u32) -> Result<(), TargetError> {
            self.sent.push(slot);
            self.most = self.most.max(self.sent.len() + self.ready.len());
            Ok(())
        }

        fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
            let result = if self.fails { Err("no".to_owned()) } else { Ok(()) };
            self.ready.drain(..).for_each(|slot| answers.push(slot, result.clone()));
            core::mem::swap(&mut self.sent, &mut self.ready);
            Ok(())
        }

        fn wait(&mut self, _: Duration) {}
    }

    #[test]
    fn as_many_as_asked_are_outstanding_and_all_are_answered() {
        for (outstanding, most) in [(1, 1), (3, 3), (100, 8)] {
            let mut echo = Echo::default();
            let clock = Clock::system();
            let duration = Duration::from_millis(5);
            let closed = closed_loop(&mut echo, &clock, outstanding, duration, false);
            let closed = closed.expect("nothing fails");
            assert_eq!((echo.most, echo.sent.len() + echo.ready.len()), (most, 0));
            assert_eq!(closed.answered, closed.latencies.count());
            assert!(closed.answered > 0 && closed.ops_per_s() > 0.0);
        }
    }

    #[test]
    fn a_failed_request_ends_it() {
        let mut echo = Echo { fails: true, ..Echo::default() };
        let end = closed_loop(&mut echo, &Clock::system(), 1, Duration::from_secs(9), true);
        assert!(matches!(end, Err(RunError::Refused(Refusal::Failing { .. }))), "{end:?}");
    }
}
