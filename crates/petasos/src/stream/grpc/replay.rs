//! gRPC streams that may still be retried (gRFC A6).
//!
//! Until the response begins, both halves of a call are stored here, with copies of the messages
//! that were sent. Either half checks for the response when it is polled. If the attempt fails, and
//! the kind of failure or the policy allows another attempt, a task of the channel's runtime waits
//! until it is due, starts it, and sends the messages again.
//!
//! A call is *settled* once it can no longer be retried: the response has begun, a failure is
//! final, or more was sent than can be kept. Each half then takes its part of the attempt, and
//! nothing is kept or locked any more.
//!
//! Invariants: every attempt gets the sender's messages in order. While the lock is held, no
//! foreign code runs except wakers. A call that its receiver cancels has no task.

use core::mem::{replace, take};
use core::task::{Context, Poll, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake as _;

use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_call::policy::{Fate, Verdict};
use petasos_grpc::{FrameReader, FrameWriter, Wakers};
use tokio::sync::oneshot;

use crate::grpc_channel::{Begun, Lease, Progress, Retrying, SPARE_BYTES_MAX, copy};

/// The most bytes that are kept of a stream: gRPC's usual limit. Also without a policy that retries
/// it, since a server that goes away may refuse it, and it begins elsewhere then.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// The most bytes that all streams of the process keep. Beyond that, each keeps
/// [`SPARE_BYTES_MAX`] only.
const ALL_KEPT_BYTES_MAX: usize = 64 << 20;

/// Bytes that are kept, of all streams. Relaxed, since it guards no other memory.
static ALL_KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes that a stream keeps, until it is dropped.
#[derive(Default)]
pub(super) struct KeptBytes(usize);

impl KeptBytes {
    fn add(&mut self, bytes: usize) {
        self.0 += bytes;
        ALL_KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether `bytes` more can be kept.
    pub(super) fn have_room(&self, bytes: usize) -> bool {
        let all = ALL_KEPT_BYTES.load(Ordering::Relaxed);
        let max = if all < ALL_KEPT_BYTES_MAX { KEPT_BYTES_MAX } else { SPARE_BYTES_MAX };
        self.0 + bytes <= max
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        ALL_KEPT_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The half of a call that waits.
#[derive(Clone, Copy)]
enum Half {
    Reader = 0,
    Writer = 1,
}

/// A stream that is not settled yet.
pub(super) struct Replay {
    call: Retrying,
    wakers: Arc<Wakers>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    attempt: Attempt,
    kept: Vec<Kept>,
    kept_bytes: KeptBytes,
    /// All messages have been sent.
    is_closed: bool,
}

enum Phase {
    /// An attempt is running, and has not been answered.
    Tentative(Progress),
    /// A task starts another attempt, unless this is dropped.
    Pausing {
        _task: oneshot::Sender<()>,
    },
    Settled,
    /// The call failed without an attempt that could report it.
    Failed(Status),
}

/// The parts of an attempt, or of a settled call, that were not taken yet.
#[derive(Default)]
struct Attempt {
    answer: Option<(FrameReader, Lease)>,
    writer: Option<FrameWriter>,
    failure: Option<Status>,
}

/// An action of the sender that is kept for retries.
enum Kept {
    Message(MsgBuf),
    Compress(bool),
}

/// The parts of a settled call for its receiver.
pub(super) struct Settled {
    pub(super) answer: (FrameReader, Lease),
    /// The failure of the call, if it has failed.
    pub(super) failure: Option<Status>,
}

impl Replay {
    /// A call whose first attempt has started. `only` is its message if it has exactly one.
    pub(super) fn new(
        call: Retrying,
        progress: Progress,
        begun: Begun,
        only: Option<MsgBuf>,
    ) -> Arc<Replay> {
        let is_closed = only.is_some();
        let mut kept_bytes = KeptBytes::default();
        kept_bytes.add(only.as_ref().map_or(0, |only| only.len()));
        let mut state = State {
            phase: Phase::Tentative(progress),
            attempt: Attempt::default(),
            kept: only.into_iter().map(Kept::Message).collect(),
            kept_bytes,
            is_closed,
        };
        state.begin(begun);
        Arc::new(Replay { call, wakers: Arc::default(), state: Mutex::new(state) })
    }

    /// Waits until the call is settled.
    pub(super) fn poll_settled(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Settled, Status>> {
        self.look(Half::Reader, cx);
        let state = &mut *self.lock();
        match &state.phase {
            Phase::Tentative(_) | Phase::Pausing { .. } => Poll::Pending,
            Phase::Failed(status) => Poll::Ready(Err(status.clone())),
            Phase::Settled => {
                let answer = state.attempt.answer.take().expect("it is taken once");
                let failure = state.attempt.failure.take();
                Poll::Ready(Ok(Settled { answer, failure }))
            }
        }
    }

    /// Waits until a message can be sent. Once the call is settled, returns the writer to send
    /// with.
    pub(super) fn poll_room(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<FrameWriter>, Status>> {
        let waker = self.look(Half::Writer, cx);
        let state = &mut *self.lock();
        match &state.phase {
            Phase::Pausing { .. } => Poll::Pending,
            Phase::Failed(status) => Poll::Ready(Err(over(status))),
            Phase::Settled => Poll::Ready(Ok(state.attempt.writer.take())),
            Phase::Tentative(_) => {
                let Some(writer) = &mut state.attempt.writer else { return Poll::Ready(Ok(None)) };
                if ready!(writer.poll_ready(&mut Context::from_waker(&waker))).is_err() {
                    // The attempt has failed after its response was checked. The next check decides
                    // what follows.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(None))
            }
        }
    }

    /// Sends a message, and keeps a copy of it.
    pub(super) fn send(&self, message: MsgBuf) -> Result<(), Status> {
        let state = &mut *self.lock();
        match &state.phase {
            Phase::Failed(status) => return Err(over(status)),
            Phase::Settled => {}
            Phase::Tentative(_) if !state.kept_bytes.have_room(message.len()) => {
                state.settle(None);
                self.wakers.clone().wake();
            }
            Phase::Tentative(_) => {
                state.keep(copy(&message));
                if let Some(writer) = &mut state.attempt.writer {
                    // The error is ignored as in `State::begin`.
                    drop(writer.send_now(message));
                }
                return Ok(());
            }
            Phase::Pausing { .. } => {
                state.keep(message);
                return Ok(());
            }
        }
        let writer = state.attempt.writer.as_mut();
        writer.map_or(Ok(()), |writer| writer.send_now(message))
    }

    /// Sets whether messages are compressed from now on.
    pub(super) fn compress(&self, compress: bool) {
        let state = &mut *self.lock();
        if matches!(state.phase, Phase::Tentative(_) | Phase::Pausing { .. }) {
            state.kept.push(Kept::Compress(compress));
        }
        if let Some(writer) = &mut state.attempt.writer {
            writer.compress(compress);
        }
    }

    /// Records that all messages are sent.
    pub(super) fn close(&self) {
        let state = &mut *self.lock();
        state.is_closed = true;
        state.attempt.writer = None;
    }

    /// Cancels the call, unless its receiver has taken it.
    pub(super) fn give_up(&self, status: Status) {
        let mut state = self.lock();
        let answer = state.attempt.answer.take();
        let mut writer = None;
        if !matches!(state.phase, Phase::Settled) {
            state.phase = Phase::Failed(status);
            writer = state.attempt.writer.take();
        }
        state.forget();
        drop(state);
        // Drop in this order, so that the server sees a cancelled call, not a closed half.
        drop(answer);
        drop(writer);
        self.wakers.clone().wake();
    }

    /// Handles a sender that ends the call.
    pub(super) fn refuse(&self, status: &Status) {
        let mut state = self.lock();
        let writer = matches!(state.phase, Phase::Settled).then(|| state.attempt.writer.take());
        drop(state);
        match writer {
            Some(writer) => writer.into_iter().for_each(FrameWriter::give_up),
            None => self.give_up(status.clone()),
        }
    }

    /// Checks whether the attempt has been answered. Returns the waker to register with it.
    fn look(self: &Arc<Self>, half: Half, cx: &Context<'_>) -> core::task::Waker {
        let waker = self.wakers.wait(half as usize, cx);
        let mut state = self.lock();
        let State { phase: Phase::Tentative(progress), attempt, .. } = &mut *state else {
            return waker;
        };
        let (reader, lease) = attempt.answer.as_mut().expect("attempts have receivers");
        let Poll::Ready(outcome) = reader.poll_head(&mut Context::from_waker(&waker)) else {
            return waker;
        };
        let Err(status) = outcome else {
            state.settle(None);
            self.wakers.clone().wake();
            return waker;
        };
        let fate = reader.failed_below().map_or(Fate::Answered, Fate::from);
        let ended = (Err(&status), fate, Some(lease.session()));
        if self.call.verdict(progress, ended) == Verdict::Deliver {
            state.settle(Some(status));
            self.wakers.clone().wake();
            return waker;
        }
        let (task, given_up) = oneshot::channel();
        let phase = replace(&mut state.phase, Phase::Pausing { _task: task });
        let failed = take(&mut state.attempt);
        drop(state);
        drop(failed);
        if let Phase::Tentative(progress) = phase {
            self.begin_anew(progress, given_up);
        }
        waker
    }

    fn begin_anew(self: &Arc<Self>, mut progress: Progress, given_up: oneshot::Receiver<()>) {
        let task = Task { replay: self.clone(), is_done: false };
        self.call.runtime().spawn(async move {
            let begun = tokio::select! {
                begun = task.replay.call.begin(&mut progress) => begun,
                _ = given_up => return,
            };
            task.resume(begun, progress);
        });
    }

    /// The lock cannot be poisoned: no code panics while holding it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, message: MsgBuf) {
        self.kept_bytes.add(message.len());
        self.kept.push(Kept::Message(message));
    }

    /// Rules out further attempts.
    fn settle(&mut self, failure: Option<Status>) {
        self.phase = Phase::Settled;
        self.attempt.failure = failure;
        self.forget();
    }

    fn forget(&mut self) {
        (self.kept, self.kept_bytes) = (Vec::new(), KeptBytes::default());
    }

    /// Sends the messages so far to a new attempt, without waiting: the bytes that the server does
    /// not accept yet are bounded.
    fn begin(&mut self, Begun { reader, writer, lease }: Begun) {
        let mut writer = writer.expect("it began without its last message");
        for kept in &self.kept {
            match kept {
                // If sending fails, whoever checks the response learns of it.
                Kept::Message(message) => drop(writer.send_now(copy(message))),
                Kept::Compress(compress) => writer.compress(*compress),
            }
        }
        let writer = (!self.is_closed).then_some(writer);
        self.attempt = Attempt { answer: Some((reader, lease)), writer, failure: None };
    }
}

/// Starts the next attempt of a call. If the runtime ends, it drops this, which ends the call.
struct Task {
    replay: Arc<Replay>,
    is_done: bool,
}

impl Task {
    fn resume(mut self, begun: Result<Begun, Status>, progress: Progress) {
        self.is_done = true;
        let mut state = self.replay.lock();
        if !matches!(state.phase, Phase::Pausing { .. }) {
            return;
        }
        match begun {
            Ok(begun) => {
                state.phase = Phase::Tentative(progress);
                state.begin(begun);
            }
            Err(status) => state.phase = Phase::Failed(status),
        }
        drop(state);
        self.replay.wakers.clone().wake();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done {
            self.replay.give_up(Status::unavailable("the channel's runtime has ended"));
        }
    }
}

/// The error for a sender.
fn over(status: &Status) -> Status {
    Status::new(status.code(), "the call is over")
}
