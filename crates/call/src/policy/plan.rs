//! The attempts of one call under its policy: a state machine without clock or randomness.

use core::time::Duration;

use petasos_base::{Rng, Time};

use super::{Attempts, CodeSet, MethodPolicy, RetryBudget, RetryPolicy};
use crate::{Code, Failure, Metadata, RETRY_PUSHBACK, Retry};

/// The most transparent retries of a call, whose request has certainly not run. A6 sets no bound.
/// This one ends calls without a deadline to a server that rejects everything, unless they wait for
/// a server that is there ([`CallPlan::waiting`]).
pub const TRANSPARENT_MAX: u32 = 16;

/// What the end of an attempt says about the request (R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server answered with a success or the application's status.
    Answered,
    /// The request has certainly not run: R12's "yes".
    NotRun,
    /// The attempt failed below the application, and the request may have run: R12's "by policy".
    Unknown,
    /// A retry would fail again, or nobody wants it: R12's "no".
    Final,
}

impl From<Retry> for Fate {
    fn from(retry: Retry) -> Fate {
        match retry {
            Retry::Never => Fate::Final,
            Retry::Policy => Fate::Unknown,
            Retry::Safe | Retry::Elsewhere => Fate::NotRun,
        }
    }
}

/// A server's request about retries: gRPC's `grpc-retry-pushback-ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pushback {
    /// The server did not say anything.
    #[default]
    Unsaid,
    /// Retry after this time.
    After(Duration),
    /// Do not retry.
    Never,
}

impl Pushback {
    /// The pushback in a status's metadata.
    pub fn of(metadata: &Metadata) -> Pushback {
        metadata.get(RETRY_PUSHBACK).map_or(Pushback::Unsaid, Pushback::parse)
    }

    /// Parses the metadata's value: milliseconds as a signed 32-bit number. Anything else means
    /// "never" (A6).
    pub fn parse(value: &str) -> Pushback {
        let plain = value == "0" || !value.starts_with(['0', '+']);
        let millis = value.parse::<i32>().ok().filter(|_| plain);
        match millis.and_then(|millis| u64::try_from(millis).ok()) {
            Some(millis) => Pushback::After(Duration::from_millis(millis)),
            None => Pushback::Never,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The status code.
    pub code: Code,
    /// What the end says about the request.
    pub fate: Fate,
    /// The server's pushback.
    pub pushback: Pushback,
}

impl AttemptEnd {
    /// The server answered with this code.
    pub const fn answered(code: Code) -> AttemptEnd {
        AttemptEnd { code, fate: Fate::Answered, pushback: Pushback::Unsaid }
    }
}

impl From<Failure> for AttemptEnd {
    fn from(failure: Failure) -> AttemptEnd {
        let fate = failure.retry().into();
        AttemptEnd { code: failure.code(), fate, pushback: Pushback::Unsaid }
    }
}

/// The driver's next step for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send an attempt now, and poll again.
    Send,
    /// Wait until then, or until an attempt ends.
    Wait(Time),
    /// The call ends with the outcome that was held last. No attempt is under way.
    GiveUp,
    /// The call ends with `DEADLINE_EXCEEDED`, and the attempts under way are cancelled.
    Expired,
}

/// What the end of an attempt means for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the call's outcome; attempts under way are cancelled.
    Deliver,
    /// The call continues. Keep the outcome in case [`Step::GiveUp`] follows.
    Hold,
}

/// Applies a policy to one call. [`CallPlan::poll`] returns the next step until the call is over.
#[derive(Clone, Debug)]
pub struct CallPlan {
    deadline: Time,
    /// When the next attempt is due; [`Time::NEVER`] if none is planned.
    next_at: Time,
    /// Attempts sent, except those that have certainly not run; at most the policy's maximum.
    started: u32,
    under_way: u32,
    /// The exponent of the next backoff; a server's pushback resets it to 0.
    retries: u32,
    transparent: u32,
    idempotent: bool,
    waits_for_ready: bool,
    over: bool,
}

impl CallPlan {
    /// A call that may start at `now`. `deadline` is [`Time::NEVER`] for none; the caller must have
    /// applied [`MethodPolicy::timeout`]. All methods of this type must get the same policy.
    pub fn new(idempotent: bool, deadline: Time, now: Time) -> CallPlan {
        CallPlan {
            deadline,
            next_at: now,
            started: 0,
            under_way: 0,
            retries: 0,
            transparent: 0,
            idempotent,
            waits_for_ready: false,
            over: false,
        }
    }

    /// The same call, if it waits for a server as long as its deadline allows (gRPC's "wait for
    /// ready"): `UNAVAILABLE` of what has certainly not run never ends it.
    pub fn waiting(self, waits_for_ready: bool) -> CallPlan {
        CallPlan { waits_for_ready, ..self }
    }

    /// The call's deadline.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The number of attempts before the next one, for `grpc-previous-rpc-attempts`.
    pub fn attempts(&self) -> u32 {
        self.started
    }

    /// The next step at `now`.
    pub fn poll(&mut self, policy: &MethodPolicy, budget: &RetryBudget, now: Time) -> Step {
        if self.over {
            return Step::Wait(Time::NEVER);
        }
        if now >= self.deadline {
            self.over = true;
            return Step::Expired;
        }
        if now < self.next_at {
            return Step::Wait(self.next_at.min(self.deadline));
        }
        if self.is_denied(policy, budget) {
            self.next_at = Time::NEVER;
            self.over = self.under_way == 0;
            return if self.over { Step::GiveUp } else { Step::Wait(self.deadline) };
        }
        self.start(policy, now);
        Step::Send
    }

    /// Handles the end of an attempt. Ends after the call is over are ignored (held).
    pub fn handle_end(
        &mut self,
        policy: &MethodPolicy,
        end: AttemptEnd,
        budget: &mut RetryBudget,
        now: Time,
        rng: &mut Rng,
    ) -> Verdict {
        if self.over {
            return Verdict::Hold;
        }
        self.under_way = self.under_way.checked_sub(1).expect("an attempt ends once");
        let goes_on = self.goes_on(policy, end, budget, now, rng);
        self.over = !goes_on || self.under_way == 0 && self.next_at >= self.deadline;
        if self.over { Verdict::Deliver } else { Verdict::Hold }
    }

    fn start(&mut self, policy: &MethodPolicy, now: Time) {
        self.started += 1;
        self.under_way += 1;
        self.next_at = match &policy.attempts {
            Attempts::Hedge(hedge) if self.started < self.attempts_max(policy) => now + hedge.delay,
            _ => Time::NEVER,
        };
    }

    /// Hedged attempts beyond the first need a token when they are sent (A6).
    fn is_denied(&self, policy: &MethodPolicy, budget: &RetryBudget) -> bool {
        matches!(policy.attempts, Attempts::Hedge(_)) && self.started > 0 && !budget.allows()
    }

    fn attempts_max(&self, policy: &MethodPolicy) -> u32 {
        match &policy.attempts {
            Attempts::Retry(retry) => retry.attempts_max,
            Attempts::Hedge(hedge) if self.idempotent => hedge.attempts_max,
            Attempts::Hedge(_) | Attempts::Once => 1,
        }
    }

    /// Whether the call may still succeed after `end`. Sets when its next attempt is due.
    fn goes_on(
        &mut self,
        policy: &MethodPolicy,
        end: AttemptEnd,
        budget: &mut RetryBudget,
        now: Time,
        rng: &mut Rng,
    ) -> bool {
        if end.code == Code::Ok {
            budget.on_success();
            return false;
        }
        let waits = self.waits_for_ready && end.code == Code::Unavailable;
        if end.fate == Fate::NotRun && (self.transparent < TRANSPARENT_MAX || waits) {
            self.send_again(now, rng);
            return true;
        }
        let names = self.names(policy, end);
        if names || end.pushback == Pushback::Never {
            budget.on_failure();
        }
        if !names || end.fate == Fate::Final {
            return false;
        }
        match &policy.attempts {
            Attempts::Once => false,
            Attempts::Retry(retry) => self.retry(retry, end.pushback, budget, now, rng),
            Attempts::Hedge(hedge) => {
                self.hedge(hedge.attempts_max, end.pushback, budget, now);
                true
            }
        }
    }

    /// Whether the policy allows another attempt after this failure (R12).
    fn names(&self, policy: &MethodPolicy, end: AttemptEnd) -> bool {
        let below = self.idempotent && matches!(end.fate, Fate::Unknown | Fate::NotRun);
        let named = |codes: CodeSet| codes.contains(end.code) || below;
        match &policy.attempts {
            Attempts::Once => false,
            Attempts::Retry(retry) => named(retry.statuses),
            Attempts::Hedge(hedge) => self.idempotent && named(hedge.non_fatal),
        }
    }

    /// Plans a transparent retry, which does not count as an attempt. The first one is due at once
    /// (A6, "Transparent Retries"), later ones after growing waits, so that a server that rejects
    /// is not flooded.
    fn send_again(&mut self, now: Time, rng: &mut Rng) {
        let wait = match self.transparent {
            0 => Duration::ZERO,
            step => jittered(Duration::from_millis(1 << step.min(10)), rng),
        };
        self.transparent = self.transparent.saturating_add(1);
        self.started -= 1;
        self.next_at = self.next_at.min(now + wait);
    }

    fn retry(
        &mut self,
        policy: &RetryPolicy,
        pushback: Pushback,
        budget: &RetryBudget,
        now: Time,
        rng: &mut Rng,
    ) -> bool {
        if self.started >= policy.attempts_max || !budget.allows() {
            return false;
        }
        let wait = match pushback {
            Pushback::Never => return false,
            Pushback::After(wait) => {
                self.retries = 0;
                wait
            }
            Pushback::Unsaid => {
                self.retries += 1;
                jittered(policy.backoff(self.retries - 1), rng)
            }
        };
        self.next_at = now + wait;
        // Waiting past the deadline would only replace this status with a less specific one.
        self.next_at < self.deadline
    }

    fn hedge(&mut self, attempts_max: u32, pushback: Pushback, budget: &RetryBudget, now: Time) {
        self.next_at = match pushback {
            _ if self.started >= attempts_max || !budget.allows() => Time::NEVER,
            Pushback::Never => Time::NEVER,
            Pushback::After(wait) => now + wait,
            Pushback::Unsaid => now,
        };
        if pushback == Pushback::Never {
            // No hedge is sent later either, whatever the results of the attempts under way are.
            self.started = self.started.max(attempts_max);
        }
    }
}

/// `wait` times a random factor from 0.8 to 1.2, as in gRPC's backoff.
pub(crate) fn jittered(wait: Duration, rng: &mut Rng) -> Duration {
    let nanos = wait.as_nanos().saturating_mul(u128::from(800_000 + rng.below(400_001)));
    Duration::from_nanos(u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX))
}
