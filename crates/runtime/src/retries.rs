//! What is remembered of calls that are sent more than once.
//!
//! The retry state of a call is keyed by the call's place. It exists from the first end of an
//! attempt that is not the call's outcome until the call is over or given up.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::{Avoid, SessionIndex};
use petasos_call::policy::{CallPlan, Fate, MethodPolicy, Pushback, RetryBudget, Step};
use petasos_call::{Code, Failure, Malformed, ResponseHead, read_tail, split};
use petasos_endpoint::SessionId;
use petasos_rpc::request::TAIL_BYTES_LIMIT;
use petasos_rpc::settings::{ChannelInfo, PolicyOf, ServiceDefaults, policy_of};

use super::head::CallHead;
use super::keys::CallKey;
use super::remote::Outcome;

/// How an attempt has ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What failed, if not the application.
    pub(crate) failure: Option<Failure>,
    pub(crate) request: Option<MsgBuf>,
    /// Where it was.
    pub(crate) session: Option<SessionIndex>,
}

impl Ended {
    /// Below the application.
    pub(crate) fn below(
        failure: Failure,
        request: Option<MsgBuf>,
        session: Option<SessionIndex>,
    ) -> Ended {
        Ended { outcome: Err(failure.status()), failure: Some(failure), request, session }
    }

    /// The status, and what the server wishes.
    pub(crate) fn status(&self) -> (Code, Pushback) {
        match &self.outcome {
            Ok(response) => read_status(response).unwrap_or((Code::Internal, Pushback::Unsaid)),
            Err(status) => (status.code(), Pushback::of(status.metadata())),
        }
    }
}

/// A call that is tried again.
pub(crate) struct RetryState {
    pub(crate) plan: CallPlan,
    defaults: Option<Arc<ServiceDefaults>>,
    method: u16,
    policy_of: PolicyOf,
    /// Where the attempts were that have ended.
    pub(crate) avoid: Avoid,
    /// A server has rejected it as overloaded before.
    overloaded: bool,
    /// Of a hedged call.
    pub(crate) hedge: Option<Hedge>,
}

impl RetryState {
    /// The retry state of a call whose first attempt was sent.
    pub(crate) fn new(info: &ChannelInfo, head: &CallHead, now: Time) -> RetryState {
        let method = (info.service_defaults(head.service), head.method);
        RetryState::of(method, policy_of, head.deadline, now)
    }

    /// Likewise, of a method with this policy.
    pub(crate) fn of(
        (defaults, method): (Option<Arc<ServiceDefaults>>, u16),
        policy_of: PolicyOf,
        deadline: Time,
        now: Time,
    ) -> RetryState {
        let of_method = defaults.as_ref().map(|defaults| defaults.method(method));
        let is_idempotent = of_method.is_some_and(|of_method| of_method.is_idempotent);
        let plan = CallPlan::new(is_idempotent, deadline, now);
        let (avoid, overloaded, hedge) = Default::default();
        RetryState { plan, defaults, method, policy_of, avoid, overloaded, hedge }
    }

    pub(crate) fn poll(&mut self, budget: &RetryBudget, now: Time) -> Step {
        let (plan, policy) = self.plan();
        plan.poll(policy, budget, now)
    }

    pub(crate) fn plan(&mut self) -> (&mut CallPlan, &MethodPolicy) {
        (&mut self.plan, (self.policy_of)(self.defaults.as_deref(), self.method))
    }

    /// R12: what an attempt's end says about the request.
    pub(crate) fn fate(&mut self, failure: Option<Failure>) -> Fate {
        match failure {
            None => Fate::Answered,
            // Once elsewhere, at once; a server that stays overloaded is spared.
            Some(Failure::Overloaded) if self.overloaded => Fate::Unknown,
            Some(failure) => {
                self.overloaded |= failure == Failure::Overloaded;
                failure.retry().into()
            }
        }
    }
}

/// The retries of a loop's calls, by their places.
#[derive(Default)]
pub(crate) struct RetryStates {
    pub(crate) list: HashMap<u32, Box<RetryState>>,
    /// Whose attempt is in a place.
    pub(crate) attempts: HashMap<u32, u32>,
    /// Answers that have been decompressed beside the loop.
    pub(crate) answers: Vec<Answer>,
}

/// The answer to an attempt of a call that may be retried. Its place is taken until it is looked
/// at, whoever may have given the call up.
pub(crate) struct Answer {
    pub(crate) place: u32,
    pub(crate) session: SessionId,
    pub(crate) request: MsgBuf,
    pub(crate) outcome: Outcome,
}

impl RetryStates {
    fn hedge_of(&mut self, attempt: u32) -> Option<&mut Hedge> {
        let call = self.attempts.get(&attempt)?;
        self.list.get_mut(call)?.hedge.as_mut()
    }

    /// The answer to the attempt in `place` is being decompressed beside the loop.
    #[cold]
    pub(crate) fn unpacks(&mut self, place: u32) {
        self.hedge_of(place).into_iter().for_each(|hedge| hedge.unpacking += 1);
    }

    /// It has been.
    pub(crate) fn has_unpacked(&mut self, place: u32) {
        self.hedge_of(place).into_iter().for_each(|hedge| hedge.unpacking -= 1);
    }
}

/// What a hedged call has beside its plan.
pub(crate) struct Hedge {
    pub(crate) request: MsgBuf,
    /// Those under way, in the order in which they began.
    pub(crate) attempts: Vec<CallKey>,
    /// Those whose answers are being decompressed. Meanwhile no other begins.
    pub(crate) unpacking: u32,
    /// What the last attempt that failed has brought.
    pub(crate) held: Option<Outcome>,
}

/// What a response says beside its message.
fn read_status(response: &[u8]) -> Result<(Code, Pushback), Malformed> {
    let head = response.first_chunk().ok_or(Malformed::TooShort)?;
    let head = ResponseHead::parse(*head)?;
    let (_, tail) = split(response, head.has_tail)?;
    if head.code == Code::Ok || !head.has_tail {
        return Ok((head.code, Pushback::Unsaid));
    }
    let parts = read_tail(tail, TAIL_BYTES_LIMIT).map_err(|_| Malformed::Tail)?;
    Ok((head.code, Pushback::of(&parts.trailing)))
}
