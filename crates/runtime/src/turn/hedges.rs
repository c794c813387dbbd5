//! Hedged calls: sent again while there is no answer (gRFC A6).
//!
//! A hedged call's place has no session. Each attempt is a call of its own, with a copy of the
//! request, in a place that no future waits for. Its end is reported to the hedged call's retry
//! state. The first outcome that the policy accepts ends the call, and the other attempts are
//! cancelled (R11).
//!
//! Invariant: an attempt's place is in [`RetryStates::attempts`](crate::retries::RetryStates)
//! exactly as long as its hedged call has not ended. It is then also in that call's
//! [`Hedge::attempts`].

use petasos_buf::MsgBuf;
use petasos_call::channel::Avoid;
use petasos_call::policy::{AttemptEnd, Step, Verdict};
use petasos_call::{Failure, Status};
use petasos_endpoint::Context;
use petasos_message::recycle;
use petasos_rpc::settings::RetryMode;

use super::attempts::with_previous;
use super::work::Work;
use crate::calls::Calls;
use crate::dispatcher::Dispatcher;
use crate::head::CallHead;
use crate::retries::{Ended, Hedge, RetryState};

impl Work<'_> {
    /// Begins the attempts of the call in `place`.
    #[cold]
    pub(super) fn hedge(&mut self, cx: &Context<Dispatcher>, place: u32, head: &CallHead) {
        let Some(entry) = self.channels.entry(head.channel) else {
            let gone = Status::unavailable("the channel is gone");
            return self.calls.over.push((place, Err(gone)));
        };
        let mut retry_state = RetryState::new(&entry.info, head, cx.now());
        let request = self.calls.hedge(place);
        retry_state.hedge = Some(Hedge { request, attempts: Vec::new(), unpacking: 0, held: None });
        self.calls.retries.list.insert(place, Box::new(retry_state));
        self.go_on_hedged(cx, place);
    }

    /// Sends the attempts of a hedged call that are due.
    pub(super) fn go_on_hedged(&mut self, cx: &Context<Dispatcher>, place: u32) {
        let (head, now) = (self.calls.head(place), cx.now());
        loop {
            let Calls { retries, .. } = &mut *self.calls;
            let Some(retry_state) = retries.list.get_mut(&place) else { return };
            if retry_state.hedge.as_ref().is_some_and(|hedge| hedge.unpacking > 0) {
                // An answer is being decompressed, and it decides what follows.
                return;
            }
            let Some((budget, _)) = self.channels.budget(head.channel) else { return };
            match retry_state.poll(budget, now) {
                Step::Send => self.send_attempt(place, &head),
                Step::Wait(at) => return self.come_back(place, now, at),
                Step::GiveUp => {
                    let held = retry_state.hedge.as_mut().and_then(|hedge| hedge.held.take());
                    let outcome = held.expect("an attempt has failed before");
                    let (failure, request, session) = (None, None, None);
                    return self.conclude(place, Ended { outcome, failure, request, session });
                }
                Step::Expired => {
                    return self.conclude(place, Ended::below(Failure::Timeout, None, None));
                }
            }
        }
    }

    fn send_attempt(&mut self, place: u32, head: &CallHead) {
        let retry_state =
            self.calls.retries.list.get_mut(&place).expect("the state was just polled");
        let previous = retry_state.plan.attempts() - 1;
        let hedge = retry_state.hedge.as_mut().expect("the call is hedged");
        let noted = (previous > 0).then(|| with_previous(&hedge.request, previous).ok());
        let request = noted.flatten().unwrap_or_else(|| copy(&hedge.request));
        let head = CallHead { retry_mode: RetryMode::Attempt, ..*head };
        let attempt = self.calls.begin_with(|| head, request);
        self.calls.retries.attempts.insert(attempt.place(), place);
        let retry_state =
            self.calls.retries.list.get_mut(&place).expect("the state was just looked up");
        retry_state.hedge.as_mut().expect("the call is hedged").attempts.push(attempt);
    }

    /// Handles the end of an attempt of a hedged call.
    pub(super) fn on_hedge_end(&mut self, cx: &Context<Dispatcher>, place: u32, ended: Ended) {
        let (head, now) = (self.calls.head(place), cx.now());
        let call = self.calls.retries.attempts.remove(&place);
        self.calls.end_attempt(place);
        let (code, pushback) = ended.status();
        let Ended { outcome, failure, request, session } = ended;
        if let Some(request) = request {
            recycle(request);
        }
        let retry_state = call.and_then(|call| self.calls.retries.list.get_mut(&call));
        let (Some(call), Some(retry_state)) = (call, retry_state) else { return };
        session.into_iter().for_each(|session| retry_state.avoid.add(session));
        let end = AttemptEnd { code, fate: retry_state.fate(failure), pushback };
        let hedge = retry_state.hedge.as_mut().expect("the call is hedged");
        hedge.attempts.retain(|attempt| attempt.place() != place);
        let budget = self.channels.budget(head.channel);
        let verdict = budget.map(|(budget, rng)| {
            let (plan, policy) = retry_state.plan();
            plan.handle_end(policy, end, budget, now, rng)
        });
        if verdict == Some(Verdict::Hold) {
            retry_state.hedge.as_mut().expect("the call is hedged").held = Some(outcome);
            return self.go_on_hedged(cx, call);
        }
        let (failure, request, session) = (None, None, None);
        self.conclude(call, Ended { outcome, failure, request, session });
    }

    /// The servers that attempts of a call have used or are using; the next attempt should avoid
    /// them.
    #[cold]
    pub(super) fn avoided(&mut self, channel: u32, place: u32) -> Avoid {
        let call = self.calls.retries.attempts.get(&place).copied().unwrap_or(place);
        let Some(retry_state) = self.calls.retries.list.get(&call) else { return Avoid::NOTHING };
        let mut avoid = retry_state.avoid;
        let Some(entry) = self.channels.entry(channel) else { return avoid };
        for attempt in retry_state.hedge.iter().flat_map(|hedge| &hedge.attempts) {
            let number = self.calls.session_number(attempt.place());
            let session = number.and_then(|number| entry.index_at(number));
            session.into_iter().for_each(|session| avoid.add(session));
        }
        avoid
    }
}

fn copy(request: &[u8]) -> MsgBuf {
    let mut copy = petasos_message::buffer(request.len());
    copy.as_mut_slice().copy_from_slice(request);
    copy
}
