//! The table of a loop's calls.
//!
//! A place is free, or *queued* (it is in the outbox), or *waiting* (its channel has no slot for
//! it), or *unbound* (it has a slot, in a session that is asked about the service), or *sent* (the
//! endpoint has it and its continuation will run), or *paused* (it has failed, and will be sent
//! again), or *hedged* (its attempts have places of their own), or done. A place that was given up
//! while it was sent is free once its continuation has run. Numbers of places in outbox and lists
//! may be stale: who takes one looks how it stands with the place.

use core::task::Waker;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_call::channel::Ticket;
use petasos_endpoint::{CallId, SessionId};
use petasos_rpc::settings::RetryMode;

use super::head::CallHead;
use super::keys::{CallKey, ChannelSession};
use super::remote::{Outcome, RemoteCompletion};
use super::retries::{Hedge, RetryStates};
use super::task::Task;

/// Who awaits a call.
#[derive(Default)]
pub(crate) enum Waiter {
    #[default]
    Nobody,
    Task(Task),
    Waker(Waker),
    /// A future on another thread.
    RemoteCompletion(Arc<RemoteCompletion>),
}

/// Where a call is.
enum Stage {
    Free,
    Queued(MsgBuf),
    Waiting(MsgBuf, Ticket),
    Unbound(MsgBuf),
    /// Being handed to the endpoint, or ended: what follows is in `failed` or `over`.
    Starting,
    Sent(CallId),
    /// To be sent again at some time.
    Paused(MsgBuf),
    /// Its attempts are under way, or will be.
    Hedged,
    /// Sent, and nobody waits for it.
    GivenUp,
    Done(Outcome),
}

struct Place {
    generation: u32,
    head: CallHead,
    /// The number of its session in its channel, once it has a slot.
    session: u32,
    /// When it was sent.
    since: Time,
    waiter: Waiter,
    stage: Stage,
}

impl Place {
    #[inline(always)]
    fn session(&self, id: SessionId) -> ChannelSession {
        ChannelSession { channel: self.head.channel, number: self.session, id }
    }

    /// Enters a stage from one with nothing to be dropped, which is not looked at.
    #[inline(always)]
    fn enter(&mut self, stage: Stage) {
        let earlier = core::mem::replace(&mut self.stage, stage);
        debug_assert!(matches!(earlier, Stage::Free | Stage::Starting | Stage::Sent(_)));
        core::mem::forget(earlier);
    }

    /// Notes who awaits the call, unless that needs somebody else's waker to be dropped.
    #[inline(always)]
    fn set_task(&mut self, task: Task) -> bool {
        if !matches!(self.waiter, Waiter::Nobody | Waiter::Task(_)) {
            return false;
        }
        core::mem::forget(core::mem::replace(&mut self.waiter, Waiter::Task(task)));
        true
    }
}

/// The table of calls.
#[derive(Default)]
pub(crate) struct Calls {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Places with calls to be started.
    pub(crate) outbox: Vec<u32>,
    /// Calls whose futures are gone.
    pub(crate) cancels: Vec<CallId>,
    /// Calls that waited in their channels, whose futures are gone.
    pub(crate) abandoned: Vec<(u32, Ticket)>,
    /// Calls that could not be sent, to be ended, and their requests.
    pub(crate) failed: Vec<(u32, Status, Option<MsgBuf>)>,
    /// Calls whose last attempt has ended.
    pub(crate) over: Vec<(u32, Outcome)>,
    pub(crate) retries: RetryStates,
}

impl Calls {
    /// Places that are not free.
    pub(crate) fn taken(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Names the call in a place.
    pub(crate) fn key(&self, index: u32) -> CallKey {
        CallKey::new(index, self.places[index as usize].generation)
    }

    fn place(&self, call: CallKey) -> Option<&Place> {
        let place = self.places.get(call.place() as usize)?;
        (place.generation == call.generation()).then_some(place)
    }

    fn place_mut(&mut self, call: CallKey) -> Option<&mut Place> {
        let place = self.places.get_mut(call.place() as usize)?;
        (place.generation == call.generation()).then_some(place)
    }

    /// Whether this call has a slot, and waits for a bind.
    pub(crate) fn is_unbound(&self, call: CallKey) -> bool {
        self.place(call).is_some_and(|place| matches!(place.stage, Stage::Unbound(_)))
    }

    /// Whether this call waits for a slot, or for a bind.
    pub(crate) fn is_waiting(&self, call: CallKey) -> bool {
        let waits = |place: &Place| matches!(place.stage, Stage::Unbound(_) | Stage::Waiting(..));
        self.place(call).is_some_and(waits)
    }

    /// Whether this call is sent again at some time.
    pub(crate) fn is_to_go_on(&self, call: CallKey) -> bool {
        let goes_on = |place: &Place| matches!(place.stage, Stage::Paused(_) | Stage::Hedged);
        self.place(call).is_some_and(goes_on)
    }

    /// The number of the session that a call has a slot in, once it has one.
    pub(crate) fn session_number(&self, index: u32) -> Option<u32> {
        let place = &self.places[index as usize];
        matches!(place.stage, Stage::Sent(_) | Stage::Unbound(_)).then_some(place.session)
    }

    /// Whether somebody waits for the outcome of the call in a place, which is not over.
    pub(crate) fn is_wanted(&self, index: u32) -> bool {
        let stage = &self.places[index as usize].stage;
        !matches!(stage, Stage::Free | Stage::GivenUp | Stage::Done(_))
    }

    /// Whether a channel has calls that are not over.
    pub(crate) fn has_any_of(&self, channel: u32) -> bool {
        let of_it = self.places.iter().filter(|place| place.head.channel == channel);
        of_it.into_iter().any(|place| !matches!(place.stage, Stage::Free | Stage::Done(_)))
    }

    /// Whether nothing was asked for since the last turn.
    pub(crate) fn is_quiet(&self) -> bool {
        let Calls { outbox, cancels, abandoned, retries, .. } = self;
        let is_empty = outbox.is_empty() && cancels.is_empty() && abandoned.is_empty();
        is_empty && retries.answers.is_empty() && !self.is_any_over()
    }

    /// Whether calls are to be ended.
    #[inline]
    pub(crate) fn is_any_over(&self) -> bool {
        !(self.failed.is_empty() && self.over.is_empty())
    }

    /// Who decides what follows attempts of the call in a place.
    #[inline]
    pub(crate) fn retry_mode(&self, index: u32) -> RetryMode {
        self.places[index as usize].head.retry_mode
    }

    pub(crate) fn set_retry_mode(&mut self, index: u32, retry_mode: RetryMode) {
        self.places[index as usize].head.retry_mode = retry_mode;
    }

    /// A buffer with room for `bytes`; its contents are unspecified. It is of the thread's pool, as
    /// those are that messages are built and read in.
    #[inline]
    pub(crate) fn buffer(&mut self, bytes: usize) -> MsgBuf {
        petasos_message::buffer(bytes)
    }

    /// Keeps a buffer for the next call.
    #[inline]
    pub(crate) fn give_buffer(&mut self, buf: MsgBuf) {
        petasos_message::recycle(buf);
    }

    /// Queues a call.
    #[inline(always)]
    pub(crate) fn begin_with(
        &mut self,
        head: impl FnOnce() -> CallHead,
        request: MsgBuf,
    ) -> CallKey {
        let Some(index) = self.free.pop() else { return self.begin_in_new(head(), request) };
        let place = &mut self.places[index as usize];
        // Written where it stays.
        place.head = head();
        place.enter(Stage::Queued(request));
        self.outbox.push(index);
        CallKey::new(index, place.generation)
    }

    #[cold]
    #[inline(never)]
    fn begin_in_new(&mut self, head: CallHead, request: MsgBuf) -> CallKey {
        let (stage, waiter) = (Stage::Queued(request), Waiter::Nobody);
        let (generation, session, since) = (0, 0, Time::ZERO);
        let index = self.places.len() as u32;
        self.places.push(Place { generation, head, session, since, waiter, stage });
        self.outbox.push(index);
        CallKey::new(index, generation)
    }

    /// The call in a place, if it is to be started.
    #[inline(always)]
    pub(crate) fn queued(&self, index: u32) -> Option<&CallHead> {
        let place = &self.places[index as usize];
        matches!(place.stage, Stage::Queued(_)).then_some(&place.head)
    }

    /// The session that a call was sent in, whose name in the endpoint is given.
    #[inline]
    pub(crate) fn session_of(&self, index: u32, id: SessionId) -> ChannelSession {
        self.places[index as usize].session(id)
    }

    /// What is called in a place.
    pub(crate) fn head(&self, index: u32) -> CallHead {
        self.places[index as usize].head
    }

    /// The request of a call, which is being sent in a session of its channel: [`Calls::sent`],
    /// [`Calls::requeue`] or [`Calls::finish`] follow.
    #[inline(always)]
    pub(crate) fn take_request(&mut self, index: u32, session: u32) -> MsgBuf {
        let place = &mut self.places[index as usize];
        place.session = session;
        match core::mem::replace(&mut place.stage, Stage::Starting) {
            Stage::Queued(bytes) | Stage::Waiting(bytes, _) | Stage::Unbound(bytes) => bytes,
            _ => unreachable!("only calls that are to be started are sent"),
        }
    }

    /// The request of a call that could not be sent, was paused, or is ended.
    pub(crate) fn take_back(&mut self, index: u32) -> Option<MsgBuf> {
        let place = &mut self.places[index as usize];
        match core::mem::replace(&mut place.stage, Stage::Starting) {
            Stage::Queued(request)
            | Stage::Waiting(request, _)
            | Stage::Unbound(request)
            | Stage::Paused(request) => Some(request),
            Stage::Hedged => None,
            other => {
                place.stage = other;
                None
            }
        }
    }

    /// The call in a place is sent again later.
    pub(crate) fn pause(&mut self, index: u32, request: MsgBuf) {
        self.places[index as usize].stage = Stage::Paused(request);
    }

    /// The attempts of the call in a place are calls of their own. Gives its request.
    pub(crate) fn hedge(&mut self, index: u32) -> MsgBuf {
        let mut request = self.take_request(index, 0);
        self.places[index as usize].stage = Stage::Hedged;
        // Each attempt has a copy.
        request.flatten();
        request
    }

    /// An attempt of a hedged call is over, and its place free.
    pub(crate) fn end_attempt(&mut self, index: u32) {
        if let Some(request) = self.take_back(index) {
            self.give_buffer(request);
        }
        let waiter = self.release(index);
        debug_assert!(matches!(waiter, Waiter::Nobody), "only its hedged call waits for it");
    }

    #[inline]
    pub(crate) fn sent(&mut self, index: u32, call: CallId, now: Time) {
        let place = &mut self.places[index as usize];
        place.since = now;
        place.enter(Stage::Sent(call));
    }

    /// When the call in a place was sent.
    pub(crate) fn since(&self, index: u32) -> Time {
        self.places[index as usize].since
    }

    /// The call in a place waits for a slot.
    pub(crate) fn wait(&mut self, index: u32, ticket: Ticket) {
        let request = self.take_request(index, 0);
        self.places[index as usize].stage = Stage::Waiting(request, ticket);
    }

    /// The call in a place has a slot, and waits for a bind.
    pub(crate) fn unbind(&mut self, index: u32, session: u32) {
        let request = self.take_request(index, session);
        self.places[index as usize].stage = Stage::Unbound(request);
    }

    /// The call in a place is to be started anew.
    pub(crate) fn start_anew(&mut self, index: u32) {
        let request = self.take_request(index, 0);
        self.requeue(index, request);
    }

    pub(crate) fn requeue(&mut self, index: u32, request: MsgBuf) {
        self.places[index as usize].stage = Stage::Queued(request);
        self.outbox.push(index);
    }

    pub(crate) fn take_outcome(&mut self, call: CallKey) -> Option<Outcome> {
        self.poll(call, None).ok()
    }

    /// The outcome of a call. If there is none yet, whether the task given waits for it now.
    #[inline(always)]
    pub(crate) fn poll(&mut self, call: CallKey, task: Option<Task>) -> Result<Outcome, bool> {
        let place = self.place_mut(call).ok_or(false)?;
        if !matches!(place.stage, Stage::Done(_)) {
            return Err(task.is_some_and(|task| place.set_task(task)));
        }
        let Stage::Done(outcome) = core::mem::replace(&mut place.stage, Stage::Free) else {
            unreachable!("it was just looked at")
        };
        // Whoever waited was told, and has been taken.
        place.generation = place.generation.wrapping_add(1);
        self.free.push(call.place());
        Ok(outcome)
    }

    /// The outcome of a call that is done.
    pub(crate) fn take_done(&mut self, index: u32) -> Option<Outcome> {
        self.take_outcome(self.key(index))
    }

    pub(crate) fn set_waiter(&mut self, index: u32, waiter: Waiter) -> Waiter {
        core::mem::replace(&mut self.places[index as usize].waiter, waiter)
    }

    fn release(&mut self, index: u32) -> Waiter {
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        place.stage = Stage::Free;
        self.free.push(index);
        core::mem::take(&mut place.waiter)
    }

    pub(crate) fn give_up(&mut self, call: CallKey) -> Waiter {
        let Some(place) = self.place_mut(call) else { return Waiter::Nobody };
        let (channel, retry_mode) = (place.head.channel, place.head.retry_mode);
        let stage = core::mem::replace(&mut place.stage, Stage::GivenUp);
        if retry_mode != RetryMode::Plain {
            self.forget(call.place());
        }
        match stage {
            Stage::Sent(id) => {
                self.cancels.push(id);
                self.set_waiter(call.place(), Waiter::Nobody)
            }
            Stage::Waiting(buf, ticket) => {
                self.abandoned.push((channel, ticket));
                self.give_buffer(buf);
                self.release(call.place())
            }
            Stage::Queued(buf)
            | Stage::Unbound(buf)
            | Stage::Paused(buf)
            | Stage::Done(Ok(buf)) => {
                self.give_buffer(buf);
                self.release(call.place())
            }
            Stage::Done(Err(_)) | Stage::Hedged => self.release(call.place()),
            // The place is taken until its end is looked at, so that no other call gets that.
            Stage::Starting => self.set_waiter(call.place(), Waiter::Nobody),
            other => {
                self.places[call.place() as usize].stage = other;
                Waiter::Nobody
            }
        }
    }

    /// Ends a call; gives who is to be woken.
    #[inline(always)]
    pub(crate) fn finish(&mut self, index: u32, outcome: Outcome) -> Waiter {
        let place = &mut self.places[index as usize];
        if let Stage::Sent(_) | Stage::Starting = place.stage {
            place.enter(Stage::Done(outcome));
            return core::mem::take(&mut place.waiter);
        }
        self.finish_other(index, outcome)
    }

    /// [`Calls::finish`] for a call that was sent, with its response. `ended` is told its session,
    /// whose name in the endpoint is given, and when it was sent.
    #[inline(always)]
    pub(crate) fn finish_answered(
        &mut self,
        index: u32,
        id: SessionId,
        (request, response): (MsgBuf, &[u8]),
        ended: impl FnOnce(ChannelSession, Time),
    ) -> Waiter {
        let place = &mut self.places[index as usize];
        ended(place.session(id), place.since);
        let outcome = Ok(kept(request, response));
        if let Stage::Sent(_) = place.stage {
            place.enter(Stage::Done(outcome));
            return core::mem::take(&mut place.waiter);
        }
        self.finish_other(index, outcome)
    }

    #[cold]
    #[inline(never)]
    fn finish_other(&mut self, index: u32, outcome: Outcome) -> Waiter {
        let place = &mut self.places[index as usize];
        match core::mem::replace(&mut place.stage, Stage::Free) {
            Stage::Sent(_) | Stage::Starting | Stage::Hedged => {
                place.stage = Stage::Done(outcome);
                core::mem::take(&mut place.waiter)
            }
            Stage::Queued(request)
            | Stage::Waiting(request, _)
            | Stage::Unbound(request)
            | Stage::Paused(request) => {
                place.stage = Stage::Done(outcome);
                let waiter = core::mem::take(&mut place.waiter);
                self.give_buffer(request);
                waiter
            }
            Stage::GivenUp => {
                if let Ok(buf) = outcome {
                    self.give_buffer(buf);
                }
                self.release(index)
            }
            over => {
                place.stage = over;
                Waiter::Nobody
            }
        }
    }

    /// Nothing more is tried of the call in a place, which is over or was given up.
    #[cold]
    pub(crate) fn forget(&mut self, place: u32) {
        self.retries.attempts.remove(&place);
        let hedge = self.retries.list.remove(&place).and_then(|retry_state| retry_state.hedge);
        let Some(Hedge { request, attempts, held, .. }) = hedge else { return };
        self.give_buffer(request);
        if let Some(Ok(response)) = held {
            self.give_buffer(response);
        }
        for attempt in attempts {
            self.give_up(attempt);
        }
    }

    /// The loop ends: whoever waits is to be told.
    pub(crate) fn take_waiters(&mut self) -> Vec<Waiter> {
        self.places.iter_mut().map(|place| core::mem::take(&mut place.waiter)).collect()
    }
}

/// A request's buffer with more than this is not kept for its response.
const SPARE_BYTES_MAX: usize = 4096;

/// A response in a buffer of the thread's pool: in its request's, if that has room.
#[inline(always)]
fn kept(request: MsgBuf, response: &[u8]) -> MsgBuf {
    let mut buf = request;
    buf.rewind();
    if !(response.len()..=SPARE_BYTES_MAX).contains(&buf.capacity()) {
        petasos_message::recycle(buf);
        buf = petasos_message::buffer(response.len());
    }
    buf.copy_from(response);
    buf
}
