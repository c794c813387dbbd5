//! The engines of one application, and the queues between them.
//!
//! Outbound items enter at the front, before the first engine, and leave at the back. Inbound items
//! enter at the back and leave at the front. So the first engine is the one next to the
//! application.

mod aside;
mod chain;
mod change;

use std::sync::Arc;

use petasos_base::{Rng, Time};
use petasos_call::{Metadata, Status};
use thiserror::Error;

use crate::call::CallState;
use crate::items::{Items, Key};
use crate::queue::Queue;
use crate::work::Declared;
use crate::{
    Call, CallId, Direction, Engine, FieldError, Fields, Finished, ItemKind, MethodId, Policy,
    Runtime, Schema,
};

use aside::Aside;
pub use aside::AsideLoad;
pub use change::{ChangeError, Left, Replaced};

/// Where in a chain: 0 is next to the application.
pub type Place = usize;

/// An item could not be put in: its call is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the call is over")]
pub struct Gone;

/// A call could not begin: the datapath has as many items as it may. A later attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the datapath is full")]
pub struct Full;

/// What the service knows of an item that it puts in.
#[derive(Debug)]
pub struct Submission {
    /// What the item says.
    pub kind: ItemKind,
    /// Which way it goes.
    pub direction: Direction,
    /// Bytes of its message.
    pub bytes: u32,
    /// Its metadata.
    pub metadata: Metadata,
    /// Of an end: how the call ended, or none if it has succeeded.
    pub status: Option<Status>,
    /// Of an end: the call certainly has not run.
    pub has_not_run: bool,
}

impl Submission {
    /// An item without metadata.
    pub fn new(kind: ItemKind, direction: Direction, bytes: u32) -> Submission {
        let (metadata, status, has_not_run) = (Metadata::new(), None, false);
        Submission { kind, direction, bytes, metadata, status, has_not_run }
    }
}

/// An item that has passed all engines, and is still there.
#[derive(Debug)]
pub struct Next<'a> {
    /// At which the service keeps what belongs to it.
    pub index: usize,
    /// Its call.
    pub call: CallId,
    /// What it says.
    pub kind: ItemKind,
    /// An engine or the service has ended the call: what belongs to the item is not to be sent.
    pub is_from_engine: bool,
    /// The values of declared fields, with what engines have written.
    pub fields: &'a Fields,
}

/// What a run of a datapath has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Some engine had work.
    pub has_worked: bool,
    /// Items still wait in front of engines.
    pub has_more: bool,
    /// When the next engine wants to work by itself; [`Time::NEVER`] for none.
    pub wake_at: Time,
}

/// Where the items of a datapath are. They add up: `entered` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Put in by the service, or made to end a stream.
    pub entered: u64,
    /// Taken at the other end.
    pub left: u64,
    /// Void, since their calls were given up or ended.
    pub void: u64,
    /// In queues.
    pub queued: u64,
    /// Held by engines.
    pub held: u64,
}

/// What an engine has done. One that is configured or moved goes on counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// Items that it took.
    pub items: u64,
    /// Calls that it has ended.
    pub ended: u64,
    /// How long it worked in runs that were measured, in ns.
    pub sampled_ns: u64,
    /// Items that it took in those.
    pub sampled_items: u64,
}

struct Placed {
    /// Names the engine in records, wherever it stands.
    key: Key,
    engine: Box<dyn Engine>,
    policy: Arc<dyn Policy>,
    wake_at: Time,
    counts: EngineCounts,
}

/// A chain of engines, with the items in it.
pub struct Datapath {
    items: Items,
    /// By direction. The outbound queue `n`, and the inbound queue `n`, are before engine `n`, seen
    /// from the application.
    queues: [Vec<Queue>; 2],
    /// Inbound items that have passed all engines, and wait for the application.
    aside: Aside,
    chain: Vec<Placed>,
    methods: Vec<(MethodId, Arc<str>)>,
    declared: Vec<Declared>,
    items_max: usize,
    rng: Rng,
    runtime: Runtime,
    counts: Counts,
}

impl Datapath {
    /// Without engines, for at most so many items at a time. `seed` determines what engines do at
    /// random.
    pub fn new(items_max: usize, seed: u64) -> Datapath {
        Datapath {
            items: Items::default(),
            queues: [vec![Queue::new()], vec![Queue::new()]],
            aside: Aside::default(),
            chain: Vec::new(),
            methods: Vec::new(),
            declared: Vec::new(),
            items_max,
            rng: Rng::new(seed),
            runtime: Runtime::default(),
            counts: Counts::default(),
        }
    }

    /// The datapath belongs to this runtime from now on, which engines are told (E7).
    pub fn set_runtime(&mut self, runtime: Runtime) {
        self.runtime = runtime;
    }

    /// A call begins, as long as there is room.
    ///
    /// # Errors
    /// [`Full`]: the items that are there have to leave first.
    #[inline]
    pub fn begin(&mut self, call: Call) -> Result<CallId, Full> {
        if !self.has_room() || self.items.calls_len() >= self.items_max {
            return Err(Full);
        }
        Ok(self.items.begin(call))
    }

    /// Whether there is room for another item. Those that end calls are taken anyway.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.items.in_use() < self.items_max
    }

    /// Puts an item of a call in. Gives its index, at which the service keeps what belongs to it,
    /// until the item has left ([`Finished::index`]) or is void ([`Datapath::pop_void`]).
    ///
    /// # Errors
    /// [`Gone`]: the caller gave the call up, an engine ended it, or its end has left.
    #[inline]
    pub fn submit(&mut self, call: CallId, item: Submission, now: Time) -> Result<usize, Gone> {
        let is_open = self.items.call(call).is_some() && self.items.state(call) == CallState::Open;
        if !is_open {
            return Err(Gone);
        }
        let index = self.items.insert(call, item.kind, item.direction, now);
        let record = &mut self.items.records[index as usize];
        (record.bytes, record.has_not_run) = (item.bytes, item.has_not_run);
        if item.kind == ItemKind::Cancel {
            record.is_last = true;
            self.items.set_state(call, CallState::Cancelled);
        }
        let contents = &mut self.items.contents[index as usize];
        (contents.metadata, contents.status) = (item.metadata, item.status);
        self.counts.entered += 1;
        self.entrance(item.direction).push_back(index);
        Ok(index as usize)
    }

    /// The values of declared fields of the item at `index`, to be filled in before the next run.
    #[inline]
    pub fn fields_mut(&mut self, index: usize) -> &mut Fields {
        &mut self.items.contents[index].fields
    }

    /// What the next item is that can be taken.
    #[inline]
    pub fn peek(&mut self, direction: Direction) -> Option<Next<'_>> {
        let index = self.front(direction)?;
        Some(Next {
            index: index as usize,
            call: self.items.call_id(index),
            kind: self.items.records[index as usize].kind,
            is_from_engine: self.items.records[index as usize].is_from_engine,
            fields: &self.items.contents[index as usize].fields,
        })
    }

    /// Takes the next item that has passed all engines.
    #[inline]
    pub fn take(&mut self, direction: Direction) -> Option<Finished> {
        self.front(direction)?;
        Some(self.take_shown(direction))
    }

    /// Takes the item that [`Datapath::peek`] has just shown: in between, no call has ended.
    ///
    /// # Panics
    /// If none was shown.
    #[inline]
    pub fn take_shown(&mut self, direction: Direction) -> Finished {
        let index = self.pop_front(direction).expect("an item was shown");
        debug_assert!(!self.is_nothing(index), "a call has ended since its item was shown");
        self.counts.left += 1;
        let item = self.items.finish(index);
        if matches!(item.kind, ItemKind::End | ItemKind::Cancel) {
            self.drop_aside(item.call);
        }
        item
    }

    /// The index and the call of an item that became void: what belongs to it is to be freed. To be
    /// called until there is none, after each run and each [`Datapath::take`].
    #[inline]
    pub fn pop_void(&mut self) -> Option<(usize, CallId)> {
        let (index, call) = self.items.pop_void()?;
        self.counts.void += 1;
        Some((index as usize, call))
    }

    /// The service ends a call: its caller is told through all engines, and its callee, if the
    /// request has left, by a cancel. All else of the call is void. Nothing happens to a call that
    /// is over, or about to be.
    pub fn end(&mut self, call: CallId, status: Status, now: Time) {
        let is_open = self.items.call(call).is_some() && self.items.state(call) == CallState::Open;
        if is_open {
            for index in self.items.end_call(call, status, now) {
                self.counts.entered += 1;
                let direction = self.items.records[index as usize].direction;
                self.entrance(direction).push_back(index);
            }
        }
        if self.items.call(call).is_some() {
            // This makes room at once, whatever holds the end up.
            self.drop_aside(call);
        }
    }

    /// The call, unless it is over.
    #[inline]
    pub fn call(&self, call: CallId) -> Option<&Call> {
        self.items.call(call).map(|entry| &entry.call)
    }

    /// Where the items are.
    pub fn counts(&self) -> Counts {
        let queued: usize = self.queues.iter().flatten().map(Queue::len).sum();
        let queued = queued + self.aside.len();
        let held = self.items.held() as u64;
        let unfreed = self.items.void_len() as u64;
        Counts { queued: queued as u64, held, void: self.counts.void + unfreed, ..self.counts }
    }

    /// How many engines there are.
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Whether there are no engines.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// The policy of the engine at `place`.
    pub fn policy(&self, place: Place) -> Option<&Arc<dyn Policy>> {
        self.chain.get(place).map(|placed| &placed.policy)
    }

    /// What the engine at `place` has done.
    pub fn engine_counts(&self, place: Place) -> Option<EngineCounts> {
        self.chain.get(place).map(|placed| placed.counts)
    }

    /// E3: calls of a method will come: engines declare its fields. To be called before the first
    /// of them. Nothing happens if the method is known.
    ///
    /// # Errors
    /// An engine needs a field that the method does not have: nothing has changed, and the method
    /// cannot be called.
    pub fn add_method(
        &mut self,
        method: MethodId,
        name: &str,
        schema: &mut dyn Schema,
    ) -> Result<(), FieldError> {
        if self.methods.iter().any(|(known, _)| *known == method) {
            return Ok(());
        }
        let name: Arc<str> = name.into();
        for placed in &mut self.chain {
            let told = chain::declare(placed, method, &name, &mut self.declared, schema);
            if let Err(error) = told {
                self.forget_declarations(schema, |known, _| known == method);
                return Err(error);
            }
        }
        self.methods.push((method, name));
        Ok(())
    }

    /// The queue into which the service puts items.
    #[inline]
    fn entrance(&mut self, direction: Direction) -> &mut Queue {
        let queues = &mut self.queues[direction as usize];
        let place = if direction == Direction::Outbound { 0 } else { queues.len() - 1 };
        &mut queues[place]
    }

    /// The queue from which the service takes them.
    #[inline]
    fn exit(&mut self, direction: Direction) -> &mut Queue {
        let queues = &mut self.queues[direction as usize];
        let place = if direction == Direction::Outbound { queues.len() - 1 } else { 0 };
        &mut queues[place]
    }

    /// The item that the service takes next. Drops those that became void behind the last engine,
    /// and cancels of calls of which nobody beyond the datapath has heard.
    #[inline]
    fn front(&mut self, direction: Direction) -> Option<u32> {
        loop {
            let is_resumed = direction == Direction::Inbound && self.aside.comes_next();
            let next = if is_resumed { self.aside.front() } else { self.exit(direction).front() };
            let index = next?;
            if self.is_nothing(index) {
                self.drop_front(direction);
            } else if direction == Direction::Outbound || is_resumed || !self.goes_aside(index) {
                return Some(index);
            }
        }
    }

    #[inline]
    fn pop_front(&mut self, direction: Direction) -> Option<u32> {
        match direction == Direction::Inbound && self.aside.comes_next() {
            true => self.aside.pop_front(|index| self.items.records[index as usize].bytes),
            false => self.exit(direction).pop_front(),
        }
    }

    /// Nobody is to be told of an item that has passed all engines.
    #[inline]
    fn is_nothing(&self, index: u32) -> bool {
        let is_cancel = self.items.records[index as usize].kind == ItemKind::Cancel;
        self.items.is_void(index) || is_cancel && self.items.is_unheard_of(index)
    }

    #[cold]
    fn drop_front(&mut self, direction: Direction) {
        if let Some(index) = self.pop_front(direction) {
            self.items.discard(index);
        }
    }
}
