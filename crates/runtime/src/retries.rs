//! The state of calls that may be sent more than once.
//!
//! A call's retry state is stored under the call's place. It exists from the end of the first
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

/// A call to a group that may run more than once is sent again after so many workers were lost that
/// had it, whatever its policy; then by policy.
const WORKERS_LOST_MAX: u32 = 2;

/// How an attempt has ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What failed below the application, if anything did.
    pub(crate) failure: Option<Failure>,
    pub(crate) request: Option<MsgBuf>,
    /// The session of the attempt.
    pub(crate) session: Option<SessionIndex>,
}

impl Ended {
    /// An attempt that failed below the application.
    pub(crate) fn below(
        failure: Failure,
        request: Option<MsgBuf>,
        session: Option<SessionIndex>,
    ) -> Ended {
        Ended { outcome: Err(failure.status()), failure: Some(failure), request, session }
    }

    /// The status, and the server's pushback.
    pub(crate) fn status(&self) -> (Code, Pushback) {
        match &self.outcome {
            Ok(response) => read_status(response).unwrap_or((Code::Internal, Pushback::Unsaid)),
            Err(status) => (status.code(), Pushback::of(status.metadata())),
        }
    }
}

/// The state of a call that is tried again.
pub(crate) struct RetryState {
    pub(crate) plan: CallPlan,
    defaults: Option<Arc<ServiceDefaults>>,
    method: u16,
    policy_of: PolicyOf,
    /// The sessions of attempts that have ended, to be avoided.
    pub(crate) avoid: Avoid,
    /// Whether a server has already rejected it as overloaded, or a router since its queue is full.
    overloaded: bool,
    /// How many workers of a group were lost that had it.
    workers_lost: u32,
    /// The attempts, if the call is hedged.
    pub(crate) hedge: Option<Hedge>,
}

impl RetryState {
    /// The retry state of a call whose first attempt was sent.
    pub(crate) fn new(info: &ChannelInfo, head: &CallHead, now: Time) -> RetryState {
        let method = (info.service_defaults(head.service), head.method);
        let state = RetryState::of(method, policy_of, head.deadline, now);
        RetryState { plan: state.plan.waiting(head.wait_for_ready), ..state }
    }

    /// The same, for a method with this policy.
    pub(crate) fn of(
        (defaults, method): (Option<Arc<ServiceDefaults>>, u16),
        policy_of: PolicyOf,
        deadline: Time,
        now: Time,
    ) -> RetryState {
        let of_method = defaults.as_ref().map(|defaults| defaults.method(method));
        let is_idempotent = of_method.is_some_and(|of_method| of_method.is_idempotent);
        let plan = CallPlan::new(is_idempotent, deadline, now);
        let (avoid, overloaded, workers_lost, hedge) = Default::default();
        RetryState { plan, defaults, method, policy_of, avoid, overloaded, workers_lost, hedge }
    }

    pub(crate) fn poll(&mut self, budget: &RetryBudget, now: Time) -> Step {
        let (plan, policy) = self.plan();
        plan.poll(policy, budget, now)
    }

    pub(crate) fn plan(&mut self) -> (&mut CallPlan, &MethodPolicy) {
        (&mut self.plan, (self.policy_of)(self.defaults.as_deref(), self.method))
    }

    /// What an attempt's end says about the request (R12).
    pub(crate) fn fate(&mut self, failure: Option<Failure>) -> Fate {
        match failure {
            None => Fate::Answered,
            // A rejected request is sent elsewhere once, at once. After that, overloaded servers
            // and routers (RT14) get a pause.
            Some(Failure::Overloaded | Failure::QueueFull) if self.overloaded => Fate::Unknown,
            // It may be the request that ends its workers.
            Some(Failure::WorkerLost) if self.workers_lost < WORKERS_LOST_MAX => {
                self.workers_lost += 1;
                Fate::NotRun
            }
            Some(failure) => {
                self.overloaded |= matches!(failure, Failure::Overloaded | Failure::QueueFull);
                failure.retry().into()
            }
        }
    }
}

/// The retry states of a loop's calls, by their places.
#[derive(Default)]
pub(crate) struct RetryStates {
    pub(crate) list: HashMap<u32, Box<RetryState>>,
    /// The hedged call's place, by the place of the attempt.
    pub(crate) attempts: HashMap<u32, u32>,
    /// Answers that were decompressed on other threads.
    pub(crate) answers: Vec<Answer>,
}

/// The answer to an attempt of a call that may be retried. Its place stays taken until the answer
/// is processed, even if the call was given up.
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

    /// Notes that the answer to the attempt in `place` is being decompressed on another thread.
    #[cold]
    pub(crate) fn unpacks(&mut self, place: u32) {
        self.hedge_of(place).into_iter().for_each(|hedge| hedge.unpacking += 1);
    }

    /// Notes that it has been decompressed.
    pub(crate) fn has_unpacked(&mut self, place: u32) {
        self.hedge_of(place).into_iter().for_each(|hedge| hedge.unpacking -= 1);
    }
}

/// The attempts of a hedged call.
pub(crate) struct Hedge {
    pub(crate) request: MsgBuf,
    /// Attempts under way, in the order in which they began.
    pub(crate) attempts: Vec<CallKey>,
    /// How many answers are being decompressed. Meanwhile no other attempt begins.
    pub(crate) unpacking: u32,
    /// The outcome of the last attempt that failed.
    pub(crate) held: Option<Outcome>,
}

/// Reads what a response says besides its message.
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
