//! The table of a loop's calls: one record for each ([`Call`]), from its beginning until its
//! outcome is taken.
//!
//! Invariants: a call that was given up keeps its place until it has ended, so that no other call
//! gets the place. Places in the outbox and in the other lists may be stale, so code that takes one
//! checks the call's stage. No waker is woken or dropped here, since that would run the
//! application's code.

mod call;

use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_call::channel::Ticket;
use petasos_endpoint::{CallId, SessionId};
use petasos_rpc::settings::RetryMode;

pub(crate) use call::{Call, Stage, Waiter};

use super::head::CallHead;
use super::keys::{CallKey, ChannelSession};
use super::remote::Outcome;
use super::retries::{Hedge, RetryStates};
use super::task::Task;

/// The table of calls.
#[derive(Default)]
pub(crate) struct Calls {
    places: Vec<Call>,
    free: Vec<u32>,
    /// Places of calls to be sent.
    pub(crate) outbox: Vec<u32>,
    /// Sent calls whose futures were dropped.
    pub(crate) cancels: Vec<CallId>,
    /// Calls that waited in their channels, and whose futures were dropped.
    pub(crate) abandoned: Vec<(u32, Ticket)>,
    /// Calls that could not be sent and are to be ended, with their requests.
    pub(crate) failed: Vec<(u32, Status, Option<MsgBuf>)>,
    /// Calls whose last attempt has ended.
    pub(crate) over: Vec<(u32, Outcome)>,
    pub(crate) retries: RetryStates,
}

impl Calls {
    /// How many places are taken.
    pub(crate) fn taken(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The call in a place.
    #[inline(always)]
    pub(crate) fn at(&mut self, place: u32) -> &mut Call {
        &mut self.places[place as usize]
    }

    /// The name of the call in a place.
    pub(crate) fn key(&self, place: u32) -> CallKey {
        CallKey::new(place, self.places[place as usize].generation)
    }

    #[inline(always)]
    fn get(&mut self, key: CallKey) -> Option<&mut Call> {
        let call = self.places.get_mut(key.place() as usize)?;
        (call.generation == key.generation()).then_some(call)
    }

    /// The stage of a call; `Free` if its outcome was taken.
    fn stage(&self, key: CallKey) -> Stage {
        let call = self.places.get(key.place() as usize);
        let call = call.filter(|call| call.generation == key.generation());
        call.map_or(Stage::Free, |call| call.stage)
    }

    /// Whether this call has a slot, and waits for a bind.
    pub(crate) fn is_unbound(&self, key: CallKey) -> bool {
        self.stage(key) == Stage::Unbound
    }

    /// Whether this call waits for a slot, or for a bind.
    pub(crate) fn is_waiting(&self, key: CallKey) -> bool {
        matches!(self.stage(key), Stage::Unbound | Stage::Waiting(_))
    }

    /// Whether this call is to be sent again later.
    pub(crate) fn is_to_go_on(&self, key: CallKey) -> bool {
        matches!(self.stage(key), Stage::Paused | Stage::Hedged)
    }

    /// Whether the call in a place is not over, and somebody waits for its outcome.
    pub(crate) fn is_wanted(&self, place: u32) -> bool {
        let stage = self.places[place as usize].stage;
        !matches!(stage, Stage::Free | Stage::GivenUp | Stage::Done)
    }

    /// The number of the session in which a call has a slot, if it has one.
    pub(crate) fn session_number(&self, place: u32) -> Option<u32> {
        self.places[place as usize].session_number()
    }

    /// The session in which a call was sent; `id` is the session's name in the endpoint.
    pub(crate) fn session_of(&self, place: u32, id: SessionId) -> ChannelSession {
        self.places[place as usize].session(id)
    }

    /// The parameters of the call in a place.
    pub(crate) fn head(&self, place: u32) -> CallHead {
        self.places[place as usize].head
    }

    /// What decides how the call in a place continues after an attempt.
    pub(crate) fn retry_mode(&self, place: u32) -> RetryMode {
        self.places[place as usize].head.retry_mode
    }

    pub(crate) fn set_retry_mode(&mut self, place: u32, retry_mode: RetryMode) {
        self.at(place).head.retry_mode = retry_mode;
    }

    /// Whether a channel has calls that are not over.
    pub(crate) fn has_any_of(&self, channel: u32) -> bool {
        let mut of_it = self.places.iter().filter(|call| call.head.channel == channel);
        of_it.any(|call| !matches!(call.stage, Stage::Free | Stage::Done))
    }

    /// Whether the lists for the turn are empty.
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

    /// Queues a call.
    #[inline(always)]
    pub(crate) fn begin_with(
        &mut self,
        head: impl FnOnce() -> CallHead,
        request: MsgBuf,
    ) -> CallKey {
        let Some(place) = self.free.pop() else { return self.begin_in_new(head(), request) };
        let call = &mut self.places[place as usize];
        // Written in place, without a copy.
        call.head = head();
        (call.stage, call.bytes) = (Stage::Queued, Some(request));
        self.outbox.push(place);
        CallKey::new(place, call.generation)
    }

    #[cold]
    #[inline(never)]
    fn begin_in_new(&mut self, head: CallHead, request: MsgBuf) -> CallKey {
        let place = self.places.len() as u32;
        self.places.push(Call::queued(head, request));
        self.outbox.push(place);
        self.key(place)
    }

    /// Queues a call again, with its request.
    pub(crate) fn requeue(&mut self, place: u32, request: MsgBuf) {
        let call = self.at(place);
        (call.stage, call.bytes) = (Stage::Queued, Some(request));
        self.outbox.push(place);
    }

    /// Queues a call again that is waiting for a slot or for a bind.
    pub(crate) fn start_anew(&mut self, place: u32) {
        self.at(place).stage = Stage::Queued;
        self.outbox.push(place);
    }

    /// Notes that the call in a place is sent again later.
    pub(crate) fn pause(&mut self, place: u32, request: MsgBuf) {
        let call = self.at(place);
        (call.stage, call.bytes) = (Stage::Paused, Some(request));
    }

    /// Notes that the attempts of the call in a place are separate calls. Returns its request.
    pub(crate) fn hedge(&mut self, place: u32) -> MsgBuf {
        let call = self.at(place);
        call.stage = Stage::Hedged;
        let mut request = call.take_request();
        // Each attempt gets a copy.
        request.flatten();
        request
    }

    /// Takes the request, if there is one, of a call that is not with the endpoint and is about to
    /// be ended or sent again.
    pub(crate) fn take_back(&mut self, place: u32) -> Option<MsgBuf> {
        let call = self.at(place);
        match call.stage {
            Stage::Queued | Stage::Waiting(_) | Stage::Unbound | Stage::Paused | Stage::Hedged => {
                call.stage = Stage::Ending;
                call.bytes.take()
            }
            Stage::Free | Stage::Sent(_) | Stage::Ending | Stage::Done | Stage::GivenUp => None,
        }
    }

    /// Frees the place of a hedged call's attempt, which is over.
    pub(crate) fn end_attempt(&mut self, place: u32) {
        let waiter = self.release(place);
        debug_assert!(matches!(waiter, Waiter::Nobody), "only its hedged call waits for it");
    }

    /// The outcome of a call, if it is done.
    pub(crate) fn take_outcome(&mut self, key: CallKey) -> Option<Outcome> {
        self.poll(key, None).ok()
    }

    /// The outcome of the call in a place, if it is done.
    pub(crate) fn take_done(&mut self, place: u32) -> Option<Outcome> {
        self.take_outcome(self.key(place))
    }

    /// Takes the outcome of a call. If there is none yet, the error says whether `task` waits for
    /// it now.
    #[inline(always)]
    pub(crate) fn poll(&mut self, key: CallKey, task: Option<Task>) -> Result<Outcome, bool> {
        let call = self.get(key).ok_or(false)?;
        if !matches!(call.stage, Stage::Done) {
            return Err(task.is_some_and(|task| call.set_task(task)));
        }
        // The waiter was woken, and has been removed.
        call.stage = Stage::Free;
        call.generation = call.generation.wrapping_add(1);
        let outcome = call.take_outcome();
        self.free.push(key.place());
        Ok(outcome)
    }

    /// The outcome of a call that has just begun becomes an event with a tag.
    pub(crate) fn relay(&mut self, call: CallKey, tag: u64) {
        self.at(call.place()).waiter = Waiter::Relay(tag);
    }

    /// A relayed call is over, since its request was not sent: it goes back.
    #[cold]
    pub(crate) fn give_back(&mut self, place: u32, request: MsgBuf) {
        let call = self.at(place);
        call.stage = Stage::Ending;
        if let Waiter::Relay(tag) = call.waiter {
            call.waiter = Waiter::Returned(tag);
        }
        self.over.push((place, Ok(request)));
    }

    pub(crate) fn set_waiter(&mut self, place: u32, waiter: Waiter) -> Waiter {
        core::mem::replace(&mut self.at(place).waiter, waiter)
    }

    /// Frees a place. Returns who waited for the call.
    fn release(&mut self, place: u32) -> Waiter {
        let call = self.at(place);
        call.stage = Stage::Free;
        call.generation = call.generation.wrapping_add(1);
        call.status = None;
        let (bytes, waiter) = (call.bytes.take(), core::mem::take(&mut call.waiter));
        self.free.push(place);
        bytes.into_iter().for_each(petasos_message::recycle);
        waiter
    }

    /// Gives a call up. Returns who waited for it, to be dropped.
    pub(crate) fn give_up(&mut self, key: CallKey) -> Waiter {
        let Some(call) = self.get(key) else { return Waiter::Nobody };
        let (stage, CallHead { channel, retry_mode, .. }) = (call.stage, call.head);
        call.stage = Stage::GivenUp;
        if retry_mode != RetryMode::Plain {
            self.forget(key.place());
        }
        match stage {
            Stage::Sent(id) => self.cancels.push(id),
            Stage::Waiting(ticket) => self.abandoned.push((channel, ticket)),
            _ => {}
        }
        match stage {
            Stage::Sent(_) | Stage::Ending | Stage::GivenUp => {
                self.set_waiter(key.place(), Waiter::Nobody)
            }
            _ => self.release(key.place()),
        }
    }

    /// Ends a call. Returns who is to be woken.
    #[inline]
    pub(crate) fn finish(&mut self, place: u32, outcome: Outcome) -> Waiter {
        let call = self.at(place);
        match call.stage {
            Stage::GivenUp => {
                call.bytes = outcome.ok();
                self.release(place)
            }
            Stage::Free | Stage::Done => Waiter::Nobody,
            _ => {
                let (request, waiter) = (call.bytes.take(), call.end(outcome));
                request.into_iter().for_each(petasos_message::recycle);
                waiter
            }
        }
    }

    /// Stops all further attempts of the call in a place, which is over or was given up.
    #[cold]
    pub(crate) fn forget(&mut self, place: u32) {
        self.retries.attempts.remove(&place);
        let hedge = self.retries.list.remove(&place).and_then(|retry_state| retry_state.hedge);
        let Some(Hedge { request, attempts, held, .. }) = hedge else { return };
        petasos_message::recycle(request);
        if let Some(Ok(response)) = held {
            petasos_message::recycle(response);
        }
        for attempt in attempts {
            self.give_up(attempt);
        }
    }

    /// Takes all waiters, to be told that the loop ends.
    pub(crate) fn take_waiters(&mut self) -> Vec<Waiter> {
        self.places.iter_mut().map(|call| core::mem::take(&mut call.waiter)).collect()
    }
}
