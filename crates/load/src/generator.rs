//! Follows a schedule in one thread.
//!
//! Between requests the generator polls the target. If the next request is not due for a while, it
//! sleeps until shortly before, because the kernel wakes it up late by some 50 µs and more (timer
//! slack, and the scheduler), and polls without sleeping for the rest ([`Limits::spin`]). Above a
//! rate of one request per `spin` it never sleeps, and needs a processor of its own: on a machine
//! with two, the other one is left for a target on the same machine; with one there should be no
//! spinning.
//!
//! A request is sent at its time whatever else is outstanding. If that cannot be done, because the
//! generator is late or has no room for another outstanding request, the run ends: what it would
//! report is not what was asked for.

use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_report::Histogram;

use crate::arrivals::Schedule;
use crate::latencies::Latencies;
use crate::outcome::{Lag, Outcome, Run};
use crate::outstanding::{Outstanding, Request};
use crate::refusal::Refusal;
use crate::sent::Sent;
use crate::target::{Answers, Target, TargetError};

/// While it is late, the generator polls after so many requests.
const LATE_POLL: u32 = 16;
/// While it waits for nothing but answers, it sleeps no longer.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// A generator that is so late has no chance, whatever the bound.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// Times that progress is reported.
const STEPS: u64 = 64;

/// What is sent.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sent first, and not counted: connections and caches are as they will be.
    pub warm_up: Option<Schedule>,
    /// What counts.
    pub measured: Schedule,
}

/// When a run is refused, and how the generator waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How many requests may be outstanding at once.
    pub outstanding_max: usize,
    /// The most that the 99th percentile of requests may be sent late.
    pub lag_max: Duration,
    /// How long answers are waited for after the last request.
    pub answer_timeout: Duration,
    /// The part of requests that may fail.
    pub failures_max: f64,
    /// How long the generator spins before a request is due.
    pub spin: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            outstanding_max: 4096,
            lag_max: Duration::from_millis(1),
            answer_timeout: Duration::from_secs(5),
            failures_max: 0.01,
            spin: Duration::from_micros(100),
        }
    }
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The target is lost.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The run would measure something else.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Sends one request and waits for its answer, to see whether there will be any.
///
/// # Errors
/// If it fails, or is not answered in time.
pub fn probe(target: &mut dyn Target, clock: &Clock, limits: &Limits) -> Result<(), RunError> {
    let limits = Limits { failures_max: 0.0, outstanding_max: 1, ..limits.clone() };
    let mut generator = Generator::new(target, clock, &limits, 0);
    generator.send(Request { due: clock.now(), number: None })?;
    generator.drain().map_err(|error| match error {
        RunError::Refused(Refusal::Failing { reason, .. }) => {
            TargetError(format!("the first request failed: {reason}")).into()
        }
        RunError::Refused(Refusal::Unanswered { timeout, .. }) => {
            TargetError(format!("the first request had no answer in {timeout:?}")).into()
        }
        error => error,
    })
}

/// Sends what is planned, and measures. `progress` is told now and then how many requests were
/// sent.
///
/// # Errors
/// If the target is lost, or a run has to end before there is an outcome.
pub fn run(
    target: &mut dyn Target,
    clock: &Clock,
    plan: Plan,
    limits: &Limits,
    progress: impl FnMut(u64),
) -> Result<Run, RunError> {
    if plan.measured.requests() == 0 {
        return Err(Refusal::Nothing.into());
    }
    let mut generator = Generator::new(target, clock, limits, plan.measured.requests());
    generator.follow(&plan, progress)?;
    generator.drain()?;
    Ok(Run::new(generator.outcome(&plan.measured), limits.lag_max))
}

struct Generator<'a> {
    target: &'a mut dyn Target,
    clock: &'a Clock,
    limits: &'a Limits,
    outstanding: Outstanding,
    answers: Answers,
    /// Requests since answers were taken.
    unpolled: u32,
    /// Requests in all that are to be sent, and that were.
    planned: u64,
    begun: u64,
    sent: Sent,
    lag: Histogram,
    latencies: Latencies,
    answered: u64,
    answered_at: Time,
    /// Of those that count, and of all.
    failed: u64,
    failed_in_all: u64,
    reason: Option<String>,
    load: u64,
}

impl<'a> Generator<'a> {
    fn new(target: &'a mut dyn Target, clock: &'a Clock, limits: &'a Limits, count: u64) -> Self {
        let outstanding = limits.outstanding_max.min(target.outstanding_max());
        Generator {
            target,
            clock,
            limits,
            outstanding: Outstanding::new(outstanding),
            answers: Answers::new(clock),
            unpolled: 0,
            planned: count,
            begun: 0,
            sent: Sent::new(count),
            lag: Histogram::new(),
            latencies: Latencies::new(count),
            answered: 0,
            answered_at: Time::ZERO,
            failed: 0,
            failed_in_all: 0,
            reason: None,
            load: 0,
        }
    }

    fn follow(&mut self, plan: &Plan, mut progress: impl FnMut(u64)) -> Result<(), RunError> {
        self.load = plan.measured.rate().round() as u64;
        let mut start = self.clock.now();
        if let Some(warm_up) = &plan.warm_up {
            self.planned += warm_up.requests();
            for due_ns in warm_up.clone() {
                self.send_at(start.plus_nanos(due_ns), None)?;
            }
            start = start.plus_nanos(warm_up.span_ns());
        }
        let step = self.planned.div_ceil(STEPS);
        for (number, due_ns) in (0..).zip(plan.measured.clone()) {
            self.send_at(start.plus_nanos(due_ns), Some(number))?;
            if number % step == 0 {
                progress(number);
            }
        }
        Ok(())
    }

    /// Sends a request when it is due.
    fn send_at(&mut self, due: Time, number: Option<u64>) -> Result<(), RunError> {
        self.wait_until(due)?;
        self.send(Request { due, number })
    }

    fn wait_until(&mut self, due: Time) -> Result<(), RunError> {
        if self.clock.now() >= due && self.unpolled < LATE_POLL {
            return Ok(());
        }
        loop {
            self.poll()?;
            let now = self.clock.now();
            if now >= due {
                return Ok(());
            }
            let rest = (due - now).saturating_sub(self.limits.spin);
            if !rest.is_zero() {
                self.target.wait(rest);
            }
        }
    }

    fn send(&mut self, request: Request) -> Result<(), RunError> {
        let slot = match self.outstanding.take(request) {
            Some(slot) => slot,
            None => self.slot_after_poll(request)?,
        };
        let now = self.clock.now();
        let late = now - request.due;
        if late > BEHIND_MAX.max(self.limits.lag_max) {
            return Err(Refusal::Behind(late).into());
        }
        if request.number.is_some() {
            self.sent.push(request.due, now);
            self.lag.record_ns(late.as_nanos() as u64);
        }
        self.begun += 1;
        self.unpolled += 1;
        Ok(self.target.send(slot)?)
    }

    /// A slot may be free if answers have come since they were last looked at.
    #[cold]
    fn slot_after_poll(&mut self, request: Request) -> Result<u32, RunError> {
        self.poll()?;
        let slot = self.outstanding.take(request);
        slot.ok_or_else(|| Refusal::Outstanding(self.outstanding.count(), self.load).into())
    }

    /// Waits for answers to all requests.
    fn drain(&mut self) -> Result<(), RunError> {
        let deadline = self.clock.now() + self.limits.answer_timeout;
        loop {
            self.poll()?;
            let now = self.clock.now();
            if self.outstanding.count() == 0 {
                return Ok(());
            }
            if now >= deadline {
                let (count, timeout) = (self.outstanding.count(), self.limits.answer_timeout);
                return Err(Refusal::Unanswered { count, timeout }.into());
            }
            self.target.wait((deadline - now).min(SLEEP_MAX));
        }
    }

    /// Takes the answers that have come.
    fn poll(&mut self) -> Result<(), RunError> {
        self.unpolled = 0;
        self.target.poll(&mut self.answers)?;
        for answer in self.answers.drain() {
            let Some(request) = self.outstanding.give(answer.slot) else {
                let what = format!("the target answered request {} twice", answer.slot);
                return Err(TargetError(what).into());
            };
            match (answer.result, request.number) {
                (Ok(()), Some(number)) => {
                    self.answered += 1;
                    self.answered_at = answer.at;
                    self.latencies.record(number, answer.at.nanos_since(request.due));
                }
                (Ok(()), None) => {}
                (Err(reason), number) => {
                    self.failed += u64::from(number.is_some());
                    self.failed_in_all += 1;
                    self.reason.get_or_insert(reason);
                }
            }
        }
        self.check_failures()
    }

    /// Ends the run once more have failed than may of all that are to be sent.
    fn check_failures(&mut self) -> Result<(), RunError> {
        let (failed, sent) = (self.failed_in_all, self.begun);
        match &self.reason {
            Some(reason) if failed as f64 > self.planned as f64 * self.limits.failures_max => {
                Err(Refusal::Failing { failed, sent, reason: reason.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    fn outcome(self, schedule: &Schedule) -> Outcome {
        let lag = |quantile| {
            let late_us = self.lag.quantile_us(quantile).unwrap_or_default();
            Duration::from_nanos((late_us * 1000.0) as u64)
        };
        let lag = Lag { p50: lag(0.5), p99: lag(0.99), max: lag(1.0) };
        // The last answer may come later, or the last request be due before the time is over.
        let span = self.sent.first_due().map_or(0, |first| self.answered_at.nanos_since(first));
        let span_ns = span.max(schedule.span_ns()).max(1);
        Outcome {
            load: schedule.rate(),
            ops_per_s: self.answered as f64 * 1e9 / span_ns as f64,
            latencies: self.latencies,
            checks: self.sent.checks(schedule.is_poisson()),
            lag,
            answered: self.answered,
            failed: self.failed,
            reason: self.reason,
        }
    }
}

#[cfg(test)]
mod tests;
