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

use petasos_call::stream::Message as Coded;
use petasos_call::{Codec, Metadata, Status, TraceContext};

use super::encoded::EncodedMessage;
use super::parts::{Event, Form, Side, StreamKey, Target, gone, weight};
use crate::remote::KeepAlive;

/// Bytes of messages that a mailbox takes before it is full.
pub(super) const REMOTE_BYTES_MAX: usize = 64 << 10;

/// Asks the loop of a number to look at a mailbox.
pub(crate) type Post = fn(loop_id: u32, remote: Arc<RemoteStream>);

/// A direction's mailbox.
pub struct RemoteStream {
    loop_id: u32,
    /// Asks the loop to look at the mailbox: what sends commands knows of mailboxes, so this
    /// cannot know of it.
    post: Post,
    /// Turns the loop for as long as the call is wanted, though its channel be gone.
    _thread: Option<KeepAlive>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// What the loop is to do first.
    pub(super) ask: Option<Ask>,
    /// The direction, once the loop knows the mailbox.
    pub(super) at: Option<(StreamKey, Side)>,
    pub(super) form: Option<Result<Form, Status>>,
    /// A reader's, with their bytes.
    pub(super) events: VecDeque<Event>,
    /// A writer's, with their bytes.
    pub(super) outgoing: VecDeque<Coded<EncodedMessage>>,
    pub(super) bytes: usize,
    /// The loop has stopped for want of room here.
    pub(super) is_full: bool,
    pub(super) head: Option<Metadata>,
    pub(super) trailers: Option<Metadata>,
    /// Why nothing more is taken or comes.
    pub(super) over: Option<Status>,
    /// Why a message could not be read, or is not sent.
    pub(super) refused: Option<Status>,
    pub(super) has_left: bool,
    pub(super) is_posted: bool,
    pub(super) waker: Option<Waker>,
}

pub(crate) enum Ask {
    /// To know a direction of a stream by its mailbox.
    Attach(StreamKey, Side),
    /// To begin a call, whose writer has the other mailbox.
    Open(Call, Arc<RemoteStream>),
}

/// A call that another thread begins.
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) metadata: Metadata,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) codec: Codec,
}

impl RemoteStream {
    fn new(loop_id: u32, post: Post, thread: Option<KeepAlive>, state: State) -> Arc<RemoteStream> {
        Arc::new(RemoteStream { loop_id, post, _thread: thread, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mailbox for a direction that was used in the loop's thread so far.
    pub(crate) fn attach(
        loop_id: u32,
        post: Post,
        key: StreamKey,
        side: Side,
    ) -> Arc<RemoteStream> {
        let state = State { ask: Some(Ask::Attach(key, side)), ..State::default() };
        let remote = RemoteStream::new(loop_id, post, None, state);
        remote.notify(remote.lock());
        remote
    }

    /// Mailboxes for a reader and a writer of a call that begins.
    pub(crate) fn open(
        loop_id: u32,
        post: Post,
        thread: Option<KeepAlive>,
        call: Call,
    ) -> [Arc<RemoteStream>; 2] {
        let writer = RemoteStream::new(loop_id, post, thread.clone(), State::default());
        let state = State { ask: Some(Ask::Open(call, writer.clone())), ..State::default() };
        let reader = RemoteStream::new(loop_id, post, thread, state);
        reader.notify(reader.lock());
        [reader, writer]
    }

    /// Lets the loop look at the mailbox. If the loop is gone, the command is declined, which ends
    /// the mailbox.
    fn notify(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let is_first = !core::mem::replace(&mut state.is_posted, true);
        drop(state);
        if is_first {
            (self.post)(self.loop_id, self.clone());
        }
    }

    /// Whether the stream has its session.
    pub(crate) fn poll_form(&self, cx: &mut Context<'_>) -> Poll<Result<Form, Status>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        match &state.form {
            Some(form) => Poll::Ready(form.clone()),
            None => state.wait(waker),
        }
    }

    /// What comes next.
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

    /// Sends a message, for which there was room.
    pub(crate) fn send(self: &Arc<Self>, message: Coded<EncodedMessage>) {
        let mut state = self.lock();
        state.bytes += weight(&message);
        state.outgoing.push_back(message);
        self.notify(state);
    }

    /// A server's initial metadata.
    pub(crate) fn head(self: &Arc<Self>, metadata: Metadata) {
        let mut state = self.lock();
        state.head = Some(metadata);
        self.notify(state);
    }

    /// A server's trailing metadata.
    pub(crate) fn trailers(&self, metadata: Metadata) {
        self.lock().trailers = Some(metadata);
    }

    /// A message could not be read, or is not sent: the stream is to end with this.
    #[cold]
    pub(crate) fn refuse(self: &Arc<Self>, side: Side, status: Status) {
        let mut state = self.lock();
        if side == Side::Writer {
            state.end(status.clone());
        }
        state.refused = Some(status);
        self.notify(state);
    }

    /// The application has no more to do with the direction.
    pub(crate) fn leave(self: &Arc<Self>) {
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

    /// What the loop is to do first. The mailbox may be posted again from now on.
    pub(crate) fn take_ask(&self) -> Option<Ask> {
        let mut state = self.lock();
        state.is_posted = false;
        state.ask.take()
    }

    /// The loop knows the mailbox as that of a direction.
    pub(crate) fn attached(&self, key: StreamKey, side: Side) {
        self.lock().at = Some((key, side));
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
        // Its loop does not look at it.
        let remote =
            RemoteStream::new(0, |_, _| {}, None, State { is_posted: true, ..State::default() });
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
