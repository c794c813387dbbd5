//! Both positions of each switch do the work on which they are compared.

use petasos_base::VirtualClock;
use petasos_shm::PagesError;

use super::*;

/// Steps in one position until `goal` operations are done.
fn progress(experiment: &mut dyn Switch, follow: bool, goal: u64) -> u64 {
    let mut done = 0;
    for _ in 0..100_000_000_u64 {
        done += experiment.step(follow).expect("the experiment works");
        if done >= goal {
            return done;
        }
    }
    panic!("only {done} of {goal} operations were done");
}

fn both(mut experiment: impl Switch) {
    for follow in [false, true, false, true] {
        progress(&mut experiment, follow, 5000);
    }
}

#[test]
fn sockets_deliver_what_is_counted_in_both_positions() {
    both(Trains::open().unwrap());
    both(Calls::open().unwrap());
    both(Placement::open(1 << 20).unwrap());
    both(SocketCount::open().unwrap());
    both(StatefulEcho::open(States::new(100, 375)).unwrap());
}

#[test]
fn rings_carry_more_than_they_hold_in_both_positions() {
    both(Publishing::open(1).unwrap());
    both(Inlining::open(1).unwrap());
    both(Releasing::open(1).unwrap());
    both(RingCount::open(1).unwrap());
}

#[test]
fn pages_are_walked_where_there_are_huge_ones() {
    match PageWalk::map(4 << 20) {
        Ok(walk) => both(walk),
        Err(error @ PagesError::NoHugePages { .. }) => petasos_skips::skip("huge-pages", error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn states_are_updated_of_all_connections_or_of_few() {
    let mut states = States::new(50, 100);
    progress(&mut states, true, 1000);
    let handled = |states: &mut States| {
        let before: Vec<_> = (0..50).map(|connection| states.handle(connection)).collect();
        states.step(true).expect("memory does not fail");
        let after: Vec<_> = (0..50).map(|connection| states.handle(connection)).collect();
        before
            .iter()
            .zip(&after)
            .filter(|(before, after)| after.wrapping_sub(**before) != 1)
            .count()
    };
    assert_eq!(handled(&mut states), 10);
}

/// Steps of the given microseconds and operations, in turn.
struct Timed {
    clock: VirtualClock,
    steps: Vec<(u64, u64)>,
    next: usize,
}

impl Switch for Timed {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let (us, operations) = self.steps[self.next % self.steps.len()];
        self.next += 1;
        self.clock.set(self.clock.now().plus_nanos(us * 1000));
        Ok(if follow { 2 * operations } else { operations })
    }
}

fn rate_of(steps: &[(u64, u64)], follow: bool) -> f64 {
    let clock = VirtualClock::default();
    let mut timed = Timed { clock: clock.clone(), steps: steps.to_vec(), next: 0 };
    rate(&mut timed, follow, &Clock::Virtual(clock), Duration::from_millis(10)).unwrap()
}

fn assert_near(rate: f64, expected: f64) {
    assert!((rate / expected - 1.0).abs() < 0.01, "{rate} instead of {expected}");
}

#[test]
fn a_rate_is_operations_by_time() {
    assert_near(rate_of(&[(1, 2)], false), 2e6);
    assert_near(rate_of(&[(1, 2)], true), 4e6);
    // Time spent waiting for the other end counts.
    assert_near(rate_of(&[(1, 2), (3, 0)], false), 0.5e6);
}

#[test]
fn time_that_somebody_else_takes_does_not_count() {
    assert_near(rate_of(&[(100, 50), (100, 50), (3000, 50)], false), 0.5e6);
    // A partner that does not run for a while.
    let silence = [(100, 0); 30];
    assert_near(rate_of(&[&[(100, 50), (100, 50)], &silence[..]].concat(), false), 0.5e6);
}

#[test]
fn an_experiment_that_gets_nowhere_ends() {
    assert_eq!(rate_of(&[(100, 0)], true), 0.0);
    assert_eq!(rate_of(&[(5000, 7)], true), 0.0);
}
