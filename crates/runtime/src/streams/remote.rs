//! Directions of streams that are used on another thread than their loop's.
//!
//! Such a direction has a mailbox behind a lock. The thread puts messages in or takes them out, and
//! posts a command when the loop has something to do for it; the loop moves messages between
//! mailbox and half whenever it would wake who waits in the loop's thread. So the protocol's bounds
//! (R17) hold for the half, and the mailbox keeps [`REMOTE_BYTES_MAX`] and one message beyond them.
//! The end of a handler waits until its mailbox is empty.
//!
//! Invariants: a mailbox has at most one command under way; a direction that has left keeps its
//! place until its messages have moved to the half. The lock is held for moves only: nobody is
//! woken under it.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::Time;
use petasos_call::stream::{Body, Message as Coded};
use petasos_call::{Codec, Metadata, Status, TraceContext};

use super::encoded::EncodedMessage;
use super::table::{Event, Form, Key, Queued, Side, Streams, gone};
use crate::ChannelShared;
use crate::local::Local;
use crate::shared::Command;
use crate::thread::LoopThread;

/// Bytes of messages that a mailbox takes before it is full.
const REMOTE_BYTES_MAX: usize = 64 << 10;
/// What a message counts for beside its bytes, so that empty ones fill a mailbox, too.
const MESSAGE_BYTES: usize = 64;

/// A direction's mailbox.
pub struct RemoteStream {
    loop_id: u32,
    /// Turns the loop for as long as the call is wanted, though its channel be gone.
    _thread: Option<Arc<LoopThread>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the loop is to do first.
    ask: Option<Ask>,
    /// The direction, once the loop knows the mailbox.
    at: Option<(Key, Side)>,
    form: Option<Result<Form, Status>>,
    /// A reader's, with their bytes.
    events: VecDeque<Event>,
    /// A writer's, with their bytes.
    outgoing: VecDeque<Coded<EncodedMessage>>,
    bytes: usize,
    /// The loop has stopped for want of room here.
    is_full: bool,
    head: Option<Metadata>,
    trailers: Option<Metadata>,
    /// Why nothing more is taken or comes.
    over: Option<Status>,
    /// Why a message could not be read, or is not sent.
    refused: Option<Status>,
    has_left: bool,
    is_posted: bool,
    waker: Option<Waker>,
}

enum Ask {
    /// To know a direction of a stream by its mailbox.
    Attach(Key, Side),
    /// To begin a call, whose writer has the other mailbox.
    Open(Call, Arc<RemoteStream>),
}

/// A call that another thread begins.
pub(super) struct Call {
    pub(super) channel: u32,
    pub(super) method: (u32, u16),
    pub(super) metadata: Metadata,
    pub(super) trace: Option<TraceContext>,
    pub(super) timeout: Option<Duration>,
    pub(super) wait_for_ready: bool,
    pub(super) codec: Codec,
}

impl RemoteStream {
    fn new(loop_id: u32, thread: Option<Arc<LoopThread>>, state: State) -> Arc<RemoteStream> {
        Arc::new(RemoteStream { loop_id, _thread: thread, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mailbox for a direction that was used in the loop's thread so far.
    pub(super) fn attach(loop_id: u32, key: Key, side: Side) -> Arc<RemoteStream> {
        let state = State { ask: Some(Ask::Attach(key, side)), ..State::default() };
        let remote = RemoteStream::new(loop_id, None, state);
        remote.notify(remote.lock());
        remote
    }

    /// Mailboxes for a reader and a writer of a call that begins.
    pub(super) fn open(shared: &ChannelShared, call: Call) -> [Arc<RemoteStream>; 2] {
        let (loop_id, thread) = (shared.runtime.loop_id, shared.thread.clone());
        let writer = RemoteStream::new(loop_id, thread.clone(), State::default());
        let state = State { ask: Some(Ask::Open(call, writer.clone())), ..State::default() };
        let reader = RemoteStream::new(loop_id, thread, state);
        reader.notify(reader.lock());
        [reader, writer]
    }

    /// Lets the loop look at the mailbox. If the loop is gone, the command is declined, which ends
    /// the mailbox.
    fn notify(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let is_first = !core::mem::replace(&mut state.is_posted, true);
        drop(state);
        if is_first {
            crate::send(self.loop_id, Command::Stream(self.clone()));
        }
    }

    /// Whether the stream has its session.
    pub(super) fn poll_form(&self, cx: &mut Context<'_>) -> Poll<Result<Form, Status>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        match &state.form {
            Some(form) => Poll::Ready(form.clone()),
            None => state.wait(waker),
        }
    }

    /// What comes next.
    pub(super) fn poll_event(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Event> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        if let Some(event) = state.events.pop_front() {
            state.bytes -= event.bytes();
            if state.is_full && state.bytes < REMOTE_BYTES_MAX / 2 {
                state.is_full = false;
                self.notify(state);
            }
            return Poll::Ready(event);
        }
        match state.over.clone() {
            Some(over) => Poll::Ready(Event::End(Err(over))),
            None => state.wait(waker),
        }
    }

    /// Waits until a message may be sent.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        match state.over.clone() {
            Some(over) => Poll::Ready(Err(over)),
            None if state.bytes < REMOTE_BYTES_MAX => Poll::Ready(Ok(())),
            None => state.wait(waker),
        }
    }

    /// Sends a message, for which there was room.
    pub(super) fn send(self: &Arc<Self>, message: Coded<EncodedMessage>) {
        let mut state = self.lock();
        state.bytes += weight(&message);
        state.outgoing.push_back(message);
        self.notify(state);
    }

    /// A server's initial metadata.
    pub(super) fn head(self: &Arc<Self>, metadata: Metadata) {
        let mut state = self.lock();
        state.head = Some(metadata);
        self.notify(state);
    }

    /// A server's trailing metadata.
    pub(super) fn trailers(&self, metadata: Metadata) {
        self.lock().trailers = Some(metadata);
    }

    /// A message could not be read, or is not sent: the stream is to end with this.
    #[cold]
    pub(super) fn refuse(self: &Arc<Self>, side: Side, status: Status) {
        let mut state = self.lock();
        if side == Side::Writer {
            state.end(status.clone());
        }
        state.refused = Some(status);
        self.notify(state);
    }

    /// The application has no more to do with the direction.
    pub(super) fn leave(self: &Arc<Self>) {
        let mut state = self.lock();
        state.has_left = true;
        state.waker = None;
        self.notify(state);
    }

    /// The handler that this sends for is done, so that it takes nothing more. Says whether there
    /// is something still to be sent.
    pub(super) fn handler_ended(&self) -> bool {
        let mut state = self.lock();
        let has_more = !state.outgoing.is_empty();
        if has_more {
            state.over.get_or_insert_with(|| Status::cancelled("the handler has ended"));
        }
        has_more
    }

    /// The loop has ended.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.end(gone());
        let (ask, waker) = (state.ask.take(), state.waker.take());
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(Ask::Open(_, writer)) = ask {
            writer.end();
        }
    }
}

impl core::fmt::Debug for RemoteStream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteStream").field("loop_id", &self.loop_id).finish_non_exhaustive()
    }
}

impl State {
    fn wait<T>(&mut self, waker: Waker) -> Poll<T> {
        self.waker = Some(waker);
        Poll::Pending
    }

    fn end(&mut self, status: Status) {
        self.form.get_or_insert(Err(status.clone()));
        self.over.get_or_insert(status);
        self.outgoing.clear();
    }

    /// Moves what there is, one way or the other.
    fn pump(&mut self, streams: &mut Streams, key: Key, side: Side) {
        if self.form.is_none() {
            self.form = streams.opened(key);
        }
        if let Some(status) = self.refused.take() {
            streams.refuse(key, &status);
        }
        match side {
            Side::Reader => self.pump_reader(streams, key),
            Side::Writer => self.pump_writer(streams, key),
        }
    }

    fn pump_reader(&mut self, streams: &mut Streams, key: Key) {
        while self.over.is_none() && !self.is_full {
            let Some(event) = streams.next(key) else { return };
            if let Event::End(end) = &event {
                let after = || Status::internal("nothing is asked behind the end");
                self.over = Some(end.as_ref().err().cloned().unwrap_or_else(after));
            }
            self.bytes += event.bytes();
            self.events.push_back(event);
            self.is_full = self.bytes >= REMOTE_BYTES_MAX;
        }
    }

    fn pump_writer(&mut self, streams: &mut Streams, key: Key) {
        if let Some(head) = self.head.take() {
            streams.head(key, head);
        }
        while let Some(room) = streams.room(key) {
            if let Err(status) = room {
                self.bytes = 0;
                self.end(status);
                break;
            }
            let Some(message) = self.outgoing.pop_front() else { break };
            self.bytes -= weight(&message);
            streams.send(key, message);
        }
        if let Some(trailers) = self.trailers.take() {
            streams.trailers(key, trailers);
        }
        if self.outgoing.is_empty() {
            streams.sent_all(key);
        }
    }
}

/// What a mailbox counts for a message.
fn weight(message: &Coded<EncodedMessage>) -> usize {
    MESSAGE_BYTES + message.body.len()
}

impl Event {
    fn bytes(&self) -> usize {
        match self {
            Event::Message(message) => weight(message),
            _ => 0,
        }
    }
}

impl Local {
    /// A mailbox has something for the loop.
    pub(crate) fn read_stream_letter(&self, remote: &Arc<RemoteStream>) {
        let mut state = remote.lock();
        state.is_posted = false;
        match state.ask.take() {
            Some(Ask::Attach(key, side)) => {
                state.at = Some((key, side));
                self.streams.borrow_mut().attach(key, side, remote.clone());
            }
            Some(Ask::Open(call, writer)) => {
                drop(state);
                let key = self.begin_call(call);
                let mut streams = self.streams.borrow_mut();
                streams.attach(key, Side::Reader, remote.clone());
                streams.attach(key, Side::Writer, writer.clone());
                drop(streams);
                remote.lock().at = Some((key, Side::Reader));
                writer.lock().at = Some((key, Side::Writer));
                self.pump_stream(&writer);
                return self.pump_stream(remote);
            }
            None => {}
        }
        drop(state);
        self.pump_stream(remote);
    }

    fn begin_call(&self, call: Call) -> Key {
        let Call { channel, method, metadata, trace, timeout, wait_for_ready, codec } = call;
        let deadline = timeout.map_or(Time::NEVER, |left| self.now() + left);
        let queued = Queued::new(metadata, trace, deadline, codec);
        self.begin_stream(channel, method, queued, wait_for_ready)
    }

    /// Moves messages between a mailbox and its half, and wakes who waits for them.
    pub(super) fn pump_stream(&self, remote: &Arc<RemoteStream>) {
        let mut state = remote.lock();
        // A writer whose reader has not been read yet: the command comes.
        let Some((key, side)) = state.at else { return };
        let (had_form, had, room) = (state.form.is_some(), state.events.len(), state.bytes);
        state.pump(&mut self.streams.borrow_mut(), key, side);
        let leaves = state.has_left && (side == Side::Reader || state.outgoing.is_empty());
        let is_news = had_form != state.form.is_some()
            || state.over.is_some()
            || match side {
                Side::Reader => state.events.len() > had,
                Side::Writer => state.bytes < room && state.bytes < REMOTE_BYTES_MAX,
            };
        let waker = if is_news { state.waker.take() } else { None };
        drop(state);
        if leaves {
            self.leave_stream(key, side);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The loop has ended: so have the streams that are used elsewhere.
    pub(crate) fn end_streams(&self) {
        let all = self.streams.borrow_mut().take_remotes();
        all.iter().for_each(|remote| remote.end());
    }
}

#[cfg(test)]
mod tests {
    use petasos_buf::MsgBuf;
    use petasos_call::Encoding;

    use super::*;

    fn is_ready(remote: &RemoteStream) -> bool {
        remote.poll_room(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn r17_messages_without_bytes_fill_a_mailbox_too() {
        // Its loop does not look at it.
        let remote = RemoteStream::new(0, None, State { is_posted: true, ..State::default() });
        let empty = || EncodedMessage::Own(MsgBuf::from_slice(&[]), 0);
        let (encoding, codec) = (Encoding::Protobuf, Codec::IDENTITY);
        let mut sent = 0;
        while is_ready(&remote) {
            remote.send(Coded { encoding, codec, body: empty() });
            sent += 1;
            assert!(sent <= REMOTE_BYTES_MAX / MESSAGE_BYTES);
        }
        assert_eq!(sent, REMOTE_BYTES_MAX / MESSAGE_BYTES);
    }
}
