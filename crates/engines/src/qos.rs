//! Orders the messages that an application sends and receives (mRPC, section 6: global QoS).
//!
//! There are three orders. *Small first*: items above a threshold of bytes wait while smaller ones
//! arrive. *Earliest deadline first*. *Shares*: classes of methods get parts of the bytes by
//! weight. Shares use start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). Like deficit
//! round robin, it gives each class its part whatever the sizes are. As an order by rank, it needs
//! no queue for each class.
//!
//! With a rate in bytes, items wait for it, and the order decides which item goes next. The rate
//! belongs to the whole policy: engines that have items to send divide it by the weights of their
//! applications. Without a rate, the policy orders only items that arrive together.
//!
//! Items that have passed wait further on, where no policy orders them. Therefore the bytes of
//! unanswered requests can be limited for each application. In the order *small first*, the limit
//! applies to large requests, and small ones then overtake them here.
//!
//! Items of a call keep their order in each direction. No item waits longer than `hold_max_us`, and
//! at most `held_max` items wait in each direction. Further items pass, at the cost of others.

mod flight;
mod order;
mod share;

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId, Policy,
    PolicyError, PolicyKind, State, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, Limit, RULES_MAX, listed, micros, within};
use crate::hold::Hold;
use crate::pattern::ByMethod;
use crate::rate::{Bucket, Rate};
use flight::Flight;
use order::{Order, Tags};
use share::{Activity, Weight};

/// The kind `qos`.
#[derive(Debug)]
pub struct Qos;

const VERSION: Version = Version { kind: "qos", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    order: Order,
    #[serde(default = "unlimited")]
    bytes_per_s: Limit,
    /// Bytes that may go at once.
    #[serde(default = "burst_bytes")]
    burst_bytes: u64,
    /// Bytes of each application's requests that may be without an answer. A single one always may.
    #[serde(default = "unlimited")]
    in_flight_bytes_max: Limit,
    /// Of applications that are not listed, each has the weight 1.
    #[serde(default)]
    applications: Vec<Weight>,
    #[serde(default = "held_max")]
    held_max: u32,
    #[serde(default = "hold_max_us")]
    hold_max_us: u64,
}

fn unlimited() -> Limit {
    Limit::Unlimited
}

fn burst_bytes() -> u64 {
    65_536
}

fn held_max() -> u32 {
    1024
}

fn hold_max_us() -> u64 {
    1000
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    passed: u64,
    #[serde(default)]
    passed_late: u64,
}

/// What outlives an engine: when its buckets are full again, by direction.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    full_at_ns: [u64; 2],
    /// Calls whose requests are without an answer, and these requests' bytes.
    #[serde(default)]
    in_flight: Vec<(u64, u32)>,
}

struct Shared {
    order: Order,
    rate: Option<Rate>,
    in_flight_bytes_max: Option<u64>,
    applications: Vec<Weight>,
    held_max: usize,
    hold_max_ns: u64,
    /// The weights of engines that hold items.
    active: Arc<AtomicU64>,
    passed: AtomicU64,
    /// Those that had waited for too long, or were too many.
    passed_late: AtomicU64,
}

impl PolicyKind for Qos {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let configuration: Configuration = config::parse(kind, configuration)?;
        configuration.order.check(kind)?;
        if let Limit::AtMost(rate) = &configuration.bytes_per_s {
            within(kind, "bytes_per_s", rate, 1..=1_000_000_000_000)?;
        }
        if let Limit::AtMost(bytes) = &configuration.in_flight_bytes_max {
            within(kind, "in_flight_bytes_max", bytes, 1..=1 << 40)?;
        }
        within(kind, "burst_bytes", &configuration.burst_bytes, 1..=1 << 32)?;
        within(kind, "held_max", &configuration.held_max, config::HELD)?;
        within(kind, "hold_max_us", &configuration.hold_max_us, config::DURATION_US)?;
        if !configuration.applications.is_empty() {
            listed(kind, "applications", &configuration.applications, RULES_MAX)?;
        }
        for Weight { weight, .. } in &configuration.applications {
            within(kind, "applications.weight", weight, share::WEIGHT)?;
        }
        let contents: Contents = config::contents(state, VERSION)?;
        Ok(Box::new(Ordered(Arc::new(Shared::new(configuration, &contents)))))
    }
}

impl Shared {
    fn new(configuration: Configuration, contents: &Contents) -> Shared {
        let rate = match configuration.bytes_per_s {
            Limit::AtMost(rate) => Some(Rate::new(rate, configuration.burst_bytes)),
            Limit::Unlimited => None,
        };
        let in_flight_bytes_max = match configuration.in_flight_bytes_max {
            Limit::AtMost(bytes) => Some(bytes),
            Limit::Unlimited => None,
        };
        Shared {
            order: configuration.order,
            rate,
            in_flight_bytes_max,
            applications: configuration.applications,
            held_max: configuration.held_max as usize,
            hold_max_ns: micros(configuration.hold_max_us),
            active: Arc::default(),
            passed: AtomicU64::new(contents.passed),
            passed_late: AtomicU64::new(contents.passed_late),
        }
    }

    /// Of a request that counts towards it: how many bytes may be in flight.
    fn limit_of(&self, work: &Work<'_>, item: &Item) -> Option<u64> {
        let max = self.in_flight_bytes_max?;
        let counts = work.kind(item) == ItemKind::Request && self.order.counts(work.bytes(item));
        counts.then_some(max)
    }

    fn weight(&self, application: &str) -> u64 {
        let known = self.applications.iter().find(|known| known.application == application);
        known.map_or(1, |known| u64::from(known.weight))
    }
}

struct Ordered(Arc<Shared>);

impl Policy for Ordered {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let contents: EngineContents = config::contents(state, VERSION)?;
        let shared = Arc::clone(&self.0);
        let lanes = contents.full_at_ns.map(Lane::new);
        let activity = Activity::new(&shared.active);
        let classes = ByMethod::default();
        let flight = Flight::restore(&contents.in_flight);
        Ok(Box::new(QosEngine { shared, classes, lanes, flight, activity }))
    }

    fn state(&self) -> State {
        let passed = self.0.passed.load(Ordering::Relaxed);
        let passed_late = self.0.passed_late.load(Ordering::Relaxed);
        State::new(VERSION, &Contents { passed, passed_late })
    }

    fn report(&self) -> Value {
        json!({
            "passed": self.0.passed.load(Ordering::Relaxed),
            "passed_late": self.0.passed_late.load(Ordering::Relaxed),
        })
    }
}

struct QosEngine {
    shared: Arc<Shared>,
    /// Of each method, its class of the shares.
    classes: ByMethod<usize>,
    /// By direction.
    lanes: [Lane; 2],
    flight: Flight,
    activity: Activity,
}

/// What goes in one direction.
struct Lane {
    hold: Hold<u64>,
    tags: Tags,
    bucket: Bucket,
}

impl Lane {
    fn new(full_at_ns: u64) -> Lane {
        let bucket = Bucket::default();
        bucket.set_full_at_ns(full_at_ns);
        Lane { hold: Hold::default(), tags: Tags::default(), bucket }
    }
}

impl Engine for QosEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        self.activity.set_weight(self.shared.weight(declare.application()));
        self.classes.insert(method, self.shared.order.class(name));
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        // What comes in one direction may make room in the other.
        let has_urgent = Direction::ALL.map(|direction| self.fill(work, direction));
        self.activity.set(self.lanes.iter().any(|lane| !lane.hold.is_empty()));
        for (direction, has_urgent) in Direction::ALL.into_iter().zip(has_urgent) {
            self.release(work, direction, has_urgent);
        }
        self.activity.set(self.lanes.iter().any(|lane| !lane.hold.is_empty()));
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let full_at_ns = self.lanes.each_ref().map(|lane| lane.bucket.full_at_ns());
        self.lanes.into_iter().for_each(|lane| lane.hold.give_back(decompose));
        let in_flight = self.flight.into_open(decompose);
        Some(State::new(VERSION, &EngineContents { full_at_ns, in_flight }))
    }
}

impl QosEngine {
    /// Takes what has come. Whether some of it goes before what waits.
    fn fill(&mut self, work: &mut Work<'_>, direction: Direction) -> bool {
        let mut has_urgent = false;
        while let Some(item) = work.next(direction) {
            self.flight.note(work, &item);
            // What else there is of the call is void.
            if work.kind(&item) == ItemKind::Cancel {
                work.forward(item);
                continue;
            }
            let lane = &mut self.lanes[direction as usize];
            let class = self.classes.get(work.call(&item).method).copied().unwrap_or(0);
            let (bytes, deadline) = (work.bytes(&item), work.call(&item).deadline);
            let rank = lane.tags.rank(&self.shared.order, class, bytes, deadline);
            has_urgent |= rank == 0;
            if rank == 0 && self.passes_at_once(work, direction, &item) {
                self.pass(work, direction, item);
            } else {
                self.lanes[direction as usize].hold.push(work, item, rank);
            }
        }
        has_urgent
    }

    /// Whether an item of the lowest rank need not be held: nothing is before it.
    fn passes_at_once(&self, work: &Work<'_>, direction: Direction, item: &Item) -> bool {
        let Lane { hold, bucket, .. } = &self.lanes[direction as usize];
        let waits = |rate: &Rate| {
            rate.wait_for(bucket, work.now(), self.activity.cost(work.bytes(item))).is_some()
        };
        // Others that come with it may start as early.
        let is_first = matches!(self.shared.order, Order::SmallFirst { .. });
        is_first && hold.is_empty() && !self.shared.rate.as_ref().is_some_and(waits)
    }

    fn release(&mut self, work: &mut Work<'_>, direction: Direction, has_urgent: bool) {
        while let Some(since) = self.lanes[direction as usize].hold.oldest() {
            match self.next(work, direction, since, has_urgent) {
                Ok(item) => self.pass(work, direction, item),
                Err(due) => return work.wake_at(due),
            }
        }
    }

    /// The item that goes next, or when there may be one.
    fn next(
        &mut self,
        work: &Work<'_>,
        direction: Direction,
        since: Time,
        has_urgent: bool,
    ) -> Result<Item, Time> {
        let late_at = since.plus_nanos(self.shared.hold_max_ns);
        let due = self.waits_until(work, direction, has_urgent);
        let hold = &mut self.lanes[direction as usize].hold;
        let item = match due {
            _ if late_at <= work.now() => hold.pop_oldest(),
            Some(due) if hold.len() <= self.shared.held_max => return Err(due.min(late_at)),
            _ => hold.pop_first(),
        };
        if due.is_some() {
            self.shared.passed_late.fetch_add(1, Ordering::Relaxed);
        }
        Ok(item.expect("there is one"))
    }

    /// Until when the next item is to wait, if it is.
    fn waits_until(
        &mut self,
        work: &Work<'_>,
        direction: Direction,
        has_urgent: bool,
    ) -> Option<Time> {
        let lane = &mut self.lanes[direction as usize];
        let (rank, item) = lane.hold.first()?;
        if work.is_void(item) {
            return None;
        }
        // The end of a call wakes the engine.
        if self
            .shared
            .limit_of(work, item)
            .is_some_and(|max| self.flight.is_full(work.bytes(item), max))
        {
            return Some(Time::NEVER);
        }
        let Some(rate) = &self.shared.rate else {
            // Until a batch brings no small ones any more.
            return (self.shared.order.waits(rank) && has_urgent).then_some(work.now());
        };
        let cost = self.activity.cost(work.bytes(item));
        rate.wait_for(&lane.bucket, work.now(), cost)
    }

    fn pass(&mut self, work: &mut Work<'_>, direction: Direction, item: Item) {
        let lane = &mut self.lanes[direction as usize];
        if !work.is_void(&item) {
            if let Some(rate) = &self.shared.rate {
                rate.charge(&lane.bucket, work.now(), self.activity.cost(work.bytes(&item)));
            }
            self.shared.passed.fetch_add(1, Ordering::Relaxed);
            if self.shared.limit_of(work, &item).is_some() {
                self.flight.begin(work.call_id(&item), work.bytes(&item));
            }
        }
        lane.tags.passed(lane.hold.first().map(|(rank, _)| rank));
        work.forward(item);
    }
}
