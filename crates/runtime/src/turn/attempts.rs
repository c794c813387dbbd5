//! Calls that are sent more than once.
//!
//! A [`RetryState`] decides what follows from the end of an attempt; it uses `petasos_call`'s
//! [`CallPlan`]. A call whose policy allows no retries has such a state only if its request has
//! certainly not run and is sent again, so the answers of those calls are not examined here. While
//! a call has a retry state, its mode is `Retried` (or `Hedged`: see `hedges`).
//!
//! A request is not encoded again: the completion returns its buffer. Only the number of previous
//! attempts is added to its tail (`grpc-previous-rpc-attempts`).
//!
//! Invariants: all attempts of a call share one deadline. A request that may have run is sent again
//! only if the policy allows it (R12), and only within the channel's retry budget.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::SessionIndex;
use petasos_call::policy::{AttemptEnd, Fate, Step, Verdict};
use petasos_call::{
    Code, Failure, HEAD_BYTES, Malformed, MetadataKind, PREVIOUS_ATTEMPTS, RequestHead, Status,
    TailWriter, read_tail, split,
};
use petasos_endpoint::{CallError, Context, SessionId};
use petasos_message::recycle;
use petasos_rpc::request::TAIL_BYTES_LIMIT;
use petasos_rpc::settings::RetryMode;

use super::work::{Work, failure_of, with_work};
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::due::Due;
use crate::keys::CallKey;
use crate::retries::{Answer, Ended, RetryState};

/// Handles an attempt that failed before the application answered it.
#[cold]
pub(super) fn on_failed(
    parts: &mut DispatcherParts,
    cx: &Context<Dispatcher>,
    (place, id): (u32, SessionId),
    request: MsgBuf,
    error: CallError,
) {
    with_work(parts, |work| {
        let session = work.session_of(place, id);
        work.call_failed(cx, place, id, error);
        let may_run_again = id.is_group() && work.calls.head(place).routing.is_idempotent;
        let failure = match error {
            CallError::PeerFailed if may_run_again => Failure::WorkerLost,
            error => failure_of(error),
        };
        work.on_attempt_end(cx, place, Ended::below(failure, Some(request), session));
    });
}

/// Handles a call whose next attempt is due, or whose deadline has passed.
#[cold]
pub(super) fn expire(parts: &mut DispatcherParts, cx: &Context<Dispatcher>, call: CallKey) {
    with_work(parts, |work| {
        if work.calls.is_unbound(call) {
            let late = Status::deadline_exceeded("no session took the call in time");
            work.fail_call(call.place(), late);
        } else if work.calls.is_to_go_on(call) {
            work.go_on(cx, call.place());
        }
    });
}

impl Work<'_> {
    fn session_of(&mut self, place: u32, id: SessionId) -> Option<SessionIndex> {
        self.channels.index_of(self.calls.session_of(place, id))
    }

    /// Handles the answer to an attempt of a call that may be retried.
    #[cold]
    pub(super) fn on_answer(&mut self, cx: &Context<Dispatcher>, answer: Answer) {
        let Answer { place, session, request, outcome } = answer;
        let session = self.session_of(place, session);
        let ended = Ended { outcome, failure: None, request: Some(request), session };
        self.on_attempt_end(cx, place, ended);
    }

    /// Handles answers that were decompressed outside the loop.
    #[cold]
    pub(super) fn on_late_answers(&mut self, cx: &Context<Dispatcher>) {
        for answer in core::mem::take(&mut self.calls.retries.answers) {
            self.calls.retries.has_unpacked(answer.place);
            self.on_answer(cx, answer);
        }
    }

    /// Handles calls that could not be sent. The retry policy treats this like an answer, since a
    /// transparent retry on a failing channel would fail as well.
    #[cold]
    pub(super) fn on_send_failures(&mut self, cx: &Context<Dispatcher>) {
        for (place, status, request) in core::mem::take(&mut self.calls.failed) {
            if self.calls.retry_mode(place) == RetryMode::Plain {
                request.into_iter().for_each(recycle);
                self.calls.over.push((place, Err(status)));
                continue;
            }
            let ended = Ended { outcome: Err(status), failure: None, request, session: None };
            self.on_attempt_end(cx, place, ended);
        }
    }

    /// An attempt of the call in `place` has ended. Its outcome becomes the outcome of the call, or
    /// the call is sent again.
    #[cold]
    pub(super) fn on_attempt_end(
        &mut self,
        cx: &Context<Dispatcher>,
        place: u32,
        mut ended: Ended,
    ) {
        let (head, now) = (self.calls.head(place), cx.now());
        if head.retry_mode == RetryMode::Attempt {
            return self.on_hedge_end(cx, place, ended);
        }
        let may_go_on = match (head.retry_mode, ended.failure) {
            // Another worker may run it.
            (RetryMode::Plain, Some(Failure::WorkerLost)) => true,
            (RetryMode::Plain, Some(failure)) => Fate::from(failure.retry()) == Fate::NotRun,
            (retry_mode, _) => retry_mode != RetryMode::Plain,
        };
        if !may_go_on || !self.calls.is_wanted(place) || head.deadline <= now {
            return self.conclude(place, ended);
        }
        let (code, pushback) = ended.status();
        let retry_state = self.calls.retries.list.remove(&place);
        let Some(entry) = self.channels.entry(head.channel) else {
            return self.conclude(place, ended);
        };
        let info = entry.info.clone();
        let (budget, rng) =
            self.channels.budget(head.channel).expect("the channel was just looked up");
        if retry_state.is_none() && code == Code::Ok {
            budget.on_success();
            return self.conclude(place, ended);
        }
        let mut retry_state = retry_state.unwrap_or_else(|| {
            let mut retry_state = RetryState::new(&info, &head, now);
            let sent = retry_state.poll(budget, now);
            assert_eq!(sent, Step::Send, "the first attempt may be sent before the deadline");
            Box::new(retry_state)
        });
        let end = AttemptEnd { code, fate: retry_state.fate(ended.failure), pushback };
        let (plan, policy) = retry_state.plan();
        if plan.handle_end(policy, end, budget, now, rng) == Verdict::Deliver {
            return self.conclude(place, ended);
        }
        let Some(request) = ended.request.take() else { return self.conclude(place, ended) };
        ended.session.into_iter().for_each(|session| retry_state.avoid.add(session));
        self.calls.set_retry_mode(place, RetryMode::Retried);
        self.calls.retries.list.insert(place, retry_state);
        self.calls.pause(place, request);
        self.go_on(cx, place);
    }

    /// Sends a call again if its next attempt is due.
    fn go_on(&mut self, cx: &Context<Dispatcher>, place: u32) {
        let (head, now) = (self.calls.head(place), cx.now());
        if head.retry_mode == RetryMode::Hedged {
            return self.go_on_hedged(cx, place);
        }
        let Some(retry_state) = self.calls.retries.list.get_mut(&place) else { return };
        let Some((budget, _)) = self.channels.budget(head.channel) else { return };
        match retry_state.poll(budget, now) {
            Step::Send => {
                let previous = retry_state.plan.attempts() - 1;
                let mut request =
                    self.calls.take_back(place).expect("a paused call has its request");
                request.flatten();
                let noted = (previous > 0).then(|| with_previous(&request, previous).ok());
                self.calls.requeue(place, noted.flatten().unwrap_or(request));
            }
            Step::Wait(at) => self.come_back(place, now, at),
            Step::GiveUp | Step::Expired => {
                let failure = Failure::Timeout;
                self.conclude(place, Ended::below(failure, None, None));
            }
        }
    }

    /// Schedules another look at the call in `place` for this time.
    pub(super) fn come_back(&mut self, place: u32, now: Time, at: Time) {
        if at != Time::NEVER {
            let call = self.calls.key(place);
            self.deadlines.insert(now, at, Due::Call { call, at });
        }
    }

    /// Ends the call in `place`.
    pub(super) fn conclude(&mut self, place: u32, ended: Ended) {
        // A call that was given up before its outcome was examined keeps its place until then.
        self.calls.take_back(place).into_iter().chain(ended.request).for_each(recycle);
        if self.calls.retry_mode(place) != RetryMode::Plain {
            self.calls.forget(place);
            self.calls.set_retry_mode(place, RetryMode::Plain);
        }
        self.calls.over.push((place, ended.outcome));
    }
}

/// Copies a request and adds the number of previous attempts to it.
pub(super) fn with_previous(request: &[u8], previous: u32) -> Result<MsgBuf, Status> {
    let head = request.first_chunk().ok_or(Malformed::TooShort)?;
    let mut head = RequestHead::parse(*head)?;
    let (body, tail) = split(request, head.has_tail)?;
    let mut parts = read_tail(tail, TAIL_BYTES_LIMIT)?;
    parts.initial.remove(PREVIOUS_ATTEMPTS);
    parts
        .initial
        .append(PREVIOUS_ATTEMPTS, &previous.to_string())
        .expect("the key and value are valid");
    head.has_tail = true;
    let mut bytes = Vec::new();
    let mut writer = TailWriter::new(&mut bytes);
    writer.metadata(MetadataKind::Initial, &parts.initial);
    if let Some(trace) = &parts.trace {
        writer.trace(trace);
    }
    writer.finish();
    let mut noted = petasos_message::buffer(body.end + bytes.len());
    let (start, end) = noted.as_mut_slice().split_at_mut(body.end);
    start[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
    start[HEAD_BYTES..].copy_from_slice(&request[HEAD_BYTES..body.end]);
    end.copy_from_slice(&bytes);
    Ok(noted)
}
