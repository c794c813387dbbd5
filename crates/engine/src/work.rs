//! What an engine can do while it works (E1 to E5).

use petasos_base::{Rng, Time};
use petasos_call::{Metadata, Status};

use crate::call::CallState;
use crate::items::{Ending, Items, Key};
use crate::queue::Queue;
use crate::{
    Call, CallId, Direction, FieldError, FieldId, FieldKind, Item, ItemKind, MethodId, Peer,
    Runtime, Schema, Value,
};

/// The two queues of an engine for one direction.
pub(crate) struct Lane<'a> {
    pub(crate) input: &'a mut Queue,
    pub(crate) output: &'a mut Queue,
    /// Items that may still be taken in this batch.
    pub(crate) left: u32,
}

/// A batch of items, and what there is to know of them.
pub struct Work<'a> {
    pub(crate) items: &'a mut Items,
    /// By direction.
    pub(crate) lanes: [Lane<'a>; 2],
    /// Who works.
    pub(crate) engine: Key,
    pub(crate) wake_at: Time,
    pub(crate) now: Time,
    pub(crate) runtime: Runtime,
    pub(crate) rng: &'a mut Rng,
    /// Calls that it has ended.
    pub(crate) ended: u32,
}

impl Work<'_> {
    /// E4: the time of this batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// E7: the runtime of the datapath. What engines of one runtime have together, no other thread
    /// touches.
    #[inline]
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// E4: random numbers.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// E1: the next item of a direction; none if the batch is at its end. Items of calls that have
    /// been given up, or ended by another engine, do not come; nor do those that the engine has
    /// passed on before the chain was reordered.
    #[inline]
    pub fn next(&mut self, direction: Direction) -> Option<Item> {
        let lane = &mut self.lanes[direction as usize];
        loop {
            if lane.left == 0 {
                return None;
            }
            let index = lane.input.pop_front()?;
            if self.items.is_void(index) {
                self.items.discard(index);
                continue;
            }
            lane.left -= 1;
            let record = &mut self.items.records[index as usize];
            if record.has_passed(self.engine) {
                lane.output.push_back(index);
                continue;
            }
            record.pick_up(self.engine);
            return Some(Item(index));
        }
    }

    /// Passes an item on.
    #[inline]
    pub fn forward(&mut self, item: Item) {
        let record = &mut self.items.records[item.index()];
        record.pass(self.engine);
        self.lanes[record.direction as usize].output.push_back(item.0);
    }

    /// E2: ends the item's call with a status: the caller is told, and the callee if it has heard
    /// of the call.
    pub fn end(&mut self, item: Item, status: Status) {
        if self.items.is_void(item.0) {
            return self.items.discard(item.0);
        }
        if self.kind(&item) == ItemKind::Cancel {
            return self.forward(item);
        }
        self.ended += 1;
        let Ending { end, cancel } = self.items.end(item.0, status);
        for index in end.into_iter().chain(cancel) {
            let direction = self.items.records[index as usize].direction;
            self.lanes[direction as usize].output.push_back(index);
        }
    }

    /// Whether an item that the engine holds has become void: its caller gave the call up, or
    /// another engine ended it. Passing it on then only frees it.
    pub fn is_void(&self, item: &Item) -> bool {
        self.items.is_void(item.0)
    }

    /// The engine wants to work at this time, although no item may have come by then. Of several
    /// times in one batch, the earliest counts; without one, only items wake it.
    pub fn wake_at(&mut self, time: Time) {
        self.wake_at = self.wake_at.min(time);
    }

    /// What an item says.
    #[inline]
    pub fn kind(&self, item: &Item) -> ItemKind {
        self.items.records[item.0 as usize].kind
    }

    /// Which way an item goes.
    #[inline]
    pub fn direction(&self, item: &Item) -> Direction {
        self.items.records[item.0 as usize].direction
    }

    /// The item's call.
    #[inline]
    pub fn call(&self, item: &Item) -> &Call {
        &self.items.entry(item.0).call
    }

    /// The call's name, for what an engine keeps of it.
    #[inline]
    pub fn call_id(&self, item: &Item) -> CallId {
        self.items.call_id(item.0)
    }

    /// Bytes of the item's message; 0 without one.
    #[inline]
    pub fn bytes(&self, item: &Item) -> u32 {
        self.items.records[item.0 as usize].bytes
    }

    /// When the item came into the datapath.
    pub fn arrived(&self, item: &Item) -> Time {
        self.items.records[item.0 as usize].arrived
    }

    /// Of an end: how the call ended; none if it has succeeded.
    pub fn status(&self, item: &Item) -> Option<&Status> {
        self.items.contents[item.0 as usize].status.as_ref()
    }

    /// The value of a declared field (E3); none if the message does not have it.
    #[inline]
    pub fn field(&self, item: &Item, field: FieldId) -> Option<Value<'_>> {
        self.items.contents[item.0 as usize].fields.get(field)
    }

    /// E2: changes a declared field.
    ///
    /// # Panics
    /// If another kind of value is there: its declaration told the kind.
    pub fn set_field(&mut self, item: &Item, field: FieldId, value: Value<'_>) {
        let fields = &mut self.items.contents[item.0 as usize].fields;
        let was = fields.get(field).map(|value| value.kind());
        assert!(was.is_none_or(|kind| kind == value.kind()), "a field keeps its kind");
        fields.put(field, value, true);
    }

    /// The item's metadata: of a request the caller's, of a head or an end the callee's.
    pub fn metadata(&self, item: &Item) -> &Metadata {
        &self.items.contents[item.0 as usize].metadata
    }

    /// E2: the item's metadata, to be changed.
    pub fn metadata_mut(&mut self, item: &Item) -> &mut Metadata {
        &mut self.items.contents[item.0 as usize].metadata
    }

    /// E2: brings the call's deadline forward. A later one than it has is ignored.
    pub fn limit_deadline(&mut self, item: &Item, deadline: Time) {
        let call = &mut self.items.entry_mut(item.0).call;
        call.deadline = call.deadline.min(deadline);
    }

    /// E2: a copy of this unary request goes to a peer as well, whose number is that of a name
    /// ([`Declare::peer`]). What comes of it, nobody is told.
    pub fn mirror(&mut self, item: &Item, peer: Peer) {
        self.items.contents[item.0 as usize].mirror = Some(peer);
    }
}

/// What an engine does when it ends (E5).
pub struct Decompose<'a> {
    pub(crate) items: &'a Items,
    /// By direction, in the order in which they were given back.
    pub(crate) given_back: [Vec<u32>; 2],
}

impl Decompose<'_> {
    /// Gives an item back that the engine holds. It goes to the front of the queue that it came
    /// from, for the successor, or for the next engine if there is none. Items are given back in
    /// the order in which they came.
    pub fn give_back(&mut self, item: Item) {
        let direction = self.items.records[item.0 as usize].direction;
        self.given_back[direction as usize].push(item.0);
    }

    /// The call's name, for what an engine keeps of it.
    pub fn call_id(&self, item: &Item) -> CallId {
        self.items.call_id(item.0)
    }

    /// Whether a call is still there, for what an engine keeps of it.
    pub fn is_open(&self, call: CallId) -> bool {
        self.items.call(call).is_some() && self.items.state(call) == CallState::Open
    }
}

/// What an engine declares of a method (E3).
pub struct Declare<'a> {
    pub(crate) engine: Key,
    pub(crate) method: MethodId,
    pub(crate) name: &'a str,
    pub(crate) declared: &'a mut Vec<Declared>,
    pub(crate) schema: &'a mut dyn Schema,
}

/// A field that engines of a datapath have declared. Its index is its [`FieldId`], for ever: an
/// item may still have its value when no engine wants it any more.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) method: MethodId,
    pub(crate) path: String,
    /// Keys of engines, with whether they write it.
    pub(crate) users: Vec<(Key, bool)>,
}

impl Declare<'_> {
    /// The engine reads the field at `path` of the method's requests: names with dots between them.
    ///
    /// # Errors
    /// There is no such field, or it has another kind.
    pub fn reads(&mut self, path: &str, kind: FieldKind) -> Result<FieldId, FieldError> {
        let (id, found) = self.declare(path, false)?;
        self.expect(path, kind, found).map(|()| id)
    }

    /// The engine reads the field at `path`, of whatever kind it is.
    ///
    /// # Errors
    /// There is no such field.
    pub fn reads_any(&mut self, path: &str) -> Result<(FieldId, FieldKind), FieldError> {
        self.declare(path, false)
    }

    /// The engine reads and writes the field at `path`.
    ///
    /// # Errors
    /// There is no such field, or it has another kind.
    pub fn writes(&mut self, path: &str, kind: FieldKind) -> Result<FieldId, FieldError> {
        let (id, found) = self.declare(path, true)?;
        self.expect(path, kind, found).map(|()| id)
    }

    /// The name of the application of which the datapath is.
    pub fn application(&self) -> &str {
        self.schema.application()
    }

    /// The number that calls to a name have as their [peer](crate::Call::peer). [`Peer::NONE`] if
    /// the service knows too many names.
    pub fn peer(&mut self, name: &str) -> Peer {
        self.schema.peer(name)
    }

    fn expect(&self, path: &str, expected: FieldKind, found: FieldKind) -> Result<(), FieldError> {
        if expected == found {
            return Ok(());
        }
        let (method, path) = (self.name.to_owned(), path.to_owned());
        Err(FieldError::Kind { method, path, expected, found })
    }

    fn declare(&mut self, path: &str, writes: bool) -> Result<(FieldId, FieldKind), FieldError> {
        let is_it = |known: &Declared| known.method == self.method && known.path == path;
        let known = self.declared.iter().position(is_it);
        let index = known.unwrap_or(self.declared.len());
        let id = FieldId(u16::try_from(index).map_err(|_| FieldError::TooMany)?);
        let users = known.map_or(&[][..], |index| &self.declared[index].users[..]);
        let is_written = writes || users.iter().any(|(_, writes)| *writes);
        let kind = self.schema.field(self.method, path, id, is_written)?;
        if known.is_none() {
            let path = path.to_owned();
            self.declared.push(Declared { method: self.method, path, users: Vec::new() });
        }
        self.declared[index].users.push((self.engine, writes));
        Ok((id, kind))
    }
}
