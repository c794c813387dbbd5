//! Directions of streams that are used on another thread than that of their loop.
//!
//! Such a direction has a mailbox behind a lock. The other thread puts messages in or takes them
//! out, and sends a command when the loop must look at the mailbox. The loop moves messages between
//! the mailbox and the half whenever it would otherwise wake a task on its own thread. So the half
//! keeps the protocol's bounds (R17), and the mailbox holds at most [`REMOTE_BYTES_MAX`] plus one
//! message. A handler's call ends only when its mailbox is empty.
//!
//! Invariants: each mailbox has at most one command pending. A direction that was released keeps
//! its entry until its messages have moved to the half. The lock is held only while messages are
//! moved, and never while a task is woken.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_call::stream::Message as Coded;
use petasos_call::{Codec, Metadata, Status, TraceContext};

use super::encoded::EncodedMessage;
use super::parts::{Event, Form, Side, StreamKey, Target, gone, weight};
use crate::remote::KeepAlive;

/// The bytes of messages at which a mailbox is full.
pub(super) const REMOTE_BYTES_MAX: usize = 64 << 10;

/// Asks the loop with this number to look at a mailbox.
pub(crate) type SendCommand = fn(loop_id: u32, remote: Arc<RemoteStream>);

/// The mailbox of one direction.
pub struct RemoteStream {
    loop_id: u32,
    /// Asks the loop to look at the mailbox. A function pointer, because the module that sends
    /// commands depends on this one.
    send: SendCommand,
    /// Keeps the loop's thread running as long as the call is wanted, even if its channel was
    /// dropped.
    _thread: Option<KeepAlive>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// What the loop must do before it moves messages.
    pub(super) ask: Option<Ask>,
    /// The direction of the stream, once the loop knows the mailbox.
    pub(super) at: Option<(StreamKey, Side)>,
    pub(super) form: Option<Result<Form, Status>>,
    /// Of a reader: received events. `bytes` counts them.
    pub(super) events: VecDeque<Event>,
    /// Of a writer: messages to be sent. `bytes` counts them.
    pub(super) outgoing: VecDeque<Coded<EncodedMessage>>,
    pub(super) bytes: usize,
    /// The loop stopped moving messages because the mailbox was full.
    pub(super) is_full: bool,
    pub(super) head: Option<Metadata>,
    pub(super) trailers: Option<Metadata>,
    /// Why no more messages are accepted or will arrive.
    pub(super) over: Option<Status>,
    /// Why a message could not be read or is not sent.
    pub(super) refused: Option<Status>,
    pub(super) has_left: bool,
    pub(super) is_sent: bool,
    pub(super) waker: Option<Waker>,
}

pub(crate) enum Ask {
    /// Attach the mailbox to this direction of a stream.
    Attach(StreamKey, Side),
    /// Begin a call. The other mailbox is that of its writer.
    Open(Call, Arc<RemoteStream>),
}

/// A call that was begun on another thread.
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) metadata: Metadata,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) codec: Codec,
}

impl RemoteStream {
    fn new(
        loop_id: u32,
        send: SendCommand,
        thread: Option<KeepAlive>,
        state: State,
    ) -> Arc<RemoteStream> {
        Arc::new(RemoteStream { loop_id, send, _thread: thread, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the mailbox of a direction that was used on the loop's thread until now.
    pub(crate) fn attach(
        loop_id: u32,
        send: SendCommand,
        key: StreamKey,
        side: Side,
    ) -> Arc<RemoteStream> {
        let state = State { ask: Some(Ask::Attach(key, side)), ..State::default() };
        let remote = RemoteStream::new(loop_id, send, None, state);
        remote.notify(remote.lock());
        remote
    }

    /// Makes the mailboxes of the reader and the writer of a new call.
    pub(crate) fn open(
        loop_id: u32,
        send: SendCommand,
        thread: Option<KeepAlive>,
        call: Call,
    ) -> [Arc<RemoteStream>; 2] {
        let writer = RemoteStream::new(loop_id, send, thread.clone(), State::default());
        let state = State { ask: Some(Ask::Open(call, writer.clone())), ..State::default() };
        let reader = RemoteStream::new(loop_id, send, thread, state);
        reader.notify(reader.lock());
        [reader, writer]
    }

    /// Asks the loop to look at the mailbox. If the loop has ended, the command is refused, which
    /// ends the mailbox.
    fn notify(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let is_first = !core::mem::replace(&mut state.is_sent, true);
        drop(state);
        if is_first {
            (self.send)(self.loop_id, self.clone());
        }
    }

    /// Waits until the stream has a session.
    pub(crate) fn poll_form(&self, cx: &mut Context<'_>) -> Poll<Result<Form, Status>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        match &state.form {
            Some(form) => Poll::Ready(form.clone()),
            None => state.wait(waker),
        }
    }

    /// Waits for the next event.
    pub(crate) fn poll_event(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Event> {
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
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        match state.over.clone() {
            Some(over) => Poll::Ready(Err(over)),
            None if state.bytes < REMOTE_BYTES_MAX => Poll::Ready(Ok(())),
            None => state.wait(waker),
        }
    }

    /// Sends a message. The caller has checked that there is room.
    pub(crate) fn send(self: &Arc<Self>, message: Coded<EncodedMessage>) {
        let mut state = self.lock();
        state.bytes += weight(&message);
        state.outgoing.push_back(message);
        self.notify(state);
    }

    /// Sets a server's initial metadata.
    pub(crate) fn head(self: &Arc<Self>, metadata: Metadata) {
        let mut state = self.lock();
        state.head = Some(metadata);
        self.notify(state);
    }

    /// Sets a server's trailing metadata.
    pub(crate) fn trailers(&self, metadata: Metadata) {
        self.lock().trailers = Some(metadata);
    }

    /// Ends the stream with this status, because a message could not be read or is not sent.
    #[cold]
    pub(crate) fn refuse(self: &Arc<Self>, side: Side, status: Status) {
        let mut state = self.lock();
        if side == Side::Writer {
            state.end(status.clone());
        }
        state.refused = Some(status);
        self.notify(state);
    }

    /// Releases the direction: the application no longer uses it.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut state = self.lock();
        state.has_left = true;
        state.waker = None;
        self.notify(state);
    }

    /// The handler that sends through this mailbox has ended, so the mailbox accepts nothing more.
    /// Returns whether there are still messages to be sent.
    pub(super) fn handler_ended(&self) -> bool {
        let mut state = self.lock();
        let has_more = !state.outgoing.is_empty();
        if has_more {
            state.over.get_or_insert_with(|| Status::cancelled("the handler has ended"));
        }
        has_more
    }

    /// Takes the loop's next instruction. From now on the mailbox may be sent again.
    pub(crate) fn take_ask(&self) -> Option<Ask> {
        let mut state = self.lock();
        state.is_sent = false;
        state.ask.take()
    }

    /// Notes the direction that the loop attached the mailbox to.
    pub(crate) fn attached(&self, key: StreamKey, side: Side) {
        self.lock().at = Some((key, side));
    }

    /// Ends the mailbox, because the loop has ended.
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

    pub(super) fn end(&mut self, status: Status) {
        self.form.get_or_insert(Err(status.clone()));
        self.over.get_or_insert(status);
        self.outgoing.clear();
    }
}

#[cfg(test)]
mod tests {
    use petasos_buf::MsgBuf;
    use petasos_call::Encoding;

    use super::super::parts::MESSAGE_BYTES;
    use super::*;

    fn is_ready(remote: &RemoteStream) -> bool {
        remote.poll_room(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn r17_messages_without_bytes_fill_a_mailbox_too() {
        // No loop looks at this mailbox.
        let remote =
            RemoteStream::new(0, |_, _| {}, None, State { is_sent: true, ..State::default() });
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
