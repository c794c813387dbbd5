//! The record of a call, from its beginning until its outcome is taken.
//!
//! | stage | what it waits for | `bytes` |
//! |---|---|---|
//! | queued | the turn, which sends it | the request |
//! | waiting | a slot in a session of its channel | the request |
//! | unbound | its session, which is asked about the service; it has a slot | the request |
//! | sent | its continuation, which the endpoint runs | none: the endpoint has the request |
//! | paused | the time at which it is sent again | the request |
//! | hedged | its attempts, which are calls of their own | none: its retry state has the request |
//! | ending | the turn, which has its outcome in `failed` or `over` | none |
//! | done | whoever takes the outcome | the response, unless `status` says why there is none |
//! | given up | its continuation or its end, as nobody else does | none |

use core::task::Waker;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_call::channel::Ticket;
use petasos_endpoint::{CallId, SessionId};
use petasos_rpc::settings::RetryMode;

use crate::head::CallHead;
use crate::keys::ChannelSession;
use crate::remote::{Outcome, RemoteCompletion};
use crate::task::Task;

/// What awaits a call.
#[derive(Default)]
pub(crate) enum Waiter {
    #[default]
    Nobody,
    Task(Task),
    Waker(Waker),
    /// A future on another thread.
    RemoteCompletion(Arc<RemoteCompletion>),
    /// The list of events, with the tag of a relayed call.
    Relay(u64),
    /// The same, to which its request goes back: it was not sent.
    Returned(u64),
}

/// The stage of a call; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no call in this place.
    Free,
    Queued,
    Waiting(Ticket),
    Unbound,
    Sent(CallId),
    Paused,
    Hedged,
    Ending,
    Done,
    GivenUp,
}

/// A call, or a free place for one.
pub(crate) struct Call {
    /// Distinguishes it from earlier calls in its place.
    pub(super) generation: u32,
    /// The number of its session in its channel, once it has a slot there.
    number: u32,
    pub(crate) stage: Stage,
    pub(super) bytes: Option<MsgBuf>,
    pub(super) status: Option<Status>,
    pub(super) waiter: Waiter,
    /// When it was sent.
    pub(crate) since: Time,
    pub(crate) head: CallHead,
}

impl Call {
    /// A new record with a queued call.
    pub(super) fn queued(head: CallHead, request: MsgBuf) -> Call {
        let (stage, bytes) = (Stage::Queued, Some(request));
        let (generation, number, since) = (0, 0, Time::ZERO);
        let (status, waiter) = Default::default();
        Call { generation, number, stage, bytes, status, waiter, since, head }
    }

    /// Whether it is sent once, unchanged, and without a deadline.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        let CallHead { deadline, retry_mode, recode, .. } = &self.head;
        matches!(self.stage, Stage::Queued)
            && *deadline == Time::NEVER
            && *retry_mode == RetryMode::Plain
            && !recode.is_wished()
    }

    /// Whether a response ends it: it was sent, somebody waits for it, and it is not retried.
    #[inline(always)]
    pub(crate) fn ends_with_response(&self) -> bool {
        matches!(self.stage, Stage::Sent(_)) && self.head.retry_mode == RetryMode::Plain
    }

    /// The session in which it has or had a slot; `id` is the session's name in the endpoint.
    #[inline(always)]
    pub(crate) fn session(&self, id: SessionId) -> ChannelSession {
        ChannelSession { channel: self.head.channel, number: self.number, id }
    }

    /// The number of its session in its channel, if it has a slot.
    pub(super) fn session_number(&self) -> Option<u32> {
        matches!(self.stage, Stage::Sent(_) | Stage::Unbound).then_some(self.number)
    }

    /// Takes its request, for the endpoint. After this comes [`Call::sent`], or the call's end.
    #[inline(always)]
    pub(crate) fn take_request(&mut self) -> MsgBuf {
        self.bytes.take().expect("a call that is to be sent has its request")
    }

    /// Notes that the endpoint has accepted it, in the session with this number.
    #[inline(always)]
    pub(crate) fn sent(&mut self, number: u32, id: CallId, now: Time) {
        (self.number, self.since) = (number, now);
        self.stage = Stage::Sent(id);
    }

    /// Notes that it has a slot in the session with this number, and waits for a bind.
    pub(crate) fn unbind(&mut self, number: u32) {
        (self.number, self.stage) = (number, Stage::Unbound);
    }

    /// Ends it, unless it was given up. Returns who is to be woken.
    #[inline(always)]
    pub(crate) fn end(&mut self, outcome: Outcome) -> Waiter {
        self.stage = Stage::Done;
        match outcome {
            Ok(response) => self.bytes = Some(response),
            Err(status) => self.status = Some(status),
        }
        core::mem::take(&mut self.waiter)
    }

    /// Takes its outcome.
    #[inline(always)]
    pub(super) fn take_outcome(&mut self) -> Outcome {
        match self.bytes.take() {
            Some(response) => Ok(response),
            None => Err(self.status.take().expect("a call that is done has an outcome")),
        }
    }

    /// Sets the task that awaits it. Returns false if that would drop an application's waker.
    #[inline(always)]
    pub(super) fn set_task(&mut self, task: Task) -> bool {
        if !matches!(self.waiter, Waiter::Nobody | Waiter::Task(_)) {
            return false;
        }
        // There is nothing to drop; `forget` saves the check for that.
        core::mem::forget(core::mem::replace(&mut self.waiter, Waiter::Task(task)));
        true
    }
}
