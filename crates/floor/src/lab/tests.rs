//! Both positions of each switch do the work that they are compared by.

use petasos_base::VirtualClock;

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
        Err(error) => println!("skipped: {error}"),
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

struct Counted(VirtualClock);

impl Switch for Counted {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        self.0.set(self.0.now().plus_nanos(1000));
        Ok(if follow { 4 } else { 2 })
    }
}

#[test]
fn a_rate_is_operations_by_time() {
    let time = VirtualClock::default();
    let clock = Clock::Virtual(time.clone());
    let mut experiment = Counted(time);
    let turn = Duration::from_micros(100);
    assert!((rate(&mut experiment, true, &clock, turn).unwrap() - 4e6).abs() < 1.0);
    assert!((rate(&mut experiment, false, &clock, turn).unwrap() - 2e6).abs() < 1.0);
}
