//! The table of streams, and the operations that applications perform on a half.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::stream::{
    CallerEvent, CallerStream, Message as Coded, ServerEvent, ServerStream, SessionStreams,
    WIDTH_MAX,
};
use petasos_call::{Code, Codec, Metadata, Status, TraceContext};
use petasos_endpoint::{CallId, RequestHandle, ServerSessionId, SessionId};

use super::encoded::EncodedMessage;
use super::parts::{Event, Form, Side, StreamKey, Target, gone};
use super::remote::RemoteStream;
use super::retry::{Restart, StreamAsk, StreamRetry};
use super::slots::StreamSlots;
use crate::calls::Waiter;
use crate::lease::Lease;

/// Epochs count modulo 2^28, so that they fit into the tags of exchanges.
const EPOCHS: u32 = u32::MAX >> 4;

/// The application's use of one direction.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) is_held: bool,
    pub(crate) waiter: Waiter,
    /// The mailbox, if the direction is used on another thread.
    pub(crate) remote: Option<Arc<RemoteStream>>,
}

/// A call that waits for a session.
pub(crate) struct Queued {
    pub(crate) metadata: Metadata,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) deadline: Time,
    /// The codec that its messages are compressed with if the server supports it.
    pub(crate) codec: Codec,
    pub(crate) target: Target,
    /// Its request for a session; `None` while its retry policy makes it wait.
    pub(crate) ask: Option<StreamAsk>,
    /// Set once no server was found, if its policy allows retries.
    pub(crate) retry: Option<Box<StreamRetry>>,
}

impl Queued {
    pub(crate) fn new(
        target: Target,
        metadata: Metadata,
        trace: Option<TraceContext>,
        deadline: Time,
        codec: Codec,
    ) -> Queued {
        Queued { metadata, trace, deadline, codec, target, ask: None, retry: None }
    }
}

/// A caller's half.
pub(crate) struct Caller {
    pub(crate) stream: CallerStream<EncodedMessage>,
    pub(crate) session: SessionId,
    /// Its seat in the session, until the half ends.
    pub(crate) lease: Option<Lease>,
    /// The method's number in the session.
    pub(crate) method: u16,
    pub(crate) form: Form,
    /// The exchanges in progress, each at the index of its segment's number modulo [`WIDTH_MAX`].
    pub(crate) calls: [Option<CallId>; WIDTH_MAX as usize],
    /// Slots that the session has lent to this call.
    pub(crate) lent: u32,
    /// Distinguishes answers to cancelled exchanges from current ones.
    pub(crate) epoch: u32,
    /// The call's final status code, once known.
    pub(crate) code: Option<Code>,
    pub(crate) target: Target,
    pub(crate) deadline: Time,
    /// How often the call was restarted, and whether a restart was due to an overloaded server.
    pub(crate) restarts: (u8, bool),
    /// Set while the call is restarting.
    pub(crate) restart: Option<Box<Restart>>,
    /// Set if its policy allows retries.
    pub(crate) retry: Option<Box<StreamRetry>>,
    /// The second request, if it was answered before the first one.
    pub(crate) overtaking: Option<MsgBuf>,
}

/// A handler's half.
pub(crate) struct Server {
    pub(crate) stream: ServerStream<EncodedMessage, RequestHandle>,
    pub(crate) session: ServerSessionId,
    /// Its number in the session; 0 once the session no longer knows it.
    pub(crate) number: u32,
    /// The method's index in the loop.
    pub(crate) kind: u32,
    pub(crate) form: Form,
    /// The handler's slot, while it runs.
    pub(crate) slot: Option<u32>,
    pub(crate) has_begun: bool,
    /// Trailing metadata for the end, from a sender that was dropped.
    pub(crate) trailers: Metadata,
    /// The handler's result, while messages are still in its sender's mailbox.
    pub(crate) ending: Option<Result<(), Status>>,
    /// Why the handler can neither send nor receive any more.
    pub(crate) over: Option<Status>,
}

pub(crate) enum Half {
    Free,
    Queued(Box<Queued>),
    /// The call never had a session.
    Failed(Status),
    Caller(Box<Caller>),
    Server(Box<Server>),
}

pub(crate) struct Entry {
    pub(crate) generation: u32,
    is_dirty: bool,
    pub(crate) half: Half,
    pub(crate) reader: End,
    pub(crate) writer: End,
}

/// The streams of one session that this loop serves.
pub(crate) struct Served {
    pub(crate) session: ServerSessionId,
    pub(crate) streams: SessionStreams<u32>,
}

/// The streams of a loop.
#[derive(Default)]
pub struct Streams {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Halves that may have something to send.
    dirty: Vec<u32>,
    spare: Vec<u32>,
    /// Exchanges to be cancelled.
    pub(crate) cancels: Vec<CallId>,
    /// Calls without a session, by the tags of their requests for one.
    pub(crate) asks: HashMap<u32, u32>,
    tags: u32,
    /// Calls whose deadlines have not been added to the timers yet.
    pub(crate) fresh: Vec<(StreamKey, Time)>,
    pub(crate) slots: StreamSlots,
    /// By the session's index at the server.
    pub(crate) served: Vec<Option<Served>>,
    /// The number of handlers' halves that have not ended.
    pub(crate) handlers: u32,
    /// Whether a sweep is scheduled. There is at most one.
    pub(crate) is_swept: bool,
    /// Handlers' halves whose sessions are gone.
    pub(crate) orphans: Vec<u32>,
    /// Waiters to be woken when nothing is borrowed.
    pub(crate) woken: Vec<Waiter>,
    /// Mailboxes for which something has arrived, or whose stream has room again.
    pub(crate) pumped: Vec<Arc<RemoteStream>>,
    /// Messages that could not be read (R13).
    pub(crate) malformed: u64,
    epochs: u32,
}

impl Streams {
    /// Whether there is work that the turn has not seen yet.
    pub(crate) fn has_news(&self) -> bool {
        let nothing = self.dirty.is_empty() && self.cancels.is_empty();
        !(nothing && self.woken.is_empty() && self.pumped.is_empty())
    }

    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        core::mem::replace(&mut self.dirty, core::mem::take(&mut self.spare))
    }

    pub(crate) fn give_dirty(&mut self, list: Vec<u32>) {
        self.spare = list;
    }

    /// Adds a half. `is_held` says whether the application already holds both directions.
    pub(crate) fn add(&mut self, half: Half, is_held: bool) -> StreamKey {
        let held = || End { is_held, ..End::default() };
        if let Some(place) = self.free.pop() {
            let entry = &mut self.entries[place as usize];
            (entry.half, entry.reader, entry.writer) = (half, held(), held());
            return StreamKey { place, generation: entry.generation };
        }
        let place = u32::try_from(self.entries.len()).expect("streams are counted in 32 bits");
        let (reader, writer) = (held(), held());
        self.entries.push(Entry { generation: 0, is_dirty: false, half, reader, writer });
        StreamKey { place, generation: 0 }
    }

    /// The number of places in use.
    pub(crate) fn taken(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn halves(&self) -> impl Iterator<Item = &Half> {
        self.entries.iter().map(|entry| &entry.half)
    }

    pub(crate) fn at(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    pub(crate) fn get(&mut self, key: StreamKey) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key.place as usize)?;
        (entry.generation == key.generation).then_some(entry)
    }

    pub(crate) fn caller(&mut self, place: u32) -> Option<&mut Caller> {
        match &mut self.at(place).half {
            Half::Caller(caller) => Some(caller),
            _ => None,
        }
    }

    /// A caller's half, and the table of the slots that streams use in all sessions.
    pub(crate) fn caller_and_slots(
        &mut self,
        place: u32,
    ) -> Option<(&mut Caller, &mut StreamSlots)> {
        match &mut self.entries[place as usize].half {
            Half::Caller(caller) => Some((caller, &mut self.slots)),
            _ => None,
        }
    }

    pub(crate) fn server(&mut self, place: u32) -> Option<&mut Server> {
        match &mut self.at(place).half {
            Half::Server(server) => Some(server),
            _ => None,
        }
    }

    /// Notes that the half in this place may have something to send.
    pub(crate) fn mark(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        if !core::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.push(place);
        }
    }

    /// Notes that the half in this place is about to be asked for what it has to send.
    pub(crate) fn unmark(&mut self, place: u32) {
        self.entries[place as usize].is_dirty = false;
    }

    /// Wakes both directions later, because there is something new for them.
    pub(crate) fn wake_later(&mut self, place: u32) {
        self.wake_reader_later(place);
        self.wake_writer_later(place);
    }

    pub(crate) fn wake_reader_later(&mut self, place: u32) {
        self.wake_side_later(place, Side::Reader);
    }

    pub(crate) fn wake_writer_later(&mut self, place: u32) {
        self.wake_side_later(place, Side::Writer);
    }

    fn wake_side_later(&mut self, place: u32, side: Side) {
        let end = self.entries[place as usize].end(side);
        if let Some(remote) = &end.remote {
            self.pumped.push(remote.clone());
        } else if !matches!(end.waiter, Waiter::Nobody) {
            self.woken.push(core::mem::take(&mut end.waiter));
        }
    }

    /// Marks a direction as used on another thread from now on.
    pub(crate) fn attach(&mut self, key: StreamKey, side: Side, remote: Arc<RemoteStream>) {
        if let Some(entry) = self.get(key) {
            entry.end(side).remote = Some(remote);
        }
    }

    /// Takes the mailboxes of all directions that are used on other threads.
    pub(crate) fn take_remotes(&mut self) -> Vec<Arc<RemoteStream>> {
        let ends = self.entries.iter_mut().flat_map(|entry| [&mut entry.reader, &mut entry.writer]);
        ends.filter_map(|end| end.remote.take()).collect()
    }

    /// Registers a waiter for a direction, and returns the previous one.
    pub(crate) fn wait(&mut self, key: StreamKey, side: Side, waiter: Waiter) -> Waiter {
        let Some(entry) = self.get(key) else { return waiter };
        core::mem::replace(&mut entry.end(side).waiter, waiter)
    }

    pub(crate) fn key(&self, place: u32) -> StreamKey {
        StreamKey { place, generation: self.entries[place as usize].generation }
    }

    /// A new tag for an ask.
    pub(crate) fn next_tag(&mut self) -> u32 {
        self.tags = self.tags.wrapping_add(1);
        self.tags
    }

    /// Adds a call that has asked for a session.
    pub(crate) fn enqueue(&mut self, queued: Queued) -> StreamKey {
        let (deadline, ask) = (queued.deadline, queued.ask);
        let key = self.add(Half::Queued(Box::new(queued)), true);
        if let Some(StreamAsk { tag, .. }) = ask {
            self.asks.insert(tag, key.place);
        }
        if deadline != Time::NEVER {
            self.fresh.push((key, deadline));
        }
        key
    }

    /// Whether a call that was added has a session or has failed; `None` while it waits.
    pub(crate) fn opened(&mut self, key: StreamKey) -> Option<Result<Form, Status>> {
        let Some(entry) = self.get(key) else { return Some(Err(gone())) };
        match &entry.half {
            Half::Caller(caller) => Some(Ok(caller.form)),
            Half::Failed(status) => Some(Err(status.clone())),
            _ => None,
        }
    }

    /// Ends the stream with `status`, because a message could not be read (R13).
    pub(crate) fn refuse(&mut self, key: StreamKey, status: &Status) {
        self.malformed += u64::from(status.code() == Code::Internal);
        match self.get(key).map(|entry| &mut entry.half) {
            Some(Half::Caller(_)) => {
                let _ = self.give_up(key.place, status.clone());
            }
            Some(Half::Server(server)) => {
                server.stream.abort(status.clone());
                server.over.get_or_insert(status.clone());
                self.mark(key.place);
            }
            _ => {}
        }
    }

    /// Takes the next event, if there is one.
    pub(crate) fn next(&mut self, key: StreamKey) -> Option<Event> {
        let Some(entry) = self.get(key) else { return Some(Event::End(Err(gone()))) };
        let event = match &mut entry.half {
            Half::Caller(caller) => match caller.stream.poll_event()? {
                CallerEvent::Head(metadata) => Event::Head(metadata),
                CallerEvent::Message(message) => Event::Message(message),
                CallerEvent::End(status) if status.code() == Code::Ok => {
                    Event::End(Ok(status.metadata().clone()))
                }
                CallerEvent::End(status) => Event::End(Err(status)),
            },
            Half::Server(server) => match server.stream.poll_event() {
                Some(ServerEvent::Message(message)) => Event::Message(message),
                Some(ServerEvent::Closed) => Event::End(Ok(Metadata::new())),
                _ => Event::End(Err(server.over.clone()?)),
            },
            Half::Queued(_) => return None,
            Half::Failed(status) => Event::End(Err(status.clone())),
            Half::Free => unreachable!("a place that is held is not free"),
        };
        if matches!(event, Event::Message(_)) {
            self.mark(key.place);
        }
        Some(event)
    }

    /// Whether another message may be sent; `None` if the sender has to wait for that.
    pub(crate) fn room(&mut self, key: StreamKey) -> Option<Result<(), Status>> {
        let Some(entry) = self.get(key) else { return Some(Err(gone())) };
        match &mut entry.half {
            Half::Caller(caller) if caller.stream.can_send() => Some(Ok(())),
            Half::Caller(caller) if caller.stream.is_open() => None,
            Half::Caller(caller) => Some(Err(caller.refusal())),
            Half::Server(server) if server.stream.can_send() => Some(Ok(())),
            Half::Server(server) => server.over.clone().map(Err),
            Half::Queued(_) => None,
            Half::Failed(status) => Some(Err(status.clone())),
            Half::Free => unreachable!("a place that is held is not free"),
        }
    }

    /// Sends a message. The caller has checked that there is room.
    pub(crate) fn send(&mut self, key: StreamKey, message: Coded<EncodedMessage>) {
        match self.get(key).map(|entry| &mut entry.half) {
            Some(Half::Caller(caller)) => caller.stream.send(message),
            Some(Half::Server(server)) => server.stream.send(message),
            _ => return,
        }
        self.mark(key.place);
    }

    /// Releases a direction that the application no longer uses. Returns the direction's waiter, to
    /// be dropped when nothing is borrowed, and an ask to be withdrawn.
    pub(crate) fn leave(&mut self, key: StreamKey, side: Side) -> (Waiter, Option<u32>) {
        let Some(entry) = self.get(key) else { return (Waiter::Nobody, None) };
        let end = entry.end(side);
        end.is_held = false;
        end.remote = None;
        let waiter = core::mem::take(&mut end.waiter);
        let mut ask = None;
        match (&mut entry.half, side) {
            (Half::Caller(caller), Side::Writer) => caller.stream.close(),
            (Half::Caller(caller), Side::Reader) if caller.code.is_some() => {}
            (_, Side::Reader) => {
                ask = self.give_up(key.place, Status::cancelled("the call was given up"));
            }
            _ => {}
        }
        self.mark(key.place);
        self.free_if_over(key.place);
        (waiter, ask)
    }

    /// Ends a call from this side. Returns an ask to be withdrawn.
    #[must_use = "an ask that is not withdrawn stays in the queue"]
    pub(crate) fn give_up(&mut self, place: u32, status: Status) -> Option<u32> {
        let entry = &mut self.entries[place as usize];
        match &mut entry.half {
            Half::Caller(caller) => {
                caller.code = Some(status.code());
                caller.stream.reset(status.clone());
                let restart = caller.restart.take();
                if restart.is_some() {
                    // No server has seen this call.
                    caller.stream.handle_failure(status, false);
                }
                let asked = restart.and_then(|restart| restart.ask);
                if let Some(StreamAsk { tag, .. }) = asked {
                    self.asks.remove(&tag);
                }
                self.cancel_calls(place);
                self.mark(place);
                asked.map(|ask| ask.number)
            }
            half @ Half::Queued(_) => {
                let earlier = core::mem::replace(half, Half::Failed(status));
                let Half::Queued(queued) = earlier else { unreachable!("it was just matched") };
                let StreamAsk { number, tag } = queued.ask?;
                self.asks.remove(&tag);
                Some(number)
            }
            _ => None,
        }
    }

    /// Cancels the exchanges in progress. Their answers will be ignored.
    pub(crate) fn cancel_calls(&mut self, place: u32) {
        let epoch = self.next_epoch();
        let caller = self.caller(place).expect("only calls have exchanges");
        caller.epoch = epoch;
        let calls = core::mem::take(&mut caller.calls);
        self.cancels.extend(calls.into_iter().flatten());
    }

    /// A new epoch: it distinguishes answers for successive exchanges in the same place.
    pub(crate) fn next_epoch(&mut self) -> u32 {
        self.epochs = self.epochs.wrapping_add(1) & EPOCHS;
        self.epochs
    }

    /// Frees a place if its half has ended and nothing refers to it.
    pub(crate) fn free_if_over(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        let is_over = match &entry.half {
            Half::Free => return,
            Half::Queued(_) => false,
            Half::Failed(_) => true,
            Half::Caller(caller) => caller.stream.is_over() && caller.lease.is_none(),
            Half::Server(server) => server.number == 0 && server.slot.is_none(),
        };
        if is_over && !entry.reader.is_held && !entry.writer.is_held {
            entry.half = Half::Free;
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(place);
        }
    }
}

impl Entry {
    pub(crate) fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Reader => &mut self.reader,
            Side::Writer => &mut self.writer,
        }
    }
}

impl Caller {
    /// The reason why no more messages are accepted.
    fn refusal(&self) -> Status {
        let code = self.code.filter(|code| *code != Code::Ok).unwrap_or(Code::Cancelled);
        Status::new(code, "the call has ended; read from it to get its status")
    }
}
