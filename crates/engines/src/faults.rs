//! Delays calls or makes them fail, to test how programs react.
//!
//! The first rule that matches a method, and whose probability selects the request, delays the
//! request or ends its call, or both. The selection is computed from the call and the time of its
//! arrival, and a delay counts from this time. So a held request continues in the same way when the
//! policy is replaced. Later items of the call wait with the request.

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId, Policy,
    PolicyError, PolicyKind, Rng, State, Status, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Failure, Kind, RULES_MAX, listed, micros, within};
use crate::hold::Hold;
use crate::pattern::{ByMethod, Methods};

/// The kind `faults`.
#[derive(Debug)]
pub struct Faults;

const VERSION: Version = Version { kind: "faults", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    rules: Vec<Rule>,
    /// Items that each engine holds at most; others are not delayed.
    #[serde(default = "held_max")]
    held_max: u32,
}

fn held_max() -> u32 {
    4096
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    methods: Methods,
    probability: f64,
    #[serde(default)]
    delay_us: Option<u64>,
    #[serde(default)]
    abort: Option<Abort>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Abort {
    code: Failure,
    #[serde(default)]
    message: String,
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    delayed: u64,
    #[serde(default)]
    aborted: u64,
}

struct Shared {
    rules: Vec<Rule>,
    held_max: usize,
    delayed: AtomicU64,
    aborted: AtomicU64,
}

impl PolicyKind for Faults {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Configuration { rules, held_max } = config::parse(kind, configuration)?;
        listed(kind, "rules", &rules, RULES_MAX)?;
        within(kind, "held_max", &held_max, config::HELD)?;
        for rule in &rules {
            within(kind, "rules.probability", &rule.probability, config::SHARE)?;
            if let Some(delay) = &rule.delay_us {
                within(kind, "rules.delay_us", delay, config::DURATION_US)?;
            } else if rule.abort.is_none() {
                return Err(kind.wrong("each of `rules` must have `delay_us`, `abort` or both"));
            }
        }
        let contents: Contents = config::contents(state, VERSION)?;
        let delayed = AtomicU64::new(contents.delayed);
        let aborted = AtomicU64::new(contents.aborted);
        let held_max = held_max as usize;
        Ok(Box::new(Made(Arc::new(Shared { rules, held_max, delayed, aborted }))))
    }
}

struct Made(Arc<Shared>);

impl Policy for Made {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        let (shared, about) = (Arc::clone(&self.0), ByMethod::default());
        Ok(Box::new(FaultEngine { shared, about, hold: Hold::default() }))
    }

    fn state(&self) -> State {
        let delayed = self.0.delayed.load(Ordering::Relaxed);
        let aborted = self.0.aborted.load(Ordering::Relaxed);
        State::new(VERSION, &Contents { delayed, aborted })
    }

    fn report(&self) -> Value {
        json!({
            "delayed": self.0.delayed.load(Ordering::Relaxed),
            "aborted": self.0.aborted.load(Ordering::Relaxed),
        })
    }
}

struct FaultEngine {
    shared: Arc<Shared>,
    /// The rules that are about each method.
    about: ByMethod<Vec<usize>>,
    /// By the time at which they go on.
    hold: Hold<Time>,
}

impl Engine for FaultEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        _: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let rules = self.shared.rules.iter().map(|rule| &rule.methods);
        self.about.insert(method, Methods::about(rules, name));
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                self.handle(work, item);
            }
        }
        while let Some((due, ..)) = self.hold.first() {
            if due > work.now() {
                return work.wake_at(due);
            }
            let item = self.hold.pop_first().expect("it was there");
            self.pass(work, item);
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        self.hold.give_back(decompose);
        None
    }
}

impl FaultEngine {
    fn handle(&mut self, work: &mut Work<'_>, item: Item) {
        let due = match work.kind(&item) {
            ItemKind::Request if self.hold.len() < self.shared.held_max => {
                let delay = self.rule(work, &item).and_then(|rule| rule.delay_us);
                let due = delay.map(|us| work.arrived(&item).plus_nanos(micros(us)));
                due.filter(|due| *due > work.now())
            }
            ItemKind::Request | ItemKind::Cancel => None,
            _ => self.hold.rank_of(work.call_id(&item), work.direction(&item)),
        };
        match due {
            Some(due) => self.hold.push(work, item, due),
            None => self.pass(work, item),
        }
    }

    /// Passes an item on, or ends its call.
    fn pass(&self, work: &mut Work<'_>, item: Item) {
        let is_request = work.kind(&item) == ItemKind::Request && !work.is_void(&item);
        let rule = if is_request { self.rule(work, &item) } else { None };
        if let Some(us) = rule.and_then(|rule| rule.delay_us) {
            let is_late = work.now() >= work.arrived(&item).plus_nanos(micros(us));
            self.shared.delayed.fetch_add(u64::from(is_late), Ordering::Relaxed);
        }
        match rule.and_then(|rule| rule.abort.as_ref()) {
            None => work.forward(item),
            Some(Abort { code, message }) => {
                self.shared.aborted.fetch_add(1, Ordering::Relaxed);
                work.end(item, Status::new(code.0, message.clone()));
            }
        }
    }

    /// The rule that falls on a request: always the same.
    fn rule(&self, work: &Work<'_>, item: &Item) -> Option<&Rule> {
        let about = self.about.get(work.call(item).method)?;
        let call = work.call_id(item).to_number();
        let seed = work.arrived(item).as_nanos().rotate_left(32) ^ call;
        about.iter().map(|at| (at, &self.shared.rules[*at])).find_map(|(at, rule)| {
            let mut rng = Rng::new(seed.wrapping_add(*at as u64));
            // The first number of a generator is too like those of seeds that are near.
            rng.next_u64();
            rng.chance(rule.probability).then_some(rule)
        })
    }
}
