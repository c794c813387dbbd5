use std::collections::BTreeMap;

use petasos_base::Rng;
use proptest::prelude::*;

use super::*;

const TIMES: GivenTimes =
    GivenTimes { hole: Duration::from_millis(2), beat: Duration::from_millis(20) };
/// Holes that have opened close to each other are written off together.
const TOGETHER: Duration = Duration::from_micros(250);

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn numbers() -> GivenNumbers {
    GivenNumbers::new(Time::ZERO, TIMES, 3)
}

fn take(of: &mut GivenNumbers, now: Time, number: u64) -> GivenNumber {
    match of.handle_given(now, low(number, GIVEN_NUMBERS), false) {
        Taken::Request(number) => number,
        taken => panic!("{number}: {taken:?}"),
    }
}

/// What feedback that is due tells: received, settled and *n*.
fn told(of: &mut GivenNumbers, now: Time) -> Option<(u32, u32, u16)> {
    of.poll_feedback(now).map(|told| (told.received, told.settled, told.bound))
}

#[test]
fn rt19_the_number_is_the_nearest_to_the_highest() {
    let mut of = GivenNumbers::starting_at(Time::ZERO, TIMES, 3, (1 << 20) - 2);
    for number in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1] {
        let taken = take(&mut of, Time::ZERO, number);
        of.settle(taken);
    }
    assert_eq!(told(&mut of, Time::ZERO), Some((1, (1 << 20) + 1, 3)));
    // Before the first there is none.
    let mut of = numbers();
    assert_eq!(of.handle_given(Time::ZERO, (1 << 20) - 1, false), Taken::Old);
    assert_eq!(of.handle_given(Time::ZERO, 0, false), Taken::Old);
}

#[test]
fn rt20_counts_wrap_as_packets_have_them() {
    let start = (1 << 28) - 1;
    let mut of = GivenNumbers::starting_at(Time::ZERO, TIMES, 9999, start);
    let taken = take(&mut of, Time::ZERO, start + 1);
    of.settle(taken);
    let expected = WorkerCounts { sequence: 0, received: 0, settled: 0, bound: 4095 };
    assert_eq!(of.poll_feedback(Time::ZERO), Some(expected));
}

#[test]
fn rt20_failures_are_told_once_and_what_one_packet_cannot_with_the_next() {
    let mut of = numbers();
    assert_eq!(of.take_failed(), 0);
    (0..20).for_each(|_| of.count_failure());
    assert!(told(&mut of, us(1)).is_some(), "that is news");
    assert_eq!(of.take_failed(), 15);
    assert!(told(&mut of, us(1)).is_some(), "so is the rest");
    assert_eq!((of.take_failed(), of.stats().failed), (5, 20));
    assert_eq!((told(&mut of, us(1)), of.take_failed()), (None, 0));
}

#[test]
fn rt20_feedback_is_told_at_the_end_of_a_turn_with_news() {
    let mut of = numbers();
    assert_eq!(told(&mut of, us(1)), None);
    let taken = [1, 2].map(|number| take(&mut of, us(2), number));
    assert_eq!(told(&mut of, us(2)), None, "nothing is settled");
    taken.into_iter().for_each(|number| of.settle(number));
    assert_eq!(told(&mut of, us(3)), Some((2, 2, 3)), "one for both");
    assert_eq!(told(&mut of, us(3)), None);
    of.set_n(3);
    assert_eq!(told(&mut of, us(4)), None, "it has not changed");
    of.set_n(0);
    assert_eq!(told(&mut of, us(4)), Some((2, 2, 0)));
    assert_eq!(of.handle_given(us(5), 3, true), Taken::Probe);
    assert_eq!(told(&mut of, us(5)), Some((3, 3, 0)));
    assert_eq!(of.handle_given(us(6), 3, true), Taken::Old);
    assert_eq!(told(&mut of, us(6)), None, "a copy is nothing");
}

#[test]
fn rt20_without_news_feedback_is_told_ever_less_often() {
    let mut of = numbers();
    let mut told_at = Vec::new();
    let mut run = |of: &mut GivenNumbers, until_ms: u64| {
        told_at.clear();
        loop {
            let now = of.next_timeout();
            if now >= us(until_ms * 1000) {
                return told_at.clone();
            }
            of.handle_timeout(now);
            assert!(of.poll_feedback(now).is_some(), "it is due");
            told_at.push(now.as_nanos() / 1_000_000);
        }
    };
    assert_eq!(run(&mut of, 4000), [20, 60, 140, 300, 620, 1260, 2260, 3260]);
    // A request that comes is told soon, although nothing is settled, and so on.
    let taken = take(&mut of, us(4_000_000), 1);
    assert_eq!(run(&mut of, 4200), [4020, 4060, 4140]);
    of.settle(taken);
    assert!(of.poll_feedback(us(4_200_000)).is_some());
    assert_eq!(run(&mut of, 4300), [4220, 4260]);
}

#[test]
fn rt21_holes_are_written_off_after_their_time_and_late_packets_dropped() {
    let mut of = numbers();
    let kept = take(&mut of, us(0), 3);
    let late = take(&mut of, us(1999), 1);
    of.handle_timeout(us(1999));
    assert_eq!((of.open_holes(), of.held()), (1, 2));
    assert_eq!(of.next_timeout(), us(2000));
    of.handle_timeout(us(2000));
    assert_eq!(told(&mut of, us(2000)), Some((3, 1, 3)), "the second is written off");
    assert_eq!(of.handle_given(us(2001), 2, false), Taken::Old);
    of.settle(late);
    of.settle(kept);
    assert_eq!(told(&mut of, us(2001)), Some((3, 3, 3)));
    let stats = GivenStats { requests: 2, old: 1, written_off: 1, ..GivenStats::default() };
    assert_eq!(of.stats(), &stats);
}

#[test]
fn rt21_nothing_below_a_probe_is_waited_for() {
    let mut of = numbers();
    let kept = take(&mut of, us(0), 2);
    assert_eq!(of.handle_given(us(1), 6, true), Taken::Probe);
    assert_eq!(told(&mut of, us(1)), Some((6, 5, 3)), "all but the one that is there");
    assert!((1..=6).all(|number| of.handle_given(us(2), number, false) == Taken::Old));
    of.settle(kept);
    // A probe that was overtaken closes what is below it, and not what is above.
    let later = take(&mut of, us(3), 10);
    assert_eq!(of.handle_given(us(4), 8, true), Taken::Probe);
    assert_eq!((told(&mut of, us(4)), of.open_holes()), (Some((10, 8, 3)), 1));
    of.settle(later);
}

#[test]
fn rt21_new_is_what_is_near_above_the_highest() {
    let mut of = numbers();
    assert_eq!(of.handle_given(us(0), 8193, false), Taken::Old);
    let far = take(&mut of, us(0), 8192);
    assert_eq!((of.open_holes(), told(&mut of, us(0))), (8191, None));
    // What the window forgets is written off at once.
    let farther = take(&mut of, us(1), 8192 + 100);
    assert_eq!(told(&mut of, us(1)), Some((8292, 100, 3)));
    assert_eq!(of.handle_given(us(1), 100, false), Taken::Old);
    let last = take(&mut of, us(1), 101);
    [far, farther, last].into_iter().for_each(|number| of.settle(number));
    of.handle_timeout(us(3000));
    assert_eq!((told(&mut of, us(3000)), of.open_holes()), (Some((8292, 8292, 3)), 0));
}

/// What the state of a number that is not settled has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Hole { since: Time },
    Held,
}

/// A table of all numbers that are not settled.
#[derive(Debug)]
struct Model {
    states: BTreeMap<u64, State>,
    highest: u64,
}

impl Model {
    /// Whether a number is new.
    fn take(&mut self, now: Time, number: u64, is_probe: bool) -> bool {
        let is_hole = matches!(self.states.get(&number), Some(State::Hole { .. }));
        let is_new = is_hole || (number > self.highest && number <= self.highest + 8192);
        if !is_new {
            return false;
        }
        for hole in self.highest + 1..number {
            self.states.insert(hole, State::Hole { since: now });
        }
        self.highest = self.highest.max(number);
        match is_probe {
            true => self.states.remove(&number),
            false => self.states.insert(number, State::Held),
        };
        let forgotten = self.highest.saturating_sub(8191);
        let end = if is_probe { forgotten.max(number) } else { forgotten };
        self.close(|hole, _| hole < end);
        true
    }

    fn close(&mut self, is_over: impl Fn(u64, Time) -> bool) {
        self.states.retain(|number, state| match state {
            State::Hole { since } => !is_over(*number, *since),
            State::Held => true,
        });
    }

    fn settled(&self) -> u64 {
        self.highest - self.states.len() as u64
    }
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(200))]

    /// Numbers in any order, with copies, gaps and probes, across each wrap: each is settled once,
    /// holes not before their time and soon after it.
    #[test]
    fn rt21_each_number_is_settled_once(
        seed: u64,
        start in prop_oneof![Just(0u64), Just((1 << 20) - 50), Just((1 << 28) - 50)],
        jumps in prop_oneof![Just(0.0), Just(0.02)],
    ) {
        let mut rng = Rng::new(seed);
        let mut of = GivenNumbers::starting_at(Time::ZERO, TIMES, 3, start);
        let mut model = Model { states: BTreeMap::new(), highest: start };
        let (mut now, mut held) = (Time::ZERO, Vec::new());
        for _ in 0..300 {
            now = now + Duration::from_micros(rng.below(400));
            of.handle_timeout(now);
            model.close(|_, since| now >= since + TIMES.hole + TOGETHER);
            let far = if rng.chance(jumps) { 9000 } else { 6 };
            let number = (model.highest + rng.below(far)).saturating_sub(rng.below(6));
            let is_probe = rng.chance(0.1);
            let state = model.states.get(&number).copied();
            // The model writes off at the end of the time within which the worker may.
            let may_be_over =
                matches!(state, Some(State::Hole { since }) if now >= since + TIMES.hole);
            if !may_be_over && number > start {
                let is_new = model.take(now, number, is_probe);
                match of.handle_given(now, low(number, GIVEN_NUMBERS), is_probe) {
                    Taken::Request(taken) => {
                        prop_assert!(is_new && !is_probe, "{number} again");
                        held.push((number, taken));
                    }
                    Taken::Probe => prop_assert!(is_new && is_probe, "{number} again"),
                    Taken::Old => prop_assert!(!is_new, "{number}"),
                }
            }
            if !held.is_empty() && rng.chance(0.5) {
                let (number, taken) = held.swap_remove(rng.below(held.len() as u64) as usize);
                prop_assert_eq!(model.states.remove(&number), Some(State::Held));
                of.settle(taken);
            }
            let least = model.settled();
            let most = {
                let is_over = |state: &&State| {
                    matches!(state, State::Hole { since } if now >= *since + TIMES.hole)
                };
                least + model.states.values().filter(is_over).count() as u64
            };
            prop_assert!((least..=most).contains(&of.settled), "{} {least} {most}", of.settled);
            prop_assert_eq!(of.held(), held.len() as u64);
            prop_assert_eq!(of.highest(), model.highest);
            prop_assert!(of.marks.len() <= MARKS_MAX);
        }
        // In bounded time nothing is missing any more.
        let end = now + TIMES.hole + TOGETHER;
        of.handle_timeout(end);
        held.into_iter().for_each(|(_, taken)| of.settle(taken));
        let told = of.poll_feedback(end).map(|told| (told.received, told.settled));
        let all = (low(model.highest, GIVEN_NUMBERS), low(model.highest, SETTLED_NUMBERS));
        prop_assert!(model.highest == start || told == Some(all), "{told:?}");
    }
}
