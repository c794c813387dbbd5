//! Changes while calls run (E5 to E7).

use std::collections::HashMap;
use std::sync::Arc;

use petasos_base::Rng;
use proptest::prelude::*;

use super::support::*;
use crate::*;

#[test]
fn e5_what_a_detached_engine_held_goes_on_in_order() {
    let (mut datapath, _) = datapath(&[Habit::Hold(1000), Habit::Pass]);
    let first = request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    let second = request(&mut datapath, 2);
    let state = datapath.detach(0, &mut TestSchema::default()).unwrap().expect("it has a state");
    assert_eq!((state.kind.as_str(), state.version, state.json.as_str()), ("test", 2, "0"));
    datapath.run(Time::ZERO);
    let out: Vec<_> =
        take_all(&mut datapath, Direction::Outbound).into_iter().map(|item| item.call).collect();
    assert_eq!(out, [first, second]);
    check(&datapath);
}

#[test]
fn e7_what_an_engine_would_leave_behind_another_datapath_goes_on_from() {
    let (mut other, _) = datapath(&[Habit::Pass]);
    let (mut datapath, _) = datapath(&[Habit::Pass]);
    let schema = &mut TestSchema::default();
    (0..3).for_each(|number| _ = request(&mut datapath, number));
    datapath.run(Time::ZERO);
    let state = datapath.engine_state(0, schema).unwrap().expect("it has a state");
    assert_eq!(state.json, "3");
    let policy = other.policy(0).cloned().unwrap();
    other.detach(0, schema).unwrap();
    other.attach_again(0, policy, &Left::from(state), schema).unwrap();
    assert_eq!(other.detach(0, schema).unwrap().unwrap().json, "3");
    request(&mut datapath, 3);
    datapath.run(Time::ZERO);
    assert_eq!(datapath.detach(0, schema).unwrap().unwrap().json, "4", "the engine has gone on");
    let nothing = datapath.engine_state(0, schema);
    assert_eq!(nothing, Err(ChangeError::NoSuchPlace { place: 0, engines: 0 }));
}

#[test]
fn e5_an_engine_that_was_taken_out_and_comes_back_sees_nothing_twice() {
    let (mut datapath, seen) = datapath(&[Habit::Pass, Habit::Pass]);
    let schema = &mut TestSchema::default();
    // More than the engines take in a run: some are between them then.
    (0..3 * BATCH_MAX).for_each(|number| _ = request(&mut datapath, number));
    datapath.run(Time::ZERO);
    let policy = datapath.policy(1).cloned().unwrap();
    let left = datapath.take_out(1, schema).unwrap();
    datapath.attach_again(1, policy, &left, schema).unwrap();
    let policy = datapath.policy(0).cloned().unwrap();
    let left = datapath.take_out(0, schema).unwrap();
    datapath.attach(0, policy.clone(), schema).unwrap();
    datapath.detach(0, schema).unwrap();
    datapath.attach_again(0, policy.clone(), &left, schema).unwrap();
    while datapath.run(Time::ZERO).has_more {}
    let mut all = seen.lock().unwrap().clone();
    all.sort_unstable();
    let each = [0, 1].into_iter().flat_map(|policy| (0..3 * BATCH_MAX).map(move |n| (policy, n)));
    assert_eq!(all, each.collect::<Vec<_>>());
    let state = datapath.detach(0, schema).unwrap().unwrap();
    assert_eq!(state.json, (3 * BATCH_MAX).to_string(), "it has gone on from its own state");
    // What is left behind does not hold for other items.
    let left = datapath.take_out(0, schema).unwrap();
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len() as u32, 3 * BATCH_MAX);
    datapath.attach_again(0, policy, &left, schema).unwrap();
    seen.lock().unwrap().clear();
    request(&mut datapath, 5);
    datapath.run(Time::ZERO);
    assert_eq!(*seen.lock().unwrap(), [(0, 5)]);
    check(&datapath);
}

#[test]
fn e5_what_another_engine_holds_stays_there_when_one_is_taken_out_and_comes_back() {
    let (mut datapath, _) = datapath(&[Habit::Pass, Habit::Hold(1000)]);
    let schema = &mut TestSchema::default();
    request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    assert_eq!(datapath.counts().held, 1);
    let policy = datapath.policy(0).cloned().unwrap();
    let left = datapath.take_out(0, schema).unwrap();
    datapath.attach_again(0, policy, &left, schema).unwrap();
    assert_eq!(datapath.counts().held, 1);
    check(&datapath);
}

#[test]
fn e5_a_successor_goes_on_from_the_state_and_with_what_was_held() {
    let (mut datapath, seen) = datapath(&[Habit::Hold(1000)]);
    request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    let successor = policy(9, Habit::Pass, &seen);
    datapath.replace(0, successor, &mut TestSchema::default()).unwrap();
    datapath.run(Time::ZERO);
    assert_eq!(take_all(&mut datapath, Direction::Outbound).len(), 1);
    assert_eq!(*seen.lock().unwrap(), [(9, 1)]);
    let state = datapath.detach(0, &mut TestSchema::default()).unwrap().unwrap();
    assert_eq!(state.json, "1");
}

#[test]
fn e5_what_undoes_a_replacement_goes_on_from_the_state_before_it() {
    let (mut datapath, seen) = datapath(&[Habit::Pass]);
    let schema = &mut TestSchema::default();
    let earlier = datapath.policy(0).cloned().unwrap();
    request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    let replaced = datapath.replace(0, policy(9, Habit::Pass, &seen), schema).unwrap();
    // Its own state is of no use to an earlier version.
    request(&mut datapath, 2);
    datapath.run(Time::ZERO);
    datapath.replace_back(0, earlier, &replaced, schema).unwrap();
    let state = datapath.detach(0, schema).unwrap().unwrap();
    assert_eq!(state.json, "1");
}

#[test]
fn e5_a_refused_change_leaves_the_earlier_engine_with_its_state() {
    let (mut datapath, seen) = datapath(&[Habit::Pass]);
    request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    let stubborn = |number| -> Arc<dyn Policy> {
        Arc::new(TestPolicy { number, habit: Habit::Pass, seen: seen.clone(), is_stubborn: true })
    };
    let refused = datapath.replace(0, stubborn(5), &mut TestSchema::default());
    assert!(matches!(refused, Err(ChangeError::Policy(PolicyError::Configuration { .. }))));
    let state = datapath.detach(0, &mut TestSchema::default()).unwrap().unwrap();
    assert_eq!(state.json, "1", "it is the earlier one");
    // One that does not even take its own state back refuses calls.
    datapath.attach(0, stubborn(6), &mut TestSchema::default()).unwrap();
    let broken = datapath.replace(0, stubborn(7), &mut TestSchema::default());
    assert!(matches!(broken, Err(ChangeError::Broken { refused: Some(_), .. })), "{broken:?}");
    take_all(&mut datapath, Direction::Outbound);
    request(&mut datapath, 2);
    datapath.run(Time::ZERO);
    assert!(datapath.take(Direction::Outbound).is_none(), "the place is closed");
    let end = datapath.take(Direction::Inbound).unwrap();
    assert_eq!((end.status.unwrap().code(), end.has_not_run), (Code::Unavailable, true));
}

#[test]
fn places_that_are_not_there_are_refused() {
    let (mut datapath, seen) = datapath(&[Habit::Pass]);
    let mut schema = TestSchema::default();
    let no_place = |place| ChangeError::NoSuchPlace { place, engines: 1 };
    let pass = policy(1, Habit::Pass, &seen);
    assert_eq!(datapath.attach(2, pass.clone(), &mut schema), Err(no_place(2)));
    assert_eq!(datapath.detach(1, &mut schema), Err(no_place(1)));
    assert_eq!(datapath.replace(1, pass.clone(), &mut schema), Err(no_place(1)));
    assert_eq!(datapath.reorder(0, 1, &mut schema), Err(no_place(1)));
    for place in 1..64 {
        datapath.attach(place, pass.clone(), &mut schema).unwrap();
    }
    assert_eq!(datapath.attach(0, pass, &mut schema), Err(ChangeError::TooMany));
}

#[test]
fn e7_items_pass_each_engine_once_although_the_chain_is_reordered() {
    let habits = [Habit::Hold(10), Habit::Pass, Habit::Hold(10)];
    for (from, to) in [(0, 2), (2, 0), (0, 1), (1, 0), (1, 2), (1, 1)] {
        let (mut datapath, seen) = datapath(&habits);
        request(&mut datapath, 1);
        for now in [0, 10] {
            datapath.run(Time::from_nanos(now));
            request(&mut datapath, 2 + now as u32);
        }
        datapath.reorder(from, to, &mut TestSchema::default()).unwrap();
        for now in 2..22 {
            datapath.run(Time::from_nanos(10 * now));
        }
        let out = take_all(&mut datapath, Direction::Outbound);
        assert_eq!(out.len(), 3, "{from} to {to}");
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        let all: Vec<_> =
            (0..3).flat_map(|engine| [(engine, 1), (engine, 2), (engine, 12)]).collect();
        assert_eq!(seen, all, "{from} to {to}");
        check(&datapath);
    }
}

#[test]
fn e2_what_an_engine_has_dropped_is_found_when_it_is_detached() {
    let (mut datapath, _) = datapath(&[Habit::Drop(1.0)]);
    let id = request(&mut datapath, 1);
    datapath.run(Time::ZERO);
    assert_eq!(datapath.counts().held, 1);
    datapath.detach(0, &mut TestSchema::default()).unwrap();
    let end = datapath.take(Direction::Inbound).expect("the caller is told");
    assert_eq!((end.call, end.status.unwrap().code()), (id, Code::Internal));
    check(&datapath);
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(2000))]

    /// Calls, engines and changes at random: every item is taken once, is void, or still there; no
    /// engine passes an item twice; items of a call come in order; the counts add up.
    #[test]
    fn e1_to_e7_nothing_is_lost_or_repeated_by_changes(seed: u64) {
        World::new(seed).run();
    }
}

struct World {
    rng: Rng,
    seed: u64,
    datapath: Datapath,
    seen: Seen,
    now: u64,
    next: u32,
    calls: Vec<(CallId, bool)>,
    /// Where the items that are there belong: call and number.
    inside: HashMap<usize, (CallId, u32)>,
    /// The number of the latest item of a call that left in a direction.
    latest: HashMap<(CallId, Direction), u32>,
    requests: Vec<CallId>,
    ends: Vec<CallId>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut datapath = Datapath::new(200, seed);
        let seen = Seen::default();
        // The first and the last one stay where they are.
        for number in [0, 1] {
            let pass = policy(number, Habit::Pass, &seen);
            datapath.attach(number as usize, pass, &mut TestSchema::default()).unwrap();
        }
        let (calls, inside, latest) = (Vec::new(), HashMap::new(), HashMap::new());
        let (requests, ends) = (Vec::new(), Vec::new());
        let rng = Rng::new(seed);
        World { rng, seed, datapath, seen, now: 0, next: 1, calls, inside, latest, requests, ends }
    }

    fn run(mut self) {
        for _ in 0..300 {
            match self.rng.below(10) {
                0..4 => self.begin(),
                4..6 => self.go_on(),
                6 => self.change(),
                _ => self.turn(),
            }
            check(&self.datapath);
        }
        while self.datapath.len() > 2 {
            self.datapath.detach(1, &mut TestSchema::default()).unwrap();
        }
        (0..20).for_each(|_| self.turn());
        let counts = self.datapath.counts();
        assert_eq!((counts.queued, counts.held), (0, 0), "seed {}", self.seed);
        assert!(self.inside.is_empty(), "seed {}: {:?}", self.seed, self.inside);
        self.each_engine_once();
    }

    fn begin(&mut self) {
        let is_stream = self.rng.chance(0.5);
        let Ok(id) = self.datapath.begin(call(Direction::Outbound, is_stream)) else { return };
        self.calls.push((id, is_stream));
        self.submit(id, ItemKind::Request);
    }

    fn go_on(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let (id, is_stream) = self.calls[self.rng.below(self.calls.len() as u64) as usize];
        let has_begun = self.requests.contains(&id);
        match self.rng.below(12) {
            0..4 if is_stream => self.submit(id, ItemKind::Message),
            11 if self.rng.chance(0.1) => {
                let now = Time::from_nanos(self.now);
                self.datapath.end(id, Status::unavailable("by the service"), now);
            }
            4 if is_stream && has_begun => self.submit(id, ItemKind::Head),
            5 => self.submit(id, ItemKind::Cancel),
            6..8 if has_begun && !self.ends.contains(&id) => {
                self.ends.push(id);
                self.submit(id, ItemKind::End);
            }
            8.. if is_stream && has_begun && !self.ends.contains(&id) => {
                self.submit_towards(id, ItemKind::Message, Direction::Inbound);
            }
            _ => {}
        }
    }

    fn submit(&mut self, id: CallId, kind: ItemKind) {
        let is_callees = matches!(kind, ItemKind::Head | ItemKind::End);
        let direction = if is_callees { Direction::Inbound } else { Direction::Outbound };
        self.submit_towards(id, kind, direction);
    }

    fn submit_towards(&mut self, id: CallId, kind: ItemKind, direction: Direction) {
        let number = self.next;
        let item = Submission::new(kind, direction, number);
        if let Ok(index) = self.datapath.submit(id, item, Time::from_nanos(self.now)) {
            self.next += 1;
            assert_eq!(self.inside.insert(index, (id, number)), None, "seed {}", self.seed);
        }
    }

    fn change(&mut self) {
        let mut schema = TestSchema::default();
        let habit = match self.rng.below(4) {
            0 => Habit::Pass,
            1 => Habit::Hold(self.rng.below(5)),
            2 => Habit::End(0.1),
            _ => Habit::Drop(0.1),
        };
        let between = |rng: &mut Rng, len: usize| 1 + rng.below(len as u64 - 2) as usize;
        let len = self.datapath.len();
        let any = policy(100, habit, &Seen::default());
        match self.rng.below(6) {
            0 | 1 if len < 8 => self.datapath.attach(1, any, &mut schema).unwrap(),
            2 if len > 2 => {
                let place = between(&mut self.rng, len);
                self.datapath.detach(place, &mut schema).map(drop).unwrap();
            }
            3 if len > 2 => {
                let place = between(&mut self.rng, len);
                self.datapath.replace(place, any, &mut schema).unwrap();
            }
            _ if len > 2 => {
                let (from, to) = (between(&mut self.rng, len), between(&mut self.rng, len));
                self.datapath.reorder(from, to, &mut schema).unwrap();
            }
            _ => {}
        }
    }

    fn turn(&mut self) {
        self.now += 1;
        self.datapath.run(Time::from_nanos(self.now));
        for direction in Direction::ALL {
            while let Some(item) = self.datapath.take(direction) {
                self.took(direction, item);
            }
        }
        while let Some((index, _)) = self.datapath.pop_void() {
            // Items that engines have made have nothing at the service.
            self.inside.remove(&index);
        }
    }

    fn took(&mut self, direction: Direction, item: Finished) {
        let seed = self.seed;
        if let Some((id, number)) = self.inside.remove(&item.index) {
            assert_eq!(id, item.call, "seed {seed}");
            let latest = self.latest.insert((id, direction), number);
            // What an engine had dropped comes late, as a cancel.
            assert!(
                item.is_from_engine || latest.is_none_or(|latest| latest < number),
                "seed {seed}: {number} after {latest:?}, {item:?}"
            );
        }
        match item.kind {
            ItemKind::Request => {
                assert!(!self.requests.contains(&item.call), "seed {seed}: twice");
                self.requests.push(item.call);
            }
            ItemKind::End => {
                let is_twice = self.calls.iter().all(|(id, _)| *id != item.call);
                assert!(!is_twice, "seed {seed}: two ends");
                assert!(!item.has_not_run || !self.requests.contains(&item.call), "seed {seed}");
                self.calls.retain(|(id, _)| *id != item.call);
            }
            _ => {}
        }
    }

    /// The two engines that were there all the time have passed no item twice.
    fn each_engine_once(&self) {
        let mut seen: Vec<_> =
            self.seen.lock().unwrap().iter().copied().filter(|(_, number)| *number > 0).collect();
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all, "seed {}: an engine has passed an item twice", self.seed);
    }
}
