//! Calls with streams that begin anew (R20).

use petasos_base::{Rng, Time};
use petasos_buf::MsgBuf;
use petasos_call::HEAD_BYTES;
use petasos_call::channel::Avoid;
use petasos_call::policy::{AttemptEnd, Attempts, RetryBudget, Step, Verdict};
use petasos_message::recycle;
use petasos_rpc::settings::{ChannelInfo, stream_policy_of};

use crate::retries::RetryState;

/// What is kept of a stream whose policy tries it again, in bytes: gRPC's usual limit.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A call that is about to begin anew in another session.
pub(crate) struct Restart {
    /// Its requests, as they came back.
    pub(crate) sent: Vec<MsgBuf>,
    /// Where it was.
    pub(crate) avoid: Avoid,
    /// Its policy says when it is to ask.
    pub(crate) is_paused: bool,
    /// What it has asked its channel for, once all requests are back.
    pub(crate) ask: Option<StreamAsk>,
}

/// What a stream has asked its channel for.
#[derive(Clone, Copy)]
pub(crate) struct StreamAsk {
    /// The ask's number among the loop's.
    pub(crate) number: u32,
    /// What its answer comes back with.
    pub(crate) tag: u32,
}

/// A call that its policy tries again. It is *settled* once something was delivered, or more was
/// sent than is kept; then it only counts for the budget.
pub(crate) struct StreamRetry {
    pub(crate) state: RetryState,
    /// Requests that were answered.
    kept: Vec<MsgBuf>,
    sent_bytes: usize,
    is_settled: bool,
}

impl StreamRetry {
    /// Of a call whose first attempt begins, if its policy tries it again.
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
        // Otherwise its time is up, which ends it.
        let is_settled = state.poll(budget, now) != Step::Send;
        Some(Box::new(StreamRetry { state, kept: Vec::new(), sent_bytes: 0, is_settled }))
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// A request of so many bytes is about to be sent. Whether it, too, is kept.
    pub(crate) fn on_sent(&mut self, bytes: usize) -> bool {
        self.sent_bytes += if bytes > HEAD_BYTES { bytes } else { 0 };
        if self.sent_bytes > KEPT_BYTES_MAX {
            self.settle();
        }
        !self.is_settled
    }

    /// A request was answered.
    pub(crate) fn keep(&mut self, request: MsgBuf) {
        // Those without records are made anew.
        if self.is_settled || request.len() <= HEAD_BYTES {
            return recycle(request);
        }
        self.kept.push(request);
    }

    /// All that was kept, since the call begins anew.
    pub(crate) fn take(&mut self) -> Vec<MsgBuf> {
        self.sent_bytes = 0;
        core::mem::take(&mut self.kept)
    }

    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
        core::mem::take(&mut self.kept).into_iter().for_each(recycle);
    }

    /// Whether the call goes on after an attempt has ended so.
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
