//! The generator in virtual time, against a target that serves one request at a time.

use std::collections::VecDeque;

use petasos_base::VirtualClock;

use super::*;
use crate::arrivals::Arrivals;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const RATE: f64 = 1000.0;

/// A server in virtual time. Time passes while the generator waits, polls or sends.
struct Server {
    clock: VirtualClock,
    outstanding_max: usize,
    /// How long the server takes for the request with this number.
    service: fn(u64) -> Duration,
    /// How long the generator takes to send it.
    sending: fn(u64) -> Duration,
    result: fn(u64) -> Result<(), String>,
    /// Answers nothing from this request on.
    silent_from: u64,
    sent: u64,
    free_at: Time,
    answers: VecDeque<(Time, u32, u64)>,
    waits: u64,
}

impl Server {
    fn new() -> Server {
        Server {
            clock: VirtualClock::default(),
            outstanding_max: usize::MAX >> 1,
            service: |_| micros(20),
            sending: |_| micros(1),
            result: |_| Ok(()),
            silent_from: u64::MAX,
            sent: 0,
            free_at: Time::ZERO,
            answers: VecDeque::new(),
            waits: 0,
        }
    }

    fn pass(&self, time: Duration) {
        self.clock.set(self.clock.now() + time);
    }

    fn run(&mut self, plan: Plan, limits: &Limits) -> Result<Run, RunError> {
        let clock = Clock::Virtual(self.clock.clone());
        run(self, &clock, plan, limits, |_| {})
    }
}

impl Target for Server {
    fn outstanding_max(&self) -> usize {
        self.outstanding_max
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        let number = self.sent;
        self.sent += 1;
        self.pass((self.sending)(number));
        if number < self.silent_from {
            self.free_at = self.free_at.max(self.clock.now()) + (self.service)(number);
            self.answers.push_back((self.free_at, slot, number));
        }
        Ok(())
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        self.pass(Duration::from_nanos(200));
        while let Some((at, slot, number)) = self.answers.front().copied() {
            if at > self.clock.now() {
                break;
            }
            answers.push(slot, (self.result)(number));
            self.answers.pop_front();
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) {
        self.waits += 1;
        let until = self.clock.now() + timeout;
        let next = self.answers.front().map_or(until, |(at, ..)| until.min(*at));
        // A sleeper is late.
        self.clock.set(next.max(self.clock.now()) + micros(60));
    }
}

fn plan(arrivals: &Arrivals, rate: f64, duration: Duration) -> Plan {
    let measured = Schedule::new(arrivals, rate, duration).expect("it is possible");
    Plan { warm_up: None, measured }
}

fn poisson(seed: u64) -> Plan {
    plan(&Arrivals::Poisson { seed }, RATE, 2 * SECOND)
}

fn fixed() -> Plan {
    plan(&Arrivals::Fixed, RATE, 2 * SECOND)
}

fn refused(result: Result<Run, RunError>) -> Refusal {
    match result {
        Ok(run) => run.report().expect_err("it is refused"),
        Err(RunError::Refused(refusal)) => refusal,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn right_arrivals_are_reported() {
    let mut refused = 0;
    for seed in 0..100 {
        let mut server = Server::new();
        let run = server.run(poisson(seed), &Limits::default()).expect("it answers all");
        let (outcome, _) = run.report_anyway();
        assert_eq!((outcome.answered, outcome.failed, outcome.load), (2000, 0, RATE));
        assert!(outcome.checks.rate_error.abs() < 0.002, "{:?}", outcome.checks);
        assert!(outcome.lag.p99 < micros(50), "{:?}", outcome.lag);
        let run = Run::new(outcome, MS);
        refused += u32::from(run.report().is_err());
        assert!(server.waits > 1000, "it sleeps where there is time");
    }
    // One in a thousand may be, for each of two tests.
    assert!(refused <= 2, "{refused}");
}

#[test]
fn a_stall_is_in_the_latencies_of_all_that_came_meanwhile() {
    let mut server = Server::new();
    // 100 ms without answers. Of 2000 requests, some 100 were due then; a closed loop would have
    // seen it once.
    server.service = |number| if number == 1000 { 100 * MS } else { micros(20) };
    let run = server.run(poisson(1), &Limits::default()).expect("it answers all");
    let outcome = run.report().expect("requests were sent on time");
    let of = |quantile| outcome.latencies.quantile(quantile).expect("filled").value_us;
    assert!(of(0.99) > 60_000.0, "{}", of(0.99));
    assert!(of(0.5) < 100.0, "{}", of(0.5));
    assert!(outcome.latencies.quantile(0.99).expect("filled").stderr_us > Some(1000.0));
}

#[test]
fn latencies_begin_when_requests_were_due() {
    let mut server = Server::new();
    // The generator is held up for 100 ms; no answer takes longer than 20 µs from when its request
    // was sent.
    server.sending = |number| if number == 1000 { 100 * MS } else { micros(1) };
    let limits = Limits { lag_max: SECOND, ..Limits::default() };
    let run = server.run(fixed(), &limits).expect("it answers all");
    let (outcome, refusals) = run.report_anyway();
    assert_eq!(refusals, []);
    let p99 = outcome.latencies.quantile(0.99).expect("filled");
    assert!(p99.value_us > 70_000.0, "{p99:?}");
    assert!(outcome.lag.max > 98 * MS && outcome.lag.p50 < MS, "{:?}", outcome.lag);
}

#[test]
fn a_generator_that_is_often_late_does_not_report() {
    let mut server = Server::new();
    server.sending = |number| if number % 50 == 0 { 3 * MS } else { micros(1) };
    let refusal = refused(server.run(fixed(), &Limits::default()));
    assert!(matches!(refusal, Refusal::Late { bound: MS, .. }), "{refusal}");
    assert!(!refusal.is_of_target());
}

#[test]
fn a_generator_that_cannot_keep_up_ends() {
    let mut server = Server::new();
    server.sending = |_| 2 * MS;
    let refusal = refused(server.run(fixed(), &Limits::default()));
    assert!(matches!(refusal, Refusal::Behind(late) if late > SECOND), "{refusal}");
    assert!(server.sent < 1100, "not all were sent: {}", server.sent);
}

#[test]
fn a_rate_that_is_too_low_is_refused() {
    let mut server = Server::new();
    server.sending = |_| micros(1020);
    let limits = Limits { lag_max: SECOND, ..Limits::default() };
    let refusal = refused(server.run(fixed(), &limits));
    assert!(matches!(refusal, Refusal::Rate(error) if (error + 0.02).abs() < 0.001), "{refusal}");
}

#[test]
fn arrivals_that_sending_makes_regular_are_refused() {
    let mut server = Server::new();
    server.sending = |_| micros(700);
    let limits = Limits { lag_max: SECOND, ..Limits::default() };
    for seed in 0..20 {
        let refusal = refused(server.run(poisson(seed), &limits));
        assert!(matches!(refusal, Refusal::NotExponential(p) if p < 1e-3), "{refusal}");
    }
}

#[test]
fn a_target_without_room_for_more_ends_the_run() {
    let mut server = Server::new();
    server.service = |_| 2 * MS;
    let limits = Limits { outstanding_max: 10, ..Limits::default() };
    let refusal = refused(server.run(fixed(), &limits));
    assert_eq!(refusal, Refusal::Outstanding(10, 1000));
    assert!(refusal.is_of_target() && server.sent < 30, "{}", server.sent);
    let mut server = Server { outstanding_max: 3, silent_from: 0, ..Server::new() };
    let refusal = refused(server.run(fixed(), &Limits::default()));
    assert_eq!((refusal, server.sent), (Refusal::Outstanding(3, 1000), 3));
}

#[test]
fn requests_without_answers_are_not_waited_for_for_ever() {
    let mut server = Server { silent_from: 1998, ..Server::new() };
    let refusal = refused(server.run(fixed(), &Limits::default()));
    assert_eq!(refusal, Refusal::Unanswered { count: 2, timeout: 5 * SECOND });
}

#[test]
fn some_may_fail_and_are_counted_apart() {
    let mut server = Server::new();
    server.result = |number| if number % 200 == 7 { Err("busy".into()) } else { Ok(()) };
    let outcome = server.run(fixed(), &Limits::default()).expect("few fail").report();
    let outcome = outcome.expect("all is as it should be");
    assert_eq!((outcome.answered, outcome.failed), (1990, 10));
    assert_eq!(
        (outcome.reason.as_deref(), outcome.latencies.histogram().count()),
        (Some("busy"), 1990)
    );
}

#[test]
fn too_many_failures_end_the_run() {
    let mut server = Server::new();
    server.result = |number| if number % 10 == 0 { Err(format!("no {number}")) } else { Ok(()) };
    let refusal = refused(server.run(fixed(), &Limits::default()));
    let Refusal::Failing { failed: 21, sent, reason } = refusal else { panic!("{refusal}") };
    assert!(sent < 250 && reason == "no 0", "{sent}, {reason}");
}

#[test]
fn what_warms_up_does_not_count() {
    let mut server = Server::new();
    server.service = |number| if number < 50 { MS / 2 } else { micros(20) };
    let warm_up = Schedule::new(&Arrivals::Fixed, RATE, 100 * MS).expect("it is possible");
    let plan = Plan { warm_up: Some(warm_up), ..fixed() };
    let outcome = server.run(plan, &Limits::default()).expect("it answers all").report();
    let outcome = outcome.expect("all is as it should be");
    assert_eq!((server.sent, outcome.answered), (2100, 2000));
    let longest = outcome.latencies.quantile(1.0).expect("filled").value_us;
    assert!(longest < 200.0, "{longest}");
}

#[test]
fn a_probe_tells_whether_there_will_be_answers() {
    let probed = |mut server: Server| {
        let clock = Clock::Virtual(server.clock.clone());
        probe(&mut server, &clock, &Limits::default())
    };
    assert_eq!(probed(Server::new()), Ok(()));
    let failing = Server { result: |_| Err("no such key".into()), ..Server::new() };
    let error = probed(failing).expect_err("it fails").to_string();
    assert_eq!(error, "the first request failed: no such key");
    let error = probed(Server { silent_from: 0, ..Server::new() }).expect_err("it is silent");
    assert_eq!(error.to_string(), "the first request had no answer in 5s");
}

#[test]
fn a_target_that_answers_twice_is_refused() {
    struct Twice(Server);
    impl Target for Twice {
        fn outstanding_max(&self) -> usize {
            2
        }
        fn send(&mut self, slot: u32) -> Result<(), TargetError> {
            self.0.send(slot)?;
            self.0.send(slot)
        }
        fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
            self.0.poll(answers)
        }
        fn wait(&mut self, timeout: Duration) {
            self.0.wait(timeout);
        }
    }
    let mut target = Twice(Server::new());
    let clock = Clock::Virtual(target.0.clock.clone());
    let error = run(&mut target, &clock, fixed(), &Limits::default(), |_| {});
    let error = error.expect_err("it is wrong").to_string();
    assert!(error.contains("answered request 0 twice"), "{error}");
}
