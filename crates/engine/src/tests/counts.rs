//! The counters of engines.

use std::cell::Cell;

use super::support::*;
use crate::*;

#[test]
fn engines_count_what_they_take_and_end_and_what_measured_runs_cost() {
    let (mut datapath, _) = datapath(&[Habit::Pass, Habit::End(1.0)]);
    (0..3).for_each(|number| _ = request(&mut datapath, number));
    datapath.run(Time::ZERO);
    let counts = |datapath: &Datapath| [0, 1].map(|place| datapath.engine_counts(place).unwrap());
    let [first, second] = counts(&datapath);
    // Requests on their way, and their ends on the way back.
    assert_eq!((first.items, first.ended, first.sampled_items), (6, 0, 0));
    assert_eq!((second.items, second.ended, second.sampled_ns), (3, 3, 0));
    // Each look at the clock is 100 ns later.
    let clock = Cell::new(0);
    let tick = || {
        clock.set(clock.get() + 100);
        Time::from_nanos(clock.get())
    };
    (0..4).for_each(|number| _ = request(&mut datapath, number));
    datapath.run_sampled(Time::ZERO, &tick);
    let [first, second] = counts(&datapath);
    assert_eq!((first.items, first.sampled_items, first.sampled_ns), (14, 8, 200));
    assert_eq!((second.items, second.sampled_items, second.sampled_ns), (7, 4, 100));
    // A run without work costs an engine nothing.
    datapath.run_sampled(Time::ZERO, &tick);
    assert_eq!(counts(&datapath), [first, second]);
}

#[test]
fn an_engine_that_is_replaced_or_moved_goes_on_counting() {
    let (mut datapath, seen) = datapath(&[Habit::Pass, Habit::Pass]);
    let schema = &mut TestSchema::default();
    request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    datapath.replace(0, policy(7, Habit::End(1.0), &seen), schema).unwrap();
    request(&mut datapath, 2);
    datapath.run(Time::ZERO);
    datapath.reorder(0, 1, schema).unwrap();
    let counts = [0, 1].map(|place| datapath.engine_counts(place).unwrap());
    assert_eq!((counts[1].items, counts[1].ended), (2, 1), "it was configured, and moved");
    assert_eq!((counts[0].items, counts[0].ended), (1, 0));
    datapath.attach(0, policy(8, Habit::Pass, &seen), schema).unwrap();
    assert_eq!(datapath.engine_counts(0), Some(EngineCounts::default()));
    assert_eq!(datapath.engine_counts(3), None);
}
