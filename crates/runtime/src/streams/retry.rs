//! Restarts of calls with streams (R20).

use petasos_base::{Rng, Time};
use petasos_buf::MsgBuf;
use petasos_call::HEAD_BYTES;
use petasos_call::channel::Avoid;
use petasos_call::policy::{AttemptEnd, Attempts, RetryBudget, Step, Verdict};
use petasos_message::recycle;
use petasos_rpc::settings::{ChannelInfo, stream_policy_of};

use crate::retries::RetryState;

/// The bytes of requests kept for a retry of a stream; the usual limit of gRPC implementations.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A call that is about to restart in another session.
pub(crate) struct Restart {
    /// Its requests, as the failed exchanges returned them.
    pub(crate) sent: Vec<MsgBuf>,
    /// The servers that it has already used.
    pub(crate) avoid: Avoid,
    /// It waits for the time at which its policy allows the next attempt.
    pub(crate) is_paused: bool,
    /// Its request for a session, made once all requests have been returned.
    pub(crate) ask: Option<StreamAsk>,
}

/// A stream's request to its channel for a session.
#[derive(Clone, Copy)]
pub(crate) struct StreamAsk {
    /// The number of the ask within the loop.
    pub(crate) number: u32,
    /// The tag that its answer carries.
    pub(crate) tag: u32,
}

/// The retry state of a call whose policy allows retries. The call is *settled* once something was
/// delivered, or once more was sent than is kept. After that, only the retry budget uses its
/// outcome.
pub(crate) struct StreamRetry {
    pub(crate) state: RetryState,
    /// Requests that were answered and may have to be sent again.
    kept: Vec<MsgBuf>,
    sent_bytes: usize,
    is_settled: bool,
}

impl StreamRetry {
    /// The state of a call whose first attempt begins; `None` if its policy allows no retry.
    pub(crate) fn new(
        info: &ChannelInfo,
        (service, method): (u32, u16),
        deadline: Time,
        budget: &RetryBudget,
        now: Time,
    ) -> Option<Box<StreamRetry>> {
        let defaults = info.service_defaults(service)?;
        let policy = stream_policy_of(Some(&defaults), method);
        if !matches!(&policy.attempts, Attempts::Retry(retry) if retry.attempts_max > 1) {
            return None;
        }
        let mut state = RetryState::of((Some(defaults), method), stream_policy_of, deadline, now);
        // If not, the deadline has passed, and the call ends.
        let is_settled = state.poll(budget, now) != Step::Send;
        Some(Box::new(StreamRetry { state, kept: Vec::new(), sent_bytes: 0, is_settled }))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Notes that a request of this many bytes is about to be sent. Returns whether it must be
    /// kept.
    pub(crate) fn on_sent(&mut self, bytes: usize) -> bool {
        self.sent_bytes += if bytes > HEAD_BYTES { bytes } else { 0 };
        if self.sent_bytes > KEPT_BYTES_MAX {
            self.settle();
        }
        !self.is_settled
    }

    /// Keeps a request that was answered.
    pub(crate) fn keep(&mut self, request: MsgBuf) {
        // Requests without records are made again when needed.
        if self.is_settled || request.len() <= HEAD_BYTES {
            return recycle(request);
        }
        self.kept.push(request);
    }

    /// Takes all that was kept, because the call restarts.
    pub(crate) fn take(&mut self) -> Vec<MsgBuf> {
        self.sent_bytes = 0;
        core::mem::take(&mut self.kept)
    }

    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
        core::mem::take(&mut self.kept).into_iter().for_each(recycle);
    }

    /// Whether the call continues after an attempt has ended in this way.
    pub(crate) fn goes_on(
        &mut self,
        end: AttemptEnd,
        (budget, rng): (&mut RetryBudget, &mut Rng),
        now: Time,
    ) -> bool {
        let (plan, policy) = self.state.plan();
        plan.handle_end(policy, end, budget, now, rng) == Verdict::Hold
    }
}
