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
//! By *scope*, the order is among the items of one application, or among those of all applications
//! of a runtime (`board`). The rate and the limit are then those of the runtime.
//!
//! Items of a call keep their order in each direction. No item waits longer than `hold_max_us`, and
//! at most `held_max` items wait in each direction. Further items pass, at the cost of others.

mod board;
mod configuration;
mod flight;
mod order;
mod share;

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    ClockShift, Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId,
    Policy, PolicyError, PolicyKind, Runtime, State, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, Limit, micros};
use crate::hold::Hold;
use crate::pattern::ByMethod;
use crate::rate::{Bucket, Rate};
use board::{Boards, Seat};
use configuration::{Configuration, Scope};
use flight::Flight;
use order::{Order, Tags};
use share::{Activity, Weight};

/// The kind `qos`.
#[derive(Debug)]
pub struct Qos;

const VERSION: Version = Version { kind: "qos", version: 1 };
/// After this time, an engine looks again whether those of other applications still hold items that
/// go before its own.
const LOOK_AGAIN_NS: u64 = 10_000;

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
    /// If the order is among all applications of a runtime.
    boards: Option<Boards>,
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
        configuration.check(kind)?;
        let contents: Contents = config::contents(state, VERSION)?;
        Ok(Box::new(Ordered(Arc::new(Shared::new(configuration, &contents)))))
    }

    fn carries_engines(&self) -> bool {
        true
    }

    fn carried_engine(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let EngineContents { full_at_ns, .. } = state.read(VERSION)?;
        let full_at_ns = full_at_ns.map(|full_at_ns| clock.of(full_at_ns));
        Ok(State::new(VERSION, &EngineContents { full_at_ns, ..EngineContents::default() }))
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
            boards: (configuration.scope == Scope::Runtime).then(Boards::default),
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
        Ok(Box::new(QosEngine { shared, classes, lanes, flight, activity, seat: None }))
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
    /// By scope, and once it has worked: at the board of its runtime.
    seat: Option<Seat>,
}

/// What goes in one direction.
struct Lane {
    hold: Hold<u64>,
    tags: Tags,
    /// What it may send, unless it has a seat: then all at the board have one together.
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
        self.sit(work.runtime());
        // What comes in one direction may make room in the other.
        let has_urgent = Direction::ALL.map(|direction| self.fill(work, direction));
        self.activity.set(self.lanes.iter().any(|lane| !lane.hold.is_empty()));
        for (direction, has_urgent) in Direction::ALL.into_iter().zip(has_urgent) {
            self.release(work, direction, has_urgent);
        }
        self.activity.set(self.lanes.iter().any(|lane| !lane.hold.is_empty()));
        self.post();
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let full_at_ns = Direction::ALL.map(|direction| self.account(direction, 0).0.full_at_ns());
        self.lanes.into_iter().for_each(|lane| lane.hold.give_back(decompose));
        let in_flight = self.flight.into_open(decompose);
        Some(State::new(VERSION, &EngineContents { full_at_ns, in_flight }))
    }
}

impl QosEngine {
    /// Takes a seat at the board of the runtime, if there is one and it has none there.
    fn sit(&mut self, runtime: Runtime) {
        let Some(boards) = &self.shared.boards else { return };
        if self.seat.as_ref().is_some_and(|seat| seat.runtime() == runtime) {
            return;
        }
        let mut seat = boards.seat(runtime);
        seat.set_in_flight_bytes(self.flight.bytes());
        for (direction, lane) in Direction::ALL.into_iter().zip(&self.lanes) {
            seat.bucket(direction).advance_full_at_ns(lane.bucket.full_at_ns());
        }
        self.seat = Some(seat);
    }

    /// Lets the engines of other applications know what goes next here.
    fn post(&mut self) {
        let Some(seat) = &self.seat else { return };
        for (direction, lane) in Direction::ALL.into_iter().zip(&mut self.lanes) {
            seat.post(direction, lane.hold.first().map(|(rank, since, _)| (rank, since)));
        }
    }

    /// The bucket from which items are paid for, and what one of so many bytes costs.
    fn account(&self, direction: Direction, bytes: u32) -> (&Bucket, u64) {
        match &self.seat {
            Some(seat) => (seat.bucket(direction), u64::from(bytes).max(1)),
            None => (&self.lanes[direction as usize].bucket, self.activity.cost(bytes)),
        }
    }

    /// Until when an item of so many bytes waits for the rate, if it does.
    fn waits_for_rate(&self, now: Time, direction: Direction, bytes: u32) -> Option<Time> {
        let (bucket, cost) = self.account(direction, bytes);
        self.shared.rate.as_ref()?.wait_for(bucket, now, cost)
    }

    /// Whether a request of so many bytes is to wait, if so many may be under way. One alone never
    /// does.
    fn is_full(&self, bytes: u32, bytes_max: u64) -> bool {
        let seat = self.seat.as_ref();
        let under_way = seat.map_or(self.flight.bytes(), Seat::all_in_flight_bytes);
        under_way > 0 && under_way + u64::from(bytes) > bytes_max
    }

    /// The bytes that are under way have changed.
    fn note_flight(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.set_in_flight_bytes(self.flight.bytes());
        }
    }

    /// Takes what has come. Whether some of it goes before what waits.
    fn fill(&mut self, work: &mut Work<'_>, direction: Direction) -> bool {
        let mut has_urgent = false;
        while let Some(item) = work.next(direction) {
            self.flight.note(work, &item);
            self.note_flight();
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
        // Others that come with it may start as early.
        let is_first = matches!(self.shared.order, Order::SmallFirst { .. });
        if !is_first || !self.lanes[direction as usize].hold.is_empty() {
            return false;
        }
        // Without a rate, nobody holds items of this rank.
        let is_behind = |seat: &Seat| seat.is_behind(direction, (0, work.now()));
        self.shared.rate.is_none()
            || self.waits_for_rate(work.now(), direction, work.bytes(item)).is_none()
                && !self.seat.as_ref().is_some_and(is_behind)
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
        let hold = &mut self.lanes[direction as usize].hold;
        let (rank, since, item) = hold.first()?;
        if work.is_void(item) {
            return None;
        }
        let (bytes, in_flight_bytes_max) = (work.bytes(item), self.shared.limit_of(work, item));
        let again = work.now().plus_nanos(LOOK_AGAIN_NS);
        if self.seat.as_ref().is_some_and(|seat| seat.is_behind(direction, (rank, since))) {
            return Some(again);
        }
        if in_flight_bytes_max.is_some_and(|max| self.is_full(bytes, max)) {
            // The end of a call wakes the engine, unless it is one of another application.
            return Some(if self.seat.is_some() { again } else { Time::NEVER });
        }
        if self.shared.rate.is_none() {
            // Until a batch brings no small ones any more.
            return (self.shared.order.waits(rank) && has_urgent).then_some(work.now());
        }
        self.waits_for_rate(work.now(), direction, bytes)
    }

    fn pass(&mut self, work: &mut Work<'_>, direction: Direction, item: Item) {
        if !work.is_void(&item) {
            let bytes = work.bytes(&item);
            if let Some(rate) = &self.shared.rate {
                let (bucket, cost) = self.account(direction, bytes);
                rate.charge(bucket, work.now(), cost);
            }
            self.shared.passed.fetch_add(1, Ordering::Relaxed);
            if self.shared.limit_of(work, &item).is_some() {
                self.flight.begin(work.call_id(&item), bytes);
                self.note_flight();
            }
        }
        let lane = &mut self.lanes[direction as usize];
        lane.tags.passed(lane.hold.first().map(|(rank, ..)| rank));
        work.forward(item);
    }
}
