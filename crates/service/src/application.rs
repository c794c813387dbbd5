//! An attached application, and its calls.

use std::collections::VecDeque;
use std::sync::Arc;

use petasos_abi::{Blocks, CallNumber, Descriptor, NotOutstanding, Refusal, Released, Side};
use petasos_base::Time;
use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_engine::{Application as Number, CallId, Datapath, Direction, Peer, Submission};
use petasos_message::{NativeMsg, Types};
use petasos_shm::{Loans, OwnedHeap};
use thiserror::Error;

use crate::crowd::Crowd;
use crate::fields::DeclaredFields;
use crate::flow::Flow;
use crate::host::Host;
use crate::known::Known;
use crate::limits::ApplicationLimits;
use crate::numbers::CallNumbers;
use crate::peers::Policed;
use crate::receive_room::Room;
use crate::remote_calls::RemoteCall;
use crate::routes::Routes;
use crate::schemas::{Binding, BoundMethod, MethodAt};
use crate::stats::{Stats, Way};

/// An application that has broken a rule, by a fault or on purpose. All its calls end, and it is
/// not heard any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Detached {
    /// A record that is no descriptor that it may send (D10).
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It used a number of a call twice, or not in order (D5).
    #[error("the number of a call was used before")]
    NumberUsed,
    /// It released what it does not have (D11).
    #[error(transparent)]
    Released(#[from] NotOutstanding),
}

/// What an item has at the service: its message, if it has one.
pub(crate) type Body = Option<NativeMsg>;

/// What an item that was submitted has at the service.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) body: Body,
    /// As long as the item is there.
    direction: Option<Direction>,
}

/// How much is held in a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    items: usize,
    pub(crate) bytes: usize,
}

/// The heaps of an application, as the service has them.
pub trait Memory {
    /// What the application writes.
    fn send(&self) -> &OwnedHeap;

    /// Where it receives.
    fn receive(&self) -> &OwnedHeap;

    /// Copies bytes to a place where it receives (D3).
    ///
    /// # Errors
    /// They would not all have memory.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), petasos_shm::Outside>;

    /// Lets `fill` write bytes at a place where it receives (D3).
    ///
    /// # Errors
    /// They would not all have memory.
    fn write_with(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), petasos_shm::Outside>;
}

/// A name that an application calls.
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    /// What policies take it for.
    pub(crate) peer: Peer,
    /// Whether calls of it leave the host encrypted, at this count of the host's changes.
    pub(crate) sealed: Option<(u64, bool)>,
}

/// A send heap and a receive heap.
impl Memory for (OwnedHeap, OwnedHeap) {
    fn send(&self) -> &OwnedHeap {
        &self.0
    }

    fn receive(&self) -> &OwnedHeap {
        &self.1
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), petasos_shm::Outside> {
        self.1.write(offset, bytes)
    }

    fn write_with(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), petasos_shm::Outside> {
        self.1.write_with(offset, bytes, fill)
    }
}

/// An application, its heaps, its datapath and its calls.
pub struct Application<M> {
    pub(crate) number: Number,
    pub(crate) name: Arc<str>,
    /// Its name is known to be its own.
    pub(crate) is_proved: bool,
    /// Whose process it is, if that is known.
    pub(crate) user: Option<u32>,
    pub(crate) policed: Policed,
    /// What it shares with others, once a hub has it.
    pub(crate) host: Option<Arc<Host>>,
    pub(crate) limits: ApplicationLimits,
    pub(crate) memory: M,
    pub(crate) blocks: Blocks,
    pub(crate) datapath: Datapath,
    pub(crate) fields: DeclaredFields,
    pub(crate) bindings: Vec<Arc<Binding>>,
    /// By binding: whether the application serves it, and does not only call it.
    pub(crate) serves: Vec<bool>,
    /// Names that it calls, by their numbers.
    pub(crate) targets: Vec<Target>,
    pub(crate) routes: Routes,
    /// By the index of the item in the datapath.
    pub(crate) bodies: Vec<Held>,
    /// By direction: what the application has sent, and what it is to receive.
    pub(crate) held: [Holding; 2],
    /// Its messages that wait for the transport.
    pub(crate) beyond: Crowd,
    /// Calls of which the transport has messages, for which there is no room in all.
    pub(crate) refused: VecDeque<RemoteCall>,
    /// Bytes of its requests that the transport has and that have not ended.
    pub(crate) carried_bytes: usize,
    /// Calls that it has begun and that another hub has, or has not let go.
    pub(crate) crossing_calls: usize,
    /// Bytes of its answers in letters that no hub has opened.
    pub(crate) in_letters: Arc<AtomicUsize>,
    /// By the index of the call in the datapath.
    pub(crate) calls: Vec<Option<Known>>,
    pub(crate) by_number: CallNumbers,
    /// Calls that the application has begun, and those that the service has.
    pub(crate) counts: [u64; 2],
    /// How many of them have not ended, and were not cancelled by the application.
    pub(crate) open: [usize; 2],
    pub(crate) descriptors: VecDeque<Descriptor>,
    pub(crate) released: Released,
    /// Places of its messages whose leaves are read where they lie.
    pub(crate) lent: Loans,
    /// In the receive heap.
    pub(crate) room: Room,
    pub(crate) stats: Stats,
    /// What turns that were metered took for it.
    pub(crate) processor_ns: u64,
    /// The other ends of messages that it was given in this turn.
    pub(crate) given: Vec<(Number, CallId)>,
    /// Messages that are told of, and their places in the receive heap. Empty between turns, since
    /// only then is the application shown what it is told.
    pub(crate) unwritten: Vec<(u64, NativeMsg)>,
}

impl<M: Memory> Application<M> {
    /// An application with heaps that it has got. `seed` determines what its engines do at random.
    ///
    /// # Panics
    /// If the heaps are of other kinds than their names say.
    pub fn new(
        number: Number,
        name: &str,
        memory: M,
        limits: ApplicationLimits,
        seed: u64,
    ) -> Application<M> {
        assert_eq!(memory.send().kind(), petasos_shm::HeapKind::Send);
        assert_eq!(memory.receive().kind(), petasos_shm::HeapKind::Receive);
        let (blocks, room) = Room::of(memory.receive());
        let name: Arc<str> = name.into();
        Application {
            number,
            name: name.clone(),
            is_proved: false,
            user: None,
            policed: Policed::new(number),
            host: None,
            limits,
            memory,
            blocks,
            datapath: Datapath::new(limits.items_max, seed),
            fields: DeclaredFields::new(name),
            bindings: Vec::new(),
            serves: Vec::new(),
            targets: Vec::new(),
            routes: Routes::default(),
            bodies: Vec::new(),
            held: [Holding::default(); 2],
            beyond: Crowd::default(),
            refused: VecDeque::new(),
            carried_bytes: 0,
            crossing_calls: 0,
            in_letters: Arc::default(),
            calls: Vec::new(),
            by_number: CallNumbers::default(),
            counts: [0; 2],
            open: [0; 2],
            descriptors: VecDeque::new(),
            released: Released::new(),
            lent: Loans::new(|| {}),
            room,
            stats: Stats::default(),
            processor_ns: 0,
            given: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    /// Its number.
    pub fn number(&self) -> Number {
        self.number
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its heaps.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Binds a service that it calls or serves: gives the number that its descriptors name.
    ///
    /// # Errors
    /// An engine needs a field that one of the methods lacks: nothing can be called.
    pub(crate) fn bind(
        &mut self,
        binding: Arc<Binding>,
    ) -> Result<u16, petasos_engine::FieldError> {
        for (index, method) in binding.methods.iter().enumerate() {
            self.fields.add_method(&binding, index);
            self.datapath.add_method(method.id, &method.name, &mut self.fields)?;
        }
        self.bindings.push(binding);
        Ok(u16::try_from(self.bindings.len() - 1).expect("bindings are bounded by their schemas"))
    }

    /// The services that it serves, and their bindings' numbers.
    pub(crate) fn served_bindings(&self) -> impl Iterator<Item = (u16, &Arc<Binding>)> {
        let all = (0..).zip(&self.bindings).zip(&self.serves);
        all.filter(|(_, is_served)| **is_served).map(|(binding, _)| binding)
    }

    /// Its datapath.
    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// Whether another descriptor can be handled now. Otherwise it waits in its ring. What the
    /// application is to receive does not count: it takes that only if what it releases is heard.
    pub fn has_room(&self) -> bool {
        self.is_below(Direction::Outbound)
            && self.descriptors.len() < self.limits.descriptors_max
            && self.beyond.is_heard()
            && self.in_letters.load(Ordering::Relaxed) < self.limits.held_bytes_max
    }

    /// Whether nothing of its streams with other hosts is to be looked at.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.beyond.is_small(self.limits.beyond_bytes_max) && self.refused.is_empty()
    }

    /// Whether another message can be held for the application. The last one may go beyond the
    /// limit.
    pub(crate) fn holds_less(&self) -> bool {
        self.is_below(Direction::Inbound)
    }

    /// Whether the application can be given another call.
    pub(crate) fn takes_calls(&self) -> bool {
        self.has_call_left(Side::Service) && self.holds_less() && self.datapath.has_room()
    }

    /// Whether the application, or the service, may begin another call.
    #[inline]
    pub(crate) fn has_call_left(&self, side: Side) -> bool {
        self.open[side as usize] < self.limits.calls_max
    }

    fn is_below(&self, direction: Direction) -> bool {
        let Holding { items, bytes } = self.held[direction as usize];
        items < self.limits.items_max && bytes < self.limits.held_bytes_max
    }

    /// Whether it has no calls, and is to be told nothing.
    pub fn has_nothing_left(&self) -> bool {
        let holds_none = self.held.iter().all(|held| held.items == 0);
        holds_none && self.descriptors.is_empty() && self.calls.iter().all(Option::is_none)
    }

    /// What is to be put into its ring next.
    pub fn peek_descriptor(&mut self) -> Option<&Descriptor> {
        if self.lent.bytes() > 0 {
            self.take_back();
        }
        if self.descriptors.is_empty() && !self.released.tokens().is_empty() {
            let released = std::mem::replace(&mut self.released, Released::new());
            self.descriptors.push_back(Descriptor::Release(released));
        }
        self.descriptors.front()
    }

    /// Returns the memory of messages that were read where they lay.
    #[cold]
    fn take_back(&mut self) {
        for returned in self.lent.take_returned() {
            self.release(returned);
        }
    }

    /// It is in the ring.
    pub fn drop_descriptor(&mut self) {
        self.descriptors.pop_front();
    }

    /// What is to be put into its ring.
    pub fn poll_descriptor(&mut self) -> Option<Descriptor> {
        let next = *self.peek_descriptor()?;
        self.drop_descriptor();
        Some(next)
    }

    /// A method that one of its calls names.
    #[inline]
    pub(crate) fn method(&self, at: MethodAt) -> &BoundMethod {
        at.of(&self.bindings)
    }

    /// The types of the binding that it is in.
    #[inline]
    pub(crate) fn types(&self, at: MethodAt) -> &Arc<Types> {
        &self.bindings[usize::from(at.binding)].types
    }

    #[inline]
    pub(crate) fn known(&self, id: CallId) -> Option<&Known> {
        self.calls.get(id.index as usize)?.as_ref().filter(|known| known.id == id)
    }

    #[inline]
    pub(crate) fn known_mut(&mut self, id: CallId) -> Option<&mut Known> {
        self.calls.get_mut(id.index as usize)?.as_mut().filter(|known| known.id == id)
    }

    pub(crate) fn remember(&mut self, mut known: Known) {
        if known.method.of(&self.bindings).is_stream {
            known.flow = Some(Box::new(Flow::new(self.limits.grant_bytes)));
        }
        self.open[known.number.begun_by() as usize] += 1;
        let index = known.id.index as usize;
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, || None);
        }
        self.by_number.insert(known.number, known.id);
        self.calls[index] = Some(known);
    }

    /// A call from elsewhere comes in.
    #[inline]
    pub(crate) fn remember_served(&mut self, mut known: Known, way: Way) {
        known.row = self.stats.begin(known.method.of(&self.bindings), way);
        self.remember(known);
    }

    pub(crate) fn forget(&mut self, id: CallId) {
        let place = self.calls.get_mut(id.index as usize);
        let Some(place) = place.filter(|place| place.as_ref().is_some_and(|it| it.id == id)) else {
            return;
        };
        let mut known = place.take().expect("it was just found");
        self.by_number.remove(known.number);
        if !known.is_cancelled {
            self.open[known.number.begun_by() as usize] -= 1;
        }
        known.give_up(&mut self.stats, known.method.of(&self.bindings));
    }

    /// The next number for a call of the service's.
    pub(crate) fn next_number(&mut self) -> CallNumber {
        let count = &mut self.counts[Side::Service as usize];
        *count += 1;
        CallNumber::new(Side::Service, *count - 1)
    }

    /// Puts an item into the datapath, with its message.
    pub(crate) fn submit(
        &mut self,
        id: CallId,
        item: Submission,
        body: Body,
        now: Time,
    ) -> Result<(), petasos_engine::Gone> {
        let direction = item.direction;
        let index = self.datapath.submit(id, item, now)?;
        if self.bodies.len() <= index {
            self.bodies.resize_with(index + 1, Held::default);
        }
        let held = &mut self.held[direction as usize];
        held.items += 1;
        let mut body = body;
        if let Some(message) = &mut body {
            held.bytes += message.image_bytes();
            if !self.fields.is_empty() {
                self.read_fields(id, direction, (index, message));
            }
        }
        let held = &mut self.bodies[index];
        (held.body, held.direction) = (body, Some(direction));
        Ok(())
    }

    /// Shows engines the declared fields of a message from the caller.
    fn read_fields(
        &mut self,
        id: CallId,
        direction: Direction,
        (at, message): (usize, &mut NativeMsg),
    ) {
        let Some(known) = self.known(id) else { return };
        if known.is_callers() == (direction == Direction::Outbound) {
            let method = self.method(known.method).id;
            self.fields.read(method, message, self.datapath.fields_mut(at));
        }
    }

    /// Takes the message of an item that has left the datapath.
    #[inline]
    pub(crate) fn take_body(&mut self, index: usize) -> Body {
        let Held { body, direction } = self.bodies.get_mut(index)?;
        let (body, direction) = (body.take(), direction.take()?);
        let held = &mut self.held[direction as usize];
        held.items -= 1;
        held.bytes -= body.as_ref().map_or(0, NativeMsg::image_bytes);
        body
    }

    /// Takes the message of an item that stays in the datapath.
    #[inline]
    pub(crate) fn drop_body(&mut self, index: usize) -> Body {
        let held = self.bodies.get_mut(index)?;
        let body = held.body.take()?;
        let direction = held.direction.expect("an item that was submitted has the message");
        self.held[direction as usize].bytes -= body.image_bytes();
        Some(body)
    }

    /// Frees what belongs to items that became void.
    pub(crate) fn free_void(&mut self) {
        while let Some((index, call)) = self.datapath.pop_void() {
            self.take_body(index);
            self.settle(call);
        }
    }

    /// Forgets a call that is over.
    #[inline]
    pub(crate) fn settle(&mut self, id: CallId) {
        if self.datapath.call(id).is_none() {
            self.forget(id);
        }
    }
}
