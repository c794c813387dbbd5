use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::Wheel;
use crate::Time;
use crate::slot_lists::SLOTS_MAX;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn drained(wheel: &mut Wheel<u32>, now_ns: u64) -> Vec<u32> {
    let mut items = Vec::new();
    wheel.advance(at(now_ns), |item| items.push(item));
    items
}

#[test]
fn an_empty_wheel_is_never_due() {
    let mut wheel: Wheel<u32> = Wheel::new(512, 1_000_000);
    assert!(!wheel.is_due(at(u64::MAX - 1)));
    assert_eq!(wheel.next_due(), Time::NEVER);
    assert!(drained(&mut wheel, u64::MAX - 1).is_empty());
    assert!(wheel.is_empty());
}

#[test]
fn items_come_at_the_end_of_their_slot_in_the_order_of_entry() {
    let mut wheel = Wheel::new(500, 100_000);
    assert_eq!(wheel.insert(at(0), at(513), 1), at(1024), "500 is rounded up to 512");
    assert_eq!(wheel.insert(at(0), at(512), 2), at(512));
    assert_eq!(wheel.insert(at(0), at(1024), 3), at(1024));
    assert_eq!(wheel.next_due(), at(512));
    assert!(drained(&mut wheel, 511).is_empty());
    assert_eq!(drained(&mut wheel, 512), [2]);
    assert_eq!((wheel.next_due(), wheel.len()), (at(1024), 2));
    assert_eq!(drained(&mut wheel, 9_999), [1, 3]);
    assert!(wheel.is_empty());
}

#[test]
fn what_is_due_already_comes_with_the_next_slot() {
    let mut wheel = Wheel::new(1, 100);
    assert_eq!(wheel.insert(at(70), at(3), 1), at(71));
    assert_eq!(drained(&mut wheel, 71), [1]);
    assert_eq!(wheel.insert(at(71), at(71), 2), at(72), "not in the slot that was just given out");
}

#[test]
fn beyond_its_reach_the_wheel_is_early_however_long_it_lay_idle() {
    let mut wheel = Wheel::new(1_024, 1 << 20);
    for start_ns in [0, 1 << 30, 1 << 60] {
        let due = wheel.insert(at(start_ns), Time::NEVER, 7);
        assert!(due > at(start_ns + (1 << 20)) && due < at(start_ns + (1 << 22)), "{due:?}");
        assert!(drained(&mut wheel, due.as_nanos() - 1).is_empty());
        assert_eq!(drained(&mut wheel, due.as_nanos()), [7]);
    }
}

#[test]
fn the_wheel_turns_on_while_it_holds_something_far_ahead() {
    let mut wheel = Wheel::new(1, 4_000);
    wheel.insert(at(0), at(4_000), 1);
    // Three quarters of a turn later the reach has moved on as far, up to the first item.
    assert_eq!(wheel.insert(at(3_000), at(6_900), 2), at(6_900));
    assert_eq!(drained(&mut wheel, 10_000), [1, 2]);
}

/// What to do next: let time pass, enter an item so far ahead, or advance.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Insert(u64),
    Advance,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop_oneof![0u64..200, 0u64..20_000, 0u64..3_000_000].prop_map(Step::Pass),
        4 => prop_oneof![0u64..300, 0u64..20_000, 0u64..5_000_000].prop_map(Step::Insert),
        2 => Just(Step::Advance),
    ]
}

proptest! {
    /// Against a heap of (promised time, entry): the same items at the same calls in the same
    /// order, promised within a slot of the wish wherever the wheel reaches.
    #[test]
    fn it_gives_what_a_heap_gives(
        slot_log in 0u32..14,
        slots_log in 0u32..13,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let slot_ns = 1u64 << slot_log;
        let reach_ns = slot_ns << slots_log;
        let mut wheel = Wheel::new(slot_ns, reach_ns);
        let mut heap = BinaryHeap::new();
        let mut now_ns = 1_000_000u64;
        for (entry, step) in steps.into_iter().enumerate() {
            match step {
                Step::Pass(nanos) => now_ns += nanos,
                Step::Insert(ahead_ns) => {
                    let wish_ns = now_ns + ahead_ns;
                    let due_ns = wheel.insert(at(now_ns), at(wish_ns), entry as u32).as_nanos();
                    prop_assert!(due_ns <= wish_ns + slot_ns, "at most a slot late");
                    // Overdue items that nobody has taken out keep the wheel from turning.
                    let overdue = heap.peek().is_some_and(|Reverse((due, _))| *due <= now_ns);
                    let reached = ahead_ns <= reach_ns && slots_log < 12 && !overdue;
                    prop_assert!(!reached || due_ns >= wish_ns, "{due_ns} before {wish_ns}");
                    heap.push(Reverse((due_ns, entry as u32)));
                }
                Step::Advance => {
                    let mut expected = Vec::new();
                    while heap.peek().is_some_and(|Reverse((due, _))| *due <= now_ns) {
                        let Reverse((_, item)) = heap.pop().expect("it was just looked at");
                        expected.push(item);
                    }
                    prop_assert_eq!(drained(&mut wheel, now_ns), expected);
                }
            }
            let next = heap.peek().map_or(Time::NEVER, |Reverse((due, _))| at(*due));
            prop_assert_eq!(wheel.next_due(), next);
            prop_assert_eq!(wheel.is_due(at(now_ns)), next <= at(now_ns));
            prop_assert_eq!(wheel.len(), heap.len());
            prop_assert!(wheel.lists.slots() <= SLOTS_MAX);
        }
    }
}
