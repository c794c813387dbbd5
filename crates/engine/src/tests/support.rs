//! Engines, schemas and calls for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::*;

/// What a test's engine does with items.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Habit {
    Pass,
    /// Holds each item for some runs.
    Hold(u64),
    /// Ends calls with this probability.
    End(f64),
    /// Drops items, against the rules, with this probability.
    Drop(f64),
}

/// What an engine has seen: the number of the item, which is its bytes, and of the policy.
pub type Seen = Arc<Mutex<Vec<(u32, u32)>>>;

pub struct TestPolicy {
    pub number: u32,
    pub habit: Habit,
    pub seen: Seen,
    /// It does not make engines from states.
    pub is_stubborn: bool,
}

struct TestEngine {
    number: u32,
    habit: Habit,
    seen: Seen,
    held: VecDeque<(Time, Item)>,
    /// Items that were passed on, by this engine and those before it.
    passed: u64,
}

pub struct TestKind;

pub const VERSION: Version = Version { kind: "test", version: 2 };

impl PolicyKind for TestKind {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(&self, configuration: &str, _: Option<&State>) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &dyn PolicyKind = self;
        let habit = kind.parse(configuration)?;
        Ok(Box::new(TestPolicy { number: 0, habit, seen: Seen::default(), is_stubborn: false }))
    }
}

pub fn policy(number: u32, habit: Habit, seen: &Seen) -> Arc<dyn Policy> {
    Arc::new(TestPolicy { number, habit, seen: seen.clone(), is_stubborn: false })
}

impl Policy for TestPolicy {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        if self.is_stubborn && state.is_some() {
            return Err((&TestKind as &dyn PolicyKind).wrong("it takes no state"));
        }
        let passed = state.map_or(Ok(0), |state| state.read(VERSION))?;
        let (number, habit, seen) = (self.number, self.habit, self.seen.clone());
        Ok(Box::new(TestEngine { number, habit, seen, held: VecDeque::new(), passed }))
    }

    fn state(&self) -> State {
        State::new(VERSION, &self.number)
    }
}

impl Engine for TestEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        while self.held.front().is_some_and(|(due, _)| *due <= work.now()) {
            let (_, item) = self.held.pop_front().expect("there is one");
            self.pass(work, item);
        }
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                match self.habit {
                    Habit::Pass => self.pass(work, item),
                    Habit::Hold(nanos) => {
                        self.held.push_back((work.now().plus_nanos(nanos), item));
                    }
                    Habit::End(chance) if work.rng().chance(chance) => {
                        work.end(item, Status::permission_denied("by a test"));
                    }
                    Habit::Drop(chance) if work.rng().chance(chance) => drop(item),
                    Habit::End(_) | Habit::Drop(_) => self.pass(work, item),
                }
            }
        }
        if let Some((due, _)) = self.held.front() {
            work.wake_at(*due);
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        self.held.into_iter().for_each(|(_, item)| decompose.give_back(item));
        Some(State::new(VERSION, &self.passed))
    }
}

impl TestEngine {
    fn pass(&mut self, work: &mut Work<'_>, item: Item) {
        if !work.is_void(&item) {
            self.passed += 1;
            self.seen.lock().unwrap().push((self.number, work.bytes(&item)));
        }
        work.forward(item);
    }
}

/// A schema in which each method has these fields.
#[derive(Default)]
pub struct TestSchema {
    pub fields: Vec<(&'static str, FieldKind)>,
    /// Fields that engines want now.
    pub wanted: Vec<(MethodId, String, FieldId, bool)>,
}

impl Schema for TestSchema {
    fn field(
        &mut self,
        method: MethodId,
        path: &str,
        id: FieldId,
        is_written: bool,
    ) -> Result<FieldKind, FieldError> {
        let known = self.fields.iter().find(|(known, _)| *known == path);
        let unknown = || FieldError::Unknown { method: "m".to_owned(), path: path.to_owned() };
        let (_, kind) = known.ok_or_else(unknown)?;
        self.wanted.retain(|(.., wanted, _)| *wanted != id);
        self.wanted.push((method, path.to_owned(), id, is_written));
        Ok(*kind)
    }

    fn forget(&mut self, id: FieldId) {
        self.wanted.retain(|(.., wanted, _)| *wanted != id);
    }
}

pub fn call(requests: Direction, is_stream: bool) -> Call {
    Call {
        application: Application(1),
        peer: Peer(2),
        method: MethodId(3),
        requests,
        is_stream,
        is_idempotent: false,
        is_sealed: false,
        attempt: 0,
        began: Time::ZERO,
        deadline: Time::NEVER,
        identity: None,
    }
}

/// A datapath with an engine of each habit, that have seen what `Seen` says.
pub fn datapath(habits: &[Habit]) -> (Datapath, Seen) {
    let mut datapath = Datapath::new(1000, 7);
    let seen = Seen::default();
    for (number, habit) in habits.iter().enumerate() {
        let policy = policy(number as u32, *habit, &seen);
        datapath.attach(number, policy, &mut TestSchema::default()).expect("it is placed");
    }
    (datapath, seen)
}

/// Begins a unary call of the application, whose request has so many bytes.
pub fn request(datapath: &mut Datapath, bytes: u32) -> CallId {
    let id = datapath.begin(call(Direction::Outbound, false)).expect("there is room");
    submit(datapath, id, ItemKind::Request, bytes).expect("the call is there");
    id
}

/// Puts an item of a call of the application in.
pub fn submit(
    datapath: &mut Datapath,
    id: CallId,
    kind: ItemKind,
    bytes: u32,
) -> Result<usize, Gone> {
    let direction = match kind {
        ItemKind::Head | ItemKind::End => Direction::Inbound,
        _ => Direction::Outbound,
    };
    datapath.submit(id, Submission::new(kind, direction, bytes), Time::ZERO)
}

/// Everything that can be taken.
pub fn take_all(datapath: &mut Datapath, direction: Direction) -> Vec<Finished> {
    std::iter::from_fn(|| datapath.take(direction)).collect()
}

pub fn free_void(datapath: &mut Datapath) -> usize {
    std::iter::from_fn(|| datapath.pop_void()).count()
}

pub fn check(datapath: &Datapath) {
    let Counts { entered, left, void, queued, held } = datapath.counts();
    assert_eq!(entered, left + void + queued + held, "{:?}", datapath.counts());
}
