//! A worker behind a router, in virtual time.

use super::*;
use petasos_base::Rng;
use std::collections::VecDeque;

/// A worker behind a router, with a way there and back of so many nanoseconds.
struct World {
    bound: IdleBound,
    threads: usize,
    way_ns: u64,
    now: Time,
    rng: Rng,
    /// When handlers that run will end; when requests will arrive; those that wait here.
    ends: Vec<Time>,
    arrives: VecDeque<Time>,
    waiting: u32,
    /// Given and not settled, as the router knows.
    given: u16,
    settled: VecDeque<Time>,
    busy_ns: u64,
}

impl World {
    fn new(threads: u16, most: u16, way_us: u64) -> World {
        let now = Time::from_nanos(1_000_000);
        World {
            bound: IdleBound::new(threads, most, now),
            threads: usize::from(threads),
            way_ns: way_us * 1000,
            now,
            rng: Rng::new(7),
            ends: Vec::new(),
            arrives: VecDeque::new(),
            waiting: 0,
            given: 0,
            settled: VecDeque::new(),
            busy_ns: 0,
        }
    }

    /// Runs for so long, with service times as said, and a router at which `queued` tells how
    /// many requests wait by now. Returns which part of the time threads were busy.
    fn run(
        &mut self,
        millis: u64,
        service_ns: impl Fn(&mut Rng) -> u64,
        mut queued: impl FnMut(&mut Rng, Time) -> u32,
    ) -> f64 {
        let (begun, until) = (self.now, self.now + Duration::from_millis(millis));
        self.busy_ns = 0;
        while self.now < until {
            self.now = self.now + Duration::from_micros(1);
            let now = self.now;
            while self.settled.pop_front_if(|at| *at <= now).is_some() {
                self.given -= 1;
            }
            let mut waits = queued(&mut self.rng, now);
            while waits > 0 && self.given < self.bound.bound() {
                (self.given, waits) = (self.given + 1, waits - 1);
                self.arrives.push_back(now.plus_nanos(self.way_ns / 2));
                queued(&mut self.rng, Time::ZERO);
            }
            while self.arrives.pop_front_if(|at| *at <= now).is_some() {
                self.waiting += 1;
            }
            let before = self.ends.len();
            self.ends.retain(|at| *at > now);
            let ended = before - self.ends.len();
            for _ in 0..ended {
                self.settled.push_back(now.plus_nanos(self.way_ns / 2));
            }
            self.bound.turn_over(ended as u32, now);
            while self.waiting > 0 && self.ends.len() < self.threads {
                self.waiting -= 1;
                self.bound.begin(now);
                let service = service_ns(&mut self.rng);
                self.busy_ns += service;
                self.ends.push(now.plus_nanos(service));
            }
        }
        let all = until.nanos_since(begun) * self.threads as u64;
        self.busy_ns as f64 / all as f64
    }
}

fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    (rng.exponential() * mean as f64) as u64
}

/// Requests wait all the time.
fn always(_: &mut Rng, _: Time) -> u32 {
    u32::MAX
}

/// Requests that arrive at random, one in so many nanoseconds.
fn at_random(each_ns: u64) -> impl FnMut(&mut Rng, Time) -> u32 {
    let (mut next, mut queue) = (Time::ZERO, 0);
    move |rng, now| {
        if now == Time::ZERO {
            queue -= 1;
            return queue;
        }
        if next == Time::ZERO {
            next = now;
        }
        while next <= now {
            queue += 1;
            next = next.plus_nanos(exponential(rng, each_ns));
        }
        queue
    }
}

/// The paper's example: 15 µs there and back, 10 µs of service: 3 are enough.
#[test]
fn fixed_service_times_are_covered_by_as_many_as_fit_into_the_way() {
    for (threads, service_us, way_us, enough) in
        [(1, 10, 15, 3), (1, 10, 100, 11), (1, 1000, 15, 2), (4, 10, 15, 10)]
    {
        let mut world = World::new(threads, 64, way_us);
        world.run(2000, |_| service_us * 1000, always);
        let busy = world.run(1000, |_| service_us * 1000, always);
        let bound = world.bound.bound();
        assert!(busy > 0.9, "{threads} {service_us} {way_us}: {bound}, {busy}");
        assert!(bound <= enough + 1, "{threads} {service_us} {way_us}: {bound}");
    }
}

#[test]
fn random_service_times_want_some_more() {
    let mut world = World::new(1, 64, 15);
    world.run(2000, |rng| exponential(rng, 10_000), always);
    let busy = world.run(1000, |rng| exponential(rng, 10_000), always);
    let bound = world.bound.bound();
    assert!(busy > 0.9 && (3..=8).contains(&bound), "{bound}, {busy}");
}

#[test]
fn a_worker_without_enough_requests_does_not_ask_for_more() {
    for part in [2, 10] {
        let mut world = World::new(1, 64, 15);
        world.run(5000, |rng| exponential(rng, 10_000), at_random(10_000 * part));
        assert!(world.bound.bound() <= 4, "{part}: {}", world.bound.bound());
    }
}

#[test]
fn too_many_are_given_back_when_requests_take_longer() {
    let mut world = World::new(1, 64, 100);
    world.run(1000, |_| 2000, always);
    let before = world.bound.bound();
    assert!(before > 20, "{before}");
    world.run(10_000, |_| 200_000, always);
    assert!(world.bound.bound() <= 3, "{}", world.bound.bound());
}

#[test]
fn a_worker_takes_one_for_each_thread_and_no_more_than_it_may() {
    let mut world = World::new(1, 5, 1000);
    world.run(2000, |_| 1000, always);
    assert_eq!(world.bound.bound(), 5);
    for most in [1, 3] {
        assert_eq!(IdleBound::new(8, most, Time::ZERO).bound(), most);
    }
    let mut world = World::new(4, 64, 1);
    world.run(3000, |_| 100_000, always);
    assert!((4..=5).contains(&world.bound.bound()), "{}", world.bound.bound());
}
