//! A server's loops: each an endpoint that owns partitions (K20), and passes on what came astray.
//!
//! A loop is made in two steps, as an endpoint stays on the thread where it was made: the
//! [`Service`] makes all partitions, and a [`Seat`] for each loop, which goes to its thread.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use petasos_base::{Clock, Time, random_seed};
use petasos_endpoint::{
    Backend, Context, Endpoint, EndpointConfig, Notifier, Payload, RejectCode, Request as Asked,
    RequestHandle,
};
use petasos_store::{Config, ConfigError, Partition};

use crate::ahead::Ahead;
use crate::counters::{KvStats, LoopCounters, count};
use crate::layout::Layout;
use crate::many::{MANY_MAX, Many, push};
use crate::owner::{Owned, Sought};
use crate::request::Request;
use crate::response::Outcome;
use crate::status::Status;

/// One operation (K17).
pub const OPERATE: u16 = 1;
/// Many operations (K21).
pub const OPERATE_MANY: u16 = 2;
/// Asks for the layout (K20).
pub const LAYOUT: u16 = 3;
/// Asks for [`KvStats`], as JSON. What is in other loops' partitions may be 100 ms old.
pub const STATS: u16 = 4;

/// Responses up to this length are written on the stack, and copied to be sent.
const SHORT_RESPONSE_BYTES: usize = 256;
/// Once the responses to many operations have so many bytes, no more are done. One more may have a
/// value's length.
const MANY_RESPONSE_BYTES: usize = 1 << 20;
/// How often a loop tells what is in its partitions, while anything is done there, in
/// milliseconds.
const PUBLISH_MS: u64 = 100;

/// What one loop tells another.
enum Crossing {
    /// A request of the other's key.
    Ask { from: u16, handle: RequestHandle, request: Vec<u8> },
    /// The response to one, for who has the handle.
    Answer { handle: RequestHandle, response: Vec<u8> },
}

/// How a loop is reached from others.
#[derive(Clone)]
struct Reached {
    inbox: Sender<Crossing>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Reached {
    fn tell(&self, crossing: Crossing) -> Result<(), Crossing> {
        self.inbox.send(crossing).map_err(|unsent| unsent.0)?;
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
        Ok(())
    }
}

/// What all loops of a server share.
#[derive(Clone)]
struct Shared {
    reached: Arc<[Reached]>,
    counters: Arc<[LoopCounters]>,
    owners: Arc<[u16]>,
    /// Once all loops have addresses.
    layout: Arc<OnceLock<Vec<u8>>>,
}

/// A server before its loops run.
pub struct Service {
    shared: Shared,
}

/// A loop before it runs: what its thread makes an endpoint of.
pub struct Seat {
    number: u16,
    owned: Owned,
    inbox: Receiver<Crossing>,
    shared: Shared,
}

/// A loop's state.
pub struct Owner {
    number: u16,
    owned: Owned,
    ahead: Ahead,
    inbox: Receiver<Crossing>,
    shared: Shared,
    publish_at_ms: u64,
    /// Whether anything was done since the loop has told what is in its partitions.
    is_changed: bool,
    /// The latest response to many operations, and where their keys were: the next ones have this
    /// memory.
    many: Vec<u8>,
    many_sought: Vec<Option<Sought>>,
}

impl Service {
    /// Makes a table, and deals its partitions to so many loops.
    ///
    /// # Errors
    /// If there cannot be such a table.
    ///
    /// # Panics
    /// If there are no loops, or more than partitions.
    pub fn new(config: &Config, loops: u16) -> Result<(Service, Vec<Seat>), ConfigError> {
        assert!((1..=config.partitions).contains(&loops), "each loop owns a partition");
        let partitions = config.partitions()?;
        let (reached, inboxes): (Vec<_>, Vec<_>) = (0..loops).map(|_| reached()).unzip();
        let shared = Shared {
            reached: reached.into(),
            counters: (0..loops).map(|_| LoopCounters::default()).collect(),
            owners: (0..config.partitions).map(|partition| partition % loops).collect(),
            layout: Arc::default(),
        };
        let mut dealt: Vec<Vec<(u16, Partition)>> = (0..loops).map(|_| Vec::new()).collect();
        for (number, partition) in (0..).zip(partitions) {
            dealt[usize::from(shared.owners[usize::from(number)])].push((number, partition));
        }
        let seat = |(number, (owned, inbox))| {
            let owned = Owned::new(owned, config.partitions);
            Seat { number, owned, inbox, shared: shared.clone() }
        };
        let seats = (0..).zip(dealt.into_iter().zip(inboxes)).map(seat).collect();
        Ok((Service { shared }, seats))
    }

    /// All loops have control addresses, in order: clients are told from now on. An unspecified IP
    /// address stands for the one that a client has called.
    ///
    /// # Panics
    /// If it is not one for each loop.
    pub fn set_addresses(&self, loops: Vec<SocketAddr>) {
        assert_eq!(loops.len(), self.shared.reached.len(), "one for each loop");
        let owners = self.shared.owners.to_vec();
        let layout = Layout { version: random_seed(), loops, owners };
        // It is told once.
        let _ = self.shared.layout.set(layout.to_bytes());
    }

    /// What the loops have counted.
    #[must_use]
    pub fn stats(&self) -> KvStats {
        self.shared.stats()
    }
}

fn reached() -> (Reached, Receiver<Crossing>) {
    let (inbox, receiver) = channel();
    (Reached { inbox, notifier: Arc::default() }, receiver)
}

impl Shared {
    fn stats(&self) -> KvStats {
        let mut stats = KvStats::default();
        self.counters.iter().for_each(|counters| stats.add(counters));
        stats
    }
}

impl Seat {
    /// The loop's number: that of its address in the layout.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The loop's endpoint, with all methods.
    ///
    /// # Errors
    /// The system's, if it has no descriptor for the loop's mailbox.
    pub fn open(
        self,
        config: EndpointConfig,
        io: impl Into<Backend>,
        clock: Clock,
    ) -> std::io::Result<Endpoint<Owner>> {
        let Seat { number, owned, inbox, shared } = self;
        let owner = Owner {
            number,
            owned,
            ahead: Ahead::default(),
            inbox,
            shared,
            publish_at_ms: 0,
            is_changed: true,
            many: Vec::new(),
            many_sought: Vec::new(),
        };
        let mut endpoint = Endpoint::new(config, io, clock, owner);
        let notifier = endpoint.notifier()?;
        // Nobody else sets it.
        let _ = endpoint.state().reached().notifier.set(notifier.clone());
        // What others have sent before had nobody to notify.
        notifier.notify();
        endpoint.register(OPERATE, operate);
        endpoint.prepare(OPERATE, &[fetch_bucket, fetch_entry]);
        endpoint.register(OPERATE_MANY, operate_many);
        endpoint.register(LAYOUT, tell_layout);
        endpoint.register(STATS, tell_stats);
        endpoint.on_turn(end_turn);
        Ok(endpoint)
    }
}

impl Owner {
    fn reached(&self) -> &Reached {
        &self.shared.reached[usize::from(self.number)]
    }

    fn counters(&self) -> &LoopCounters {
        &self.shared.counters[usize::from(self.number)]
    }
}

fn milliseconds(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

/// Gives a long request's buffer back.
fn free(cx: &mut Context<Owner>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

/// The first step for all requests of a turn.
fn fetch_bucket(owner: &Owner, bytes: &[u8]) {
    let Ok(request) = Request::parse(bytes) else { return owner.ahead.push(&[], None) };
    let sought = owner.owned.seek(request.key);
    owner.ahead.push(request.key, sought);
    if let Some(sought) = sought {
        owner.owned.fetch_bucket(sought);
    }
}

/// The second.
fn fetch_entry(owner: &Owner, _: &[u8]) {
    if let Some(sought) = owner.ahead.fetch() {
        owner.owned.fetch_entry(sought);
    }
}

fn operate(owner: &mut Owner, cx: &mut Context<Owner>, asked: Asked<'_>) {
    let now_ms = milliseconds(cx.now());
    match Request::parse(&asked.payload) {
        Ok(request) => {
            let sought = owner.ahead.take(request.key);
            match owner.perform(now_ms, &request, sought) {
                Some(outcome) => respond(cx, asked.handle, &outcome),
                None => owner.pass_on(cx, asked.handle, &request),
            }
        }
        Err(status) => {
            count(&owner.counters().refused, 1);
            respond(cx, asked.handle, &Outcome::of(status));
        }
    }
    free(cx, asked.payload);
}

#[inline]
fn respond(cx: &mut Context<Owner>, handle: RequestHandle, outcome: &Outcome<'_>) {
    let bytes = outcome.bytes();
    if bytes <= SHORT_RESPONSE_BYTES {
        let mut response = [0; SHORT_RESPONSE_BYTES];
        outcome.write(&mut response[..bytes]);
        return cx.respond_with(handle, &response[..bytes]);
    }
    match cx.response_buffer(&handle, bytes) {
        Ok(mut response) => {
            outcome.write(response.as_mut_slice());
            cx.respond(handle, response);
        }
        Err(_) => cx.reject(handle, RejectCode::HandlerFailed),
    }
}

impl Owner {
    #[inline]
    fn perform(
        &mut self,
        now_ms: u64,
        request: &Request<'_>,
        sought: Option<Sought>,
    ) -> Option<Outcome<'_>> {
        let counters = &self.shared.counters[usize::from(self.number)];
        let outcome = self.owned.perform(now_ms, request, sought)?;
        self.is_changed = true;
        counters.count(request.operation, outcome.status == Status::Done);
        let is_refused = !matches!(outcome.status, Status::Done | Status::Absent | Status::Present);
        if is_refused {
            count(&counters.refused, 1);
        }
        Some(outcome)
    }

    /// Passes a request on to the loop that owns its key, once (K20).
    #[cold]
    fn pass_on(&self, cx: &mut Context<Owner>, handle: RequestHandle, request: &Request<'_>) {
        count(&self.counters().astray, 1);
        let partition = self.owned.number_of(request.key);
        let owner = self.shared.owners[usize::from(partition)];
        let ask = Crossing::Ask { from: self.number, handle, request: request.to_vec() };
        if let Err(Crossing::Ask { handle, .. }) = self.shared.reached[usize::from(owner)].tell(ask)
        {
            // That loop has ended, so the server ends.
            cx.reject(handle, RejectCode::Draining);
        }
    }

    /// Answers what another loop has passed on.
    fn answer(&mut self, now_ms: u64, from: u16, handle: RequestHandle, bytes: &[u8]) {
        let mut response = Vec::new();
        let mut write = |outcome: &Outcome<'_>| {
            response.resize(outcome.bytes(), 0);
            outcome.write(&mut response);
        };
        match Request::parse(bytes).map(|request| self.perform(now_ms, &request, None)) {
            Ok(Some(outcome)) => write(&outcome),
            Ok(None) => write(&Outcome::of(Status::NotOwner)),
            Err(status) => write(&Outcome::of(status)),
        }
        // A loop that has ended has nobody to tell.
        let _ = self.shared.reached[usize::from(from)].tell(Crossing::Answer { handle, response });
    }
}

/// The end of a turn: what has crossed, what a cache keeps, and what others are told now and then.
fn end_turn(owner: &mut Owner, cx: &mut Context<Owner>) -> Time {
    let now_ms = milliseconds(cx.now());
    while let Ok(crossing) = owner.inbox.try_recv() {
        match crossing {
            Crossing::Ask { from, handle, request } => {
                owner.answer(now_ms, from, handle, &request);
            }
            Crossing::Answer { handle, response } => cx.respond_with(handle, &response),
        }
    }
    owner.owned.end_batch();
    owner.ahead.clear();
    if !owner.is_changed {
        return Time::NEVER;
    }
    if now_ms >= owner.publish_at_ms {
        owner.publish_at_ms = now_ms + PUBLISH_MS;
        owner.is_changed = false;
        owner.publish();
        return Time::NEVER;
    }
    Time::from_nanos(owner.publish_at_ms * 1_000_000)
}

impl Owner {
    fn publish(&self) {
        let of = |partition: &Partition| {
            let items_bytes = partition.items_bytes().unwrap_or(0);
            (partition.stats(), [items_bytes, partition.capacity_bytes()])
        };
        self.counters().publish(self.owned.all().iter().map(of));
    }
}

/// Does many operations, as far as their responses fit (K21).
fn operate_many(owner: &mut Owner, cx: &mut Context<Owner>, asked: Asked<'_>) {
    let now_ms = milliseconds(cx.now());
    let mut response = core::mem::take(&mut owner.many);
    response.clear();
    let mut sought = core::mem::take(&mut owner.many_sought);
    fetch_many(owner, &asked.payload, &mut sought);
    for (number, bytes) in Many::new(&asked.payload).enumerate() {
        let request = bytes.ok_or(Status::Malformed).and_then(Request::parse);
        let request = request.and_then(|request| match () {
            () if number >= MANY_MAX => Err(Status::Malformed),
            () if response.len() > MANY_RESPONSE_BYTES => Err(Status::NotReached),
            () => Ok(request),
        });
        let outcome = match &request {
            Ok(request) => {
                let sought = sought.get(number).copied().flatten();
                let outcome = owner.perform(now_ms, request, sought);
                outcome.unwrap_or(Outcome::of(Status::NotOwner))
            }
            Err(status) => Outcome::of(*status),
        };
        push(&mut response, outcome.bytes(), |to| outcome.write(to));
        if number >= MANY_MAX {
            break;
        }
    }
    cx.respond_with(asked.handle, &response);
    (owner.many, owner.many_sought) = (response, sought);
    free(cx, asked.payload);
}

/// Finds out where the keys of many requests are, and asks for all buckets, then for all entries.
fn fetch_many(owner: &Owner, payload: &[u8], sought: &mut Vec<Option<Sought>>) {
    let key_of = |bytes: Option<&[u8]>| {
        let request = Request::parse(bytes?).ok()?;
        owner.owned.seek(request.key)
    };
    sought.clear();
    sought.extend(Many::new(payload).take(MANY_MAX).map(key_of));
    sought.iter().flatten().for_each(|sought| owner.owned.fetch_bucket(*sought));
    sought.iter().flatten().for_each(|sought| owner.owned.fetch_entry(*sought));
}

fn tell_layout(owner: &mut Owner, cx: &mut Context<Owner>, asked: Asked<'_>) {
    match owner.shared.layout.get() {
        Some(layout) => cx.respond_with(asked.handle, layout),
        None => cx.reject(asked.handle, RejectCode::Overloaded),
    }
    free(cx, asked.payload);
}

fn tell_stats(owner: &mut Owner, cx: &mut Context<Owner>, asked: Asked<'_>) {
    owner.publish();
    let stats = serde_json::to_vec(&owner.shared.stats()).expect("numbers are JSON");
    cx.respond_with(asked.handle, &stats);
    free(cx, asked.payload);
}
