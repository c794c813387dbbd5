//! Delivers messages to an application: writes them into its receive heap, and describes them in
//! descriptors.

use petasos_abi::{CallNumber, Contents, Descriptor, Request, TIME_NEVER};
use petasos_base::Time;
use petasos_call::{Code, Status};
use petasos_engine::{CallId, Direction, Finished, ItemKind};
use petasos_message::NativeMsg;

use crate::application::{Application, Memory};
use crate::incoming::tail_of;
use crate::known::Known;

/// An item that has passed all engines, and is still in the datapath.
pub(crate) struct Waiting {
    pub(crate) kind: ItemKind,
    pub(crate) call: CallId,
    /// Of its message.
    pub(crate) bytes: usize,
}

impl<M: Memory> Application<M> {
    /// Tells the application what has passed its engines, as long as there is room in its receive
    /// heap and among its descriptors. What there is no room for stays where it is.
    pub(crate) fn deliver(&mut self, now: Time) -> bool {
        let mut has_delivered = false;
        while self.descriptors.len() < self.limits.descriptors_max {
            let next = self.next(Direction::Inbound, now);
            let Some(Waiting { call, bytes, .. }) = next else { break };
            let Some(place) = self.place_for(bytes) else {
                if let Some(status) = self.never_fits(bytes) {
                    self.datapath.end(call, status, now);
                    continue;
                }
                self.room.wanted_bytes = bytes as u64;
                break;
            };
            let item = self.datapath.take_shown(Direction::Inbound);
            let message = match self.take_body(item.index) {
                None => Contents::NONE,
                Some(body) => {
                    let bytes = body.image_bytes() as u32;
                    self.unwritten.push((place, body));
                    Contents { offset: place, bytes }
                }
            };
            self.tell(item, message, now);
            has_delivered = true;
        }
        self.write_all();
        has_delivered
    }

    /// Writes the messages of a turn to their places. Each place is in the cache of the
    /// application's core: one after the other, without anything in between that would wait for it,
    /// they come over together.
    fn write_all(&mut self) {
        for (place, body) in &self.unwritten {
            self.memory.write(*place, body.image()).expect("places lie in the heap");
            if body.is_gathered() {
                write_attached(&mut self.memory, *place, body);
            }
        }
        self.unwritten.clear();
    }

    /// The next item, whose message has what engines have set; none if there is no item. A call
    /// whose message cannot be written so ends.
    #[inline]
    pub(crate) fn next(&mut self, direction: Direction, now: Time) -> Option<Waiting> {
        loop {
            let next = self.datapath.peek(direction)?;
            let is_message = next.kind == ItemKind::Message && direction == Direction::Inbound;
            let known = self.calls.get(next.call.index as usize).and_then(Option::as_ref);
            let known = known.filter(|known| known.id == next.call);
            if is_message && !known.is_none_or(Known::takes_message) {
                self.datapath.set_aside();
                continue;
            }
            let waiting = |bytes| Waiting { kind: next.kind, call: next.call, bytes };
            if next.is_from_engine {
                let (index, waiting) = (next.index, waiting(0));
                drop(self.drop_body(index));
                return Some(waiting);
            }
            let held = self.bodies.get_mut(next.index).and_then(|held| held.body.as_mut());
            let Some(message) = held else { return Some(waiting(0)) };
            if !next.fields.is_written() {
                return Some(waiting(message.image_bytes()));
            }
            let before = message.image_bytes();
            let written = match known {
                Some(known) => {
                    let method = known.method.of(&self.bindings).id;
                    self.fields.write(method, message, next.fields)
                }
                None => Ok(()),
            };
            let waiting = waiting(message.image_bytes());
            let held = &mut self.held[direction as usize];
            held.bytes = held.bytes + waiting.bytes - before;
            match written {
                Ok(()) => return Some(waiting),
                Err(error) => {
                    let status = format!("a policy cannot change the message: {error}");
                    self.datapath.end(waiting.call, Status::internal(status), now);
                }
            }
        }
    }

    /// A call ends before it has begun.
    pub(crate) fn refuse(&mut self, call: CallNumber, status: &Status) {
        let metadata = self.metadata(tail_of(&petasos_call::Metadata::new(), Some(status)));
        let (status, message) = (status.code() as u8, Contents::NONE);
        let end = Descriptor::End { call, status, has_not_run: true, message, metadata };
        self.descriptors.push_back(end);
    }

    fn tell(&mut self, item: Finished, message: Contents, now: Time) {
        let bytes = message.bytes as usize;
        let Some(known) = self.count(&item, (Direction::Inbound, bytes), now) else {
            // Nobody can be told: the call was forgotten with its application's other end.
            self.free(message);
            return;
        };
        let call = known.number;
        let metadata = self.metadata(tail_of(&item.metadata, item.status.as_ref()));
        let descriptor = match item.kind {
            ItemKind::Request => self.request(&item, message, metadata, now),
            ItemKind::Message => {
                self.note_given(item.call, message.bytes);
                Descriptor::Message { call, message }
            }
            ItemKind::Close => Descriptor::Close { call },
            ItemKind::Cancel => Descriptor::Cancel { call },
            ItemKind::Head => Descriptor::Head { call, metadata },
            ItemKind::End => {
                let code = item.status.as_ref().map_or(Code::Ok, Status::code);
                let (status, has_not_run) = (code as u8, item.has_not_run);
                Descriptor::End { call, status, has_not_run, message, metadata }
            }
        };
        self.descriptors.push_back(descriptor);
        self.settle(item.call);
    }

    fn request(
        &self,
        item: &Finished,
        message: Contents,
        metadata: Contents,
        now: Time,
    ) -> Descriptor {
        let known = self.known(item.call).expect("the caller has just looked");
        let method = self.method(known.method);
        let left = item.deadline.nanos_since(now) / 1000;
        let time_left_us = if item.deadline == Time::NEVER { TIME_NEVER } else { left.max(1) };
        Descriptor::Request(Request {
            call: known.number,
            binding: known.method.binding,
            method: known.method.method,
            partner: known.target,
            is_stream: method.is_stream,
            is_idempotent: method.is_idempotent,
            waits_for_ready: false,
            time_left_us,
            message,
            metadata,
        })
    }

    /// A place for a message; none if there is none now.
    fn place_for(&mut self, bytes: usize) -> Option<u64> {
        match bytes {
            0 => Some(0),
            bytes => self.blocks.allocate(bytes as u32),
        }
    }

    fn written(&mut self, place: u64, bytes: &[u8]) -> Contents {
        self.memory.write(place, bytes).expect("places lie in the heap");
        Contents { offset: place, bytes: bytes.len() as u32 }
    }

    /// Metadata, if there is room for them: an application that keeps all its memory is told
    /// without.
    fn metadata(&mut self, tail: Vec<u8>) -> Contents {
        if tail.is_empty() {
            return Contents::NONE;
        }
        match self.blocks.allocate(tail.len() as u32) {
            Some(place) => self.written(place, &tail),
            None => Contents::NONE,
        }
    }

    fn free(&mut self, contents: Contents) {
        if !contents.is_none() {
            self.blocks.free(contents.offset).expect("it was just allocated");
        }
    }
}

/// Writes what is attached to a message behind it. From another application's heap it comes here by
/// one copy.
#[cold]
fn write_attached(memory: &mut impl Memory, place: u64, body: &NativeMsg) {
    let mut at = place + body.image().len() as u64;
    for segment in body.attached() {
        let written = memory.write_with(at, segment.len(), |to| segment.copy_to(0, to));
        written.expect("places lie in the heap");
        at += segment.len() as u64;
    }
}
