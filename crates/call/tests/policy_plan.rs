//! A call's way through its policy: gRFC A6's rules and R12 as tables, and what always holds.

use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_call::Code;
use petasos_call::policy::{
    AttemptEnd, Attempts, CallPlan, CodeSet, Fate, HedgePolicy, MethodPolicy, Pushback,
    RetryBudget, RetryPolicy, Step, TRANSPARENT_MAX, Throttling, Verdict,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * MS)
}

fn retry(attempts_max: u32) -> MethodPolicy {
    policy(Attempts::Retry(RetryPolicy {
        attempts_max,
        backoff_initial: Duration::from_millis(100),
        backoff_max: Duration::from_millis(300),
        backoff_multiplier: 2.0,
        statuses: CodeSet::EMPTY.with(Code::Unavailable),
    }))
}

fn hedge(attempts_max: u32, delay_ms: u64) -> MethodPolicy {
    let delay = Duration::from_millis(delay_ms);
    let non_fatal = CodeSet::EMPTY.with(Code::Unavailable);
    policy(Attempts::Hedge(HedgePolicy { attempts_max, delay, non_fatal }))
}

fn policy(attempts: Attempts) -> MethodPolicy {
    MethodPolicy { attempts, ..MethodPolicy::default() }
}

const fn end(code: Code, fate: Fate) -> AttemptEnd {
    AttemptEnd { code, fate, pushback: Pushback::Unsaid }
}

const OK: AttemptEnd = end(Code::Ok, Fate::Answered);
const UNAVAILABLE: AttemptEnd = end(Code::Unavailable, Fate::Answered);

/// A call, its budget and its time.
struct Run {
    policy: MethodPolicy,
    plan: CallPlan,
    budget: RetryBudget,
    rng: Rng,
}

impl Run {
    fn new(policy: MethodPolicy, idempotent: bool, deadline: Time) -> Run {
        let plan = CallPlan::new(idempotent, deadline, at(0));
        Run { policy, plan, budget: RetryBudget::new(None), rng: Rng::new(7) }
    }

    fn poll(&mut self, now: Time) -> Step {
        self.plan.poll(&self.policy, &self.budget, now)
    }

    fn end(&mut self, end: AttemptEnd, now: Time) -> Verdict {
        self.plan.handle_end(&self.policy, end, &mut self.budget, now, &mut self.rng)
    }

    /// Polls until something else than waiting is said, and when that was.
    fn next(&mut self, mut now: Time) -> (Step, Time) {
        loop {
            match self.poll(now) {
                Step::Wait(later) if later == Time::NEVER => return (Step::Wait(later), now),
                Step::Wait(later) => now = later,
                step => return (step, now),
            }
        }
    }
}

#[test]
fn what_each_failure_means() {
    use Fate::{Answered, Final, NotRun, Unknown};
    use Verdict::{Deliver, Hold};
    let once = || policy(Attempts::Once);
    for (name, policy, idempotent, code, fate, verdict) in [
        ("success", retry(3), true, Code::Ok, Answered, Deliver),
        ("named status", retry(3), false, Code::Unavailable, Answered, Hold),
        ("other status", retry(3), false, Code::Internal, Answered, Deliver),
        ("other status, idempotent", retry(3), true, Code::Internal, Answered, Deliver),
        ("below, named", retry(3), false, Code::Unavailable, Unknown, Hold),
        ("below, not named", retry(3), false, Code::DeadlineExceeded, Unknown, Deliver),
        ("below, idempotent", retry(3), true, Code::DeadlineExceeded, Unknown, Hold),
        ("hopeless", retry(3), true, Code::Unavailable, Final, Deliver),
        ("one attempt", retry(1), true, Code::Unavailable, Answered, Deliver),
        ("no policy", once(), true, Code::Unavailable, Answered, Deliver),
        ("no policy, below", once(), true, Code::Unavailable, Unknown, Deliver),
        ("no policy, not run", once(), false, Code::Unavailable, NotRun, Hold),
        ("not run", retry(1), false, Code::ResourceExhausted, NotRun, Hold),
        ("hedge, non-fatal", hedge(2, 5), true, Code::Unavailable, Answered, Hold),
        ("hedge, fatal", hedge(2, 5), true, Code::Internal, Answered, Deliver),
        ("hedge, not idempotent", hedge(2, 5), false, Code::Unavailable, Answered, Deliver),
    ] {
        let mut run = Run::new(policy, idempotent, Time::NEVER);
        assert_eq!(run.poll(at(0)), Step::Send, "{name}");
        assert_eq!(run.end(end(code, fate), at(1)), verdict, "{name}");
    }
}

#[test]
fn retries_back_off_as_grpc_does() {
    let mut run = Run::new(retry(5), false, Time::NEVER);
    let mut now = at(0);
    for base_ms in [100, 200, 300, 300] {
        assert_eq!(run.next(now).0, Step::Send);
        assert_eq!(run.end(UNAVAILABLE, now), Verdict::Hold);
        let Step::Wait(next) = run.poll(now) else { panic!("a retry waits") };
        let waited = next.nanos_since(now);
        assert!((base_ms * MS * 4 / 5..=base_ms * MS * 6 / 5).contains(&waited), "{waited}");
        now = next;
    }
    assert_eq!(run.next(now).0, Step::Send);
    assert_eq!(run.plan.attempts(), 5);
    assert_eq!(run.end(UNAVAILABLE, now), Verdict::Deliver, "the fifth attempt was the last");
    assert_eq!(run.poll(now), Step::Wait(Time::NEVER));
}

#[test]
fn pushback_sets_the_wait_and_resets_the_backoff() {
    let mut run = Run::new(retry(5), false, Time::NEVER);
    assert_eq!(run.next(at(0)), (Step::Send, at(0)));
    run.end(UNAVAILABLE, at(0));
    let (_, now) = run.next(at(0));
    let wait = Pushback::After(Duration::from_millis(7));
    assert_eq!(run.end(AttemptEnd { pushback: wait, ..UNAVAILABLE }, now), Verdict::Hold);
    let (step, later) = run.next(now);
    assert_eq!((step, later.nanos_since(now)), (Step::Send, 7 * MS));
    run.end(UNAVAILABLE, later);
    let Step::Wait(next) = run.poll(later) else { panic!("a retry waits") };
    assert!(next.nanos_since(later) <= 120 * MS, "the first backoff again");
    run.next(later);
    let never = AttemptEnd { pushback: Pushback::Never, ..UNAVAILABLE };
    assert_eq!(run.end(never, next), Verdict::Deliver);
}

#[test]
fn pushback_is_read_as_a_signed_number_without_extra_zeros() {
    for (text, millis) in [("0", 0), ("1", 1), ("250", 250), ("2147483647", 2_147_483_647)] {
        assert_eq!(Pushback::parse(text), Pushback::After(Duration::from_millis(millis)));
    }
    for text in ["", "-1", "+1", "01", "1.5", "x", "2147483648", " 1"] {
        assert_eq!(Pushback::parse(text), Pushback::Never, "{text}");
    }
}

#[test]
fn a_backoff_past_the_deadline_is_not_waited_for() {
    let mut run = Run::new(retry(5), false, at(50));
    assert_eq!(run.poll(at(0)), Step::Send);
    assert_eq!(run.end(UNAVAILABLE, at(1)), Verdict::Deliver);
}

#[test]
fn the_deadline_ends_a_call_whatever_is_under_way() {
    for policy in [retry(3), hedge(3, 10), policy(Attempts::Once)] {
        let mut run = Run::new(policy, true, at(15));
        assert_eq!(run.poll(at(0)), Step::Send);
        while let (Step::Send, _) = run.next(at(0)) {}
        assert_eq!(run.poll(at(15)), Step::Wait(Time::NEVER), "expired once, then over");
        assert_eq!(run.end(OK, at(16)), Verdict::Hold, "too late");
    }
}

#[test]
fn what_has_not_run_is_sent_again_but_not_forever() {
    let mut run = Run::new(retry(2), false, Time::NEVER);
    let not_run = end(Code::Unavailable, Fate::NotRun);
    let (_, mut now) = run.next(at(0));
    assert_eq!(run.end(not_run, now), Verdict::Hold);
    assert_eq!(run.next(now), (Step::Send, now), "the first time at once");
    for _ in 1..TRANSPARENT_MAX {
        assert_eq!(run.end(not_run, now), Verdict::Hold);
        let (step, later) = run.next(now);
        assert_eq!(step, Step::Send);
        assert!(later > now, "then after a wait");
        now = later;
    }
    assert_eq!(run.plan.attempts(), 1, "they do not count");
    assert_eq!(run.end(not_run, now), Verdict::Hold, "now as the policy says");
    let (_, now) = run.next(now);
    assert_eq!(run.plan.attempts(), 2);
    assert_eq!(run.end(not_run, now), Verdict::Deliver);
}

#[test]
fn a_call_that_waits_for_a_server_waits_until_its_deadline() {
    let deadline = at(3_600_000);
    let mut run = Run::new(MethodPolicy::default(), false, deadline);
    run.plan = run.plan.waiting(true);
    let not_run = end(Code::Unavailable, Fate::NotRun);
    let (_, mut now) = run.next(at(0));
    let mut sent = 1;
    while run.end(not_run, now) == Verdict::Hold {
        let (step, later) = run.next(now);
        assert_eq!(step, Step::Send);
        (now, sent) = (later, sent + 1);
    }
    assert!(now >= at(3_590_000), "another wait would end after it");
    assert!((3000..8000).contains(&sent), "once a second or so: {sent}");
    // What else says that it has not run is no reason to wait.
    let mut run = Run::new(MethodPolicy::default(), false, Time::NEVER);
    run.plan = run.plan.waiting(true);
    let (_, mut now) = run.next(at(0));
    for _ in 0..TRANSPARENT_MAX {
        assert_eq!(run.end(end(Code::Internal, Fate::NotRun), now), Verdict::Hold);
        (_, now) = run.next(now);
    }
    assert_eq!(run.end(end(Code::Internal, Fate::NotRun), now), Verdict::Deliver);
}

#[test]
fn hedges_go_out_in_steps_and_the_first_success_counts() {
    let mut run = Run::new(hedge(3, 10), true, Time::NEVER);
    for ms in [0, 10, 20] {
        assert_eq!(run.next(at(ms)), (Step::Send, at(ms)));
        assert!(matches!(run.poll(at(ms)), Step::Wait(_)));
    }
    assert_eq!(run.poll(at(1000)), Step::Wait(Time::NEVER), "three at most");
    assert_eq!(run.end(UNAVAILABLE, at(1000)), Verdict::Hold, "two others may succeed");
    assert_eq!(run.end(OK, at(1001)), Verdict::Deliver);
}

#[test]
fn a_non_fatal_failure_brings_the_next_hedge_forward() {
    let mut run = Run::new(hedge(3, 10), true, Time::NEVER);
    run.next(at(0));
    assert_eq!(run.end(UNAVAILABLE, at(4)), Verdict::Hold);
    assert_eq!(run.next(at(4)), (Step::Send, at(4)));
    assert_eq!(run.next(at(4)), (Step::Send, at(14)), "then in steps again");
    assert_eq!(run.end(UNAVAILABLE, at(15)), Verdict::Hold);
    assert_eq!(run.end(UNAVAILABLE, at(16)), Verdict::Deliver, "all have failed");
}

#[test]
fn a_server_can_stop_hedges() {
    let mut run = Run::new(hedge(3, 10), true, Time::NEVER);
    run.next(at(0));
    run.next(at(10));
    let never = AttemptEnd { pushback: Pushback::Never, ..UNAVAILABLE };
    assert_eq!(run.end(never, at(11)), Verdict::Hold);
    assert_eq!(run.end(UNAVAILABLE, at(12)), Verdict::Deliver, "none takes its place");
}

#[test]
fn without_a_delay_all_hedges_go_at_once() {
    let mut run = Run::new(hedge(4, 0), true, Time::NEVER);
    for _ in 0..4 {
        assert_eq!(run.poll(at(0)), Step::Send);
    }
    assert_eq!(run.poll(at(0)), Step::Wait(Time::NEVER));
}

#[test]
fn the_budget_opens_and_closes_at_half() {
    let throttling = Throttling { tokens_max: 4, token_ratio_milli: 500 };
    let mut budget = RetryBudget::new(Some(throttling));
    budget.on_success();
    assert_eq!(budget.tokens_milli(), 4000, "full");
    budget.on_failure();
    assert!(budget.allows());
    budget.on_failure();
    assert!(!budget.allows(), "two of four is not above half");
    (0..9).for_each(|_| budget.on_failure());
    assert_eq!(budget.tokens_milli(), 0);
    (0..4).for_each(|_| budget.on_success());
    assert!(!budget.allows());
    budget.on_success();
    assert!(budget.allows());
    let mut boundless = RetryBudget::new(None);
    (0..100).for_each(|_| boundless.on_failure());
    assert!(boundless.allows());
}

#[test]
fn an_empty_budget_ends_retries_and_hedges() {
    let throttling = Throttling { tokens_max: 2, token_ratio_milli: 1 };
    let mut run = Run::new(retry(5), false, Time::NEVER);
    run.budget = RetryBudget::new(Some(throttling));
    run.next(at(0));
    assert_eq!(run.end(UNAVAILABLE, at(1)), Verdict::Deliver, "one failure has taken half");
    assert_eq!(run.budget.tokens_milli(), 1000);

    let mut run = Run::new(hedge(5, 10), true, Time::NEVER);
    run.budget = RetryBudget::new(Some(throttling));
    assert_eq!(run.next(at(0)), (Step::Send, at(0)));
    run.budget.on_failure();
    assert_eq!(run.poll(at(10)), Step::Wait(Time::NEVER), "no hedge without a token");
    assert_eq!(run.end(UNAVAILABLE, at(11)), Verdict::Deliver);
}

#[test]
fn a_hedge_that_finds_no_token_gives_the_call_up() {
    let mut run = Run::new(hedge(5, 10), true, Time::NEVER);
    run.budget = RetryBudget::new(Some(Throttling { tokens_max: 4, token_ratio_milli: 1 }));
    run.next(at(0));
    let later = Pushback::After(Duration::from_millis(5));
    assert_eq!(run.end(AttemptEnd { pushback: later, ..UNAVAILABLE }, at(1)), Verdict::Hold);
    run.budget.on_failure();
    assert_eq!(run.poll(at(6)), Step::GiveUp);
    assert_eq!(run.poll(at(7)), Step::Wait(Time::NEVER));
}

#[test]
fn failures_that_no_policy_names_cost_no_token() {
    let mut run = Run::new(retry(3), false, Time::NEVER);
    run.budget = RetryBudget::new(Some(Throttling { tokens_max: 2, token_ratio_milli: 1 }));
    run.next(at(0));
    run.end(end(Code::InvalidArgument, Fate::Answered), at(0));
    assert_eq!(run.budget.tokens_milli(), 2000);
    let mut run = Run { plan: CallPlan::new(false, Time::NEVER, at(0)), ..run };
    run.next(at(0));
    run.end(end(Code::Unavailable, Fate::NotRun), at(0));
    assert_eq!(run.budget.tokens_milli(), 2000, "nor what has not run");
}

#[test]
fn odd_numbers_in_a_built_policy_do_not_panic() {
    for (initial, max, multiplier) in [
        (Duration::MAX, Duration::MAX, f64::INFINITY),
        (Duration::ZERO, Duration::ZERO, f64::NAN),
        (Duration::ZERO, Duration::from_secs(1), f64::INFINITY),
        (Duration::from_secs(1), Duration::from_secs(9), -3.0),
    ] {
        let policy = RetryPolicy {
            attempts_max: 5,
            backoff_initial: initial,
            backoff_max: max,
            backoff_multiplier: multiplier,
            statuses: CodeSet::EMPTY,
        };
        for step in [0, 1, 2, 1000, u32::MAX] {
            assert!(policy.backoff(step) <= max);
        }
    }
}

fn ends() -> impl Strategy<Value = AttemptEnd> {
    let pushback = prop_oneof![
        6 => Just(Pushback::Unsaid),
        1 => (0..500u64).prop_map(|ms| Pushback::After(Duration::from_millis(ms))),
        1 => Just(Pushback::Never),
    ];
    let code = prop::sample::select(vec![
        Code::Ok,
        Code::Unavailable,
        Code::Unavailable,
        Code::Unavailable,
        Code::Internal,
    ]);
    let fate = prop::sample::select(vec![Fate::Answered, Fate::NotRun, Fate::Unknown, Fate::Final]);
    (code, fate, pushback).prop_map(|(code, fate, pushback)| AttemptEnd { code, fate, pushback })
}

fn policies() -> impl Strategy<Value = MethodPolicy> {
    prop_oneof![
        Just(policy(Attempts::Once)),
        (0..6u32).prop_map(retry),
        (0..6u32, 0..50u64).prop_map(|(attempts, delay)| hedge(attempts, delay)),
    ]
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// Whatever happens: bounded attempts, a budget within its bounds, nothing sent at or after
    /// the deadline, and an end.
    #[test]
    fn calls_end_within_their_policy(
        policy in policies(),
        idempotent in any::<bool>(),
        deadline_ms in 1..2000u64,
        tokens_max in 1..20u32,
        mut script in prop::collection::vec((ends(), 0..100u64), 0..60),
    ) {
        let most = match &policy.attempts {
            Attempts::Once => 1,
            Attempts::Retry(retry) => retry.attempts_max.max(1),
            Attempts::Hedge(hedge) if idempotent => hedge.attempts_max.max(1),
            Attempts::Hedge(_) => 1,
        };
        let mut run = Run::new(policy, idempotent, at(deadline_ms));
        run.budget = RetryBudget::new(Some(Throttling { tokens_max, token_ratio_milli: 300 }));
        let (mut now, mut under_way, mut sent, mut over) = (at(0), 0u32, 0u32, false);
        while !over {
            match run.poll(now) {
                Step::Send => {
                    prop_assert!(now < at(deadline_ms));
                    (under_way, sent) = (under_way + 1, sent + 1);
                }
                Step::Expired => over = true,
                Step::GiveUp => {
                    prop_assert_eq!(under_way, 0);
                    over = true;
                }
                Step::Wait(next) => {
                    prop_assert!(next <= at(deadline_ms) && next > now);
                    let answer = if under_way > 0 { script.pop() } else { None };
                    let Some((end, after)) = answer else {
                        now = next;
                        continue;
                    };
                    now = now.plus_nanos(after * MS);
                    under_way -= 1;
                    over = run.end(end, now) == Verdict::Deliver;
                }
            }
            prop_assert!(run.plan.attempts() <= most && sent <= most + TRANSPARENT_MAX);
            prop_assert!(run.budget.tokens_milli() <= u64::from(tokens_max) * 1000);
        }
        prop_assert_eq!(run.poll(now), Step::Wait(Time::NEVER));
    }

    /// The wait before each retry lies within a fifth of the policy's backoff.
    #[test]
    fn backoffs_are_within_bounds(
        seed in any::<u64>(), initial in 1..10_000u64, max in 1..10_000u64, multiplier in 0.1..5.0,
    ) {
        let policy = RetryPolicy {
            attempts_max: 9,
            backoff_initial: Duration::from_millis(initial),
            backoff_max: Duration::from_millis(max),
            backoff_multiplier: multiplier,
            statuses: CodeSet::EMPTY.with(Code::Unavailable),
        };
        let mut run = Run::new(self::policy(Attempts::Retry(policy)), false, Time::NEVER);
        run.rng = Rng::new(seed);
        let (mut now, mut base) = (at(0), initial as f64);
        run.next(now);
        while run.end(UNAVAILABLE, now) == Verdict::Hold {
            let (_, later) = run.next(now);
            let waited = later.nanos_since(now) as f64 / MS as f64;
            let expected = base.min(max as f64);
            // Nanoseconds are rounded twice.
            let (least, most) = (expected * 0.8 - 2e-6, expected * 1.2 + 2e-6);
            prop_assert!((least..=most).contains(&waited), "{waited} of {expected}");
            (now, base) = (later, base * multiplier);
        }
    }
}
