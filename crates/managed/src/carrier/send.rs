//! Passes events of the endpoint on to the service.

use petasos_abi::{CallNumber, Contents, Descriptor};
use petasos_call::{BindRequest, Code, Encoding, HEAD_BYTES, Status};
use petasos_endpoint::{
    CallError, CallId, Context, ExternalAnswer, ExternalEvent, Payload, RejectCode,
};

use super::request_numbers::{is_exchange, is_of_second, unary_call};
use super::waiting::{Waiting, failure_of};
use super::{Begun, Carrier, NO_SCHEMA, SWEEP, UNDESCRIBED};
use crate::frames::{frame, response_head, status_frame, tail_of};
use crate::services::Binding;
use petasos_base::Time;

impl Carrier {
    /// Hands over what the endpoint has for the service.
    pub fn send<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        while let Some(event) = cx.poll_external() {
            match event {
                ExternalEvent::Call { call, method } => self.on_call(state, cx, call, method),
                ExternalEvent::Cancel(call) => self.on_call_over(state, cx, call),
                ExternalEvent::Answer(number, answer) => {
                    self.on_answer(state, cx, number, answer);
                }
                ExternalEvent::Closed(session) => self.close(state, cx, session),
            }
        }
        if cx.now() >= self.sweep_at {
            self.sweep(state, cx);
        }
        self.each_joined(|this| this.send_here(state, cx));
        self.say_moved();
    }

    /// Hands over what waits in one attachment.
    fn send_here<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        self.go_on(state, cx);
        if let Some(link) = &mut self.on.link {
            // A link that is broken shows when it is heard.
            let asked = self.on.asks.send(link, &self.services, &mut self.on.bindings);
            if asked.is_err() {
                self.on.hear_at = Time::ZERO;
            }
            link.flush(cx.now());
        }
    }

    /// Whether something that waits may go on now.
    fn go_on<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        for _ in 0..self.on.waiting.len() {
            let Some(waiting) = self.on.waiting.pop_front() else { return };
            let left = match waiting {
                Waiting::Call(call, method, converted) => {
                    self.begin_unary(state, cx, call, method, converted)
                }
                Waiting::Bind(call) => self.answer_bind(state, cx, call),
                Waiting::Answer(call, response, meant, converted) => {
                    self.answer_unary(cx, call, response, meant, converted)
                }
            };
            match left {
                // Others need not wait for it.
                Some(bind @ Waiting::Bind(_)) => self.on.waiting.push_back(bind),
                Some(left) => {
                    self.on.waiting.push_front(left);
                    break;
                }
                None => {}
            }
        }
        self.advance_blocked(state, cx);
    }

    /// Keeps the order of what waits for room.
    fn wait(&mut self, waiting: Option<Waiting>) {
        self.on.waiting.extend(waiting);
    }

    fn on_call<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallId, number: u16) {
        if number == 0 {
            let waiting = self.answer_bind(state, cx, call);
            return self.wait(waiting);
        }
        match self.services.method(number) {
            Some(method) if method.is_stream => self.exchange_outward(state, cx, call, method),
            Some(method) if self.on.waiting.is_empty() => {
                let waiting = self.begin_unary(state, cx, call, method, None);
                self.wait(waiting);
            }
            Some(method) => self.on.waiting.push_back(Waiting::Call(call, method, None)),
            None => Context::finish_external(state, cx, call, Err(CallError::UnknownMethod)),
        }
    }

    /// Answers a bind (R2), or lets it wait until the service has bound its service.
    fn answer_bind<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
    ) -> Option<Waiting> {
        let request = cx.external_request(call)?;
        let body = request.get(HEAD_BYTES..).unwrap_or_default();
        let answer = match BindRequest::parse(body) {
            Err(malformed) => Err(Status::from(malformed)),
            Ok(bind) => match self.services.named(bind.name) {
                _ if bind.hash == NO_SCHEMA => Err(Status::unimplemented(UNDESCRIBED)),
                None => Err(Status::unimplemented("the service's schema is not known here")),
                Some(service) => match self.on.bindings.of(service).clone() {
                    Binding::Bound(_) => self.services.answer(&bind),
                    Binding::Refused(why) => {
                        // The next call binds anew (R2).
                        self.on.bindings.set(service, Binding::Unasked);
                        let why = format!("the managed service refuses {}: {why}", bind.name);
                        Err(Status::failed_precondition(why))
                    }
                    Binding::Unasked | Binding::Asked => {
                        self.on.asks.bind(&self.services, &mut self.on.bindings, service);
                        // What is asked for is sent when the service is heard.
                        self.on.hear_at = Time::ZERO;
                        return Some(Waiting::Bind(call));
                    }
                },
            },
        };
        let frame = match answer {
            Ok(body) => frame(response_head(Encoding::Native, false, Code::Ok), &body, &[]),
            Err(status) => status_frame(&status),
        };
        Context::finish_external(state, cx, call, Ok(Payload::Frame(&frame)));
        None
    }

    /// A call is over at this end.
    fn on_call_over<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallId) {
        let mut was_handed = false;
        self.each_joined(|this| was_handed |= this.cancel_handed(call));
        // One that waits finds no request when its turn comes.
        if !was_handed {
            self.abandon_outward(state, cx, call);
        }
    }

    fn cancel_handed(&mut self, call: CallId) -> bool {
        let Some(number) = self.on.handed.remove(&call.number()) else { return false };
        self.on.begun.remove(&number.get());
        self.push(Descriptor::Cancel { call: number });
        true
    }

    fn on_answer<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        number: u64,
        answer: ExternalAnswer,
    ) {
        if is_of_second(number) != self.on.is_second {
            return match (self.other.is_some(), answer) {
                (true, answer) => {
                    self.in_other(|this| this.answer_here(state, cx, number, answer));
                }
                // The attachment has ended.
                (false, ExternalAnswer::Response(response)) => cx.free(response),
                (false, ExternalAnswer::Rejected(_)) => {}
            };
        }
        self.answer_here(state, cx, number, answer);
    }

    fn answer_here<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        number: u64,
        answer: ExternalAnswer,
    ) {
        if is_exchange(number) {
            return self.answer_inward(state, cx, number, answer);
        }
        let call = unary_call(number);
        self.on.running.remove(&call.get());
        let any = !self.on.answers.is_empty();
        let meant = any.then(|| self.on.answers.remove(&call.get())).flatten();
        match answer {
            ExternalAnswer::Rejected(code) => {
                let failure = failure_of(code);
                let has_not_run = matches!(code, RejectCode::Overloaded | RejectCode::Draining)
                    || code == RejectCode::UnknownMethod;
                self.end(call, &failure.status(), has_not_run);
            }
            ExternalAnswer::Response(response) if self.on.waiting.is_empty() => {
                let waiting = self.answer_unary(cx, call, response, meant, None);
                self.wait(waiting);
            }
            ExternalAnswer::Response(response) => {
                self.on.waiting.push_back(Waiting::Answer(call, response, meant, None));
            }
        }
    }

    /// Ends a call of the service's with a status.
    pub(super) fn end(&mut self, call: CallNumber, status: &Status, has_not_run: bool) {
        let Some(link) = &mut self.on.link else { return };
        // Without room for its text, the status is said without.
        let metadata = link.put_tail(&tail_of(status)).unwrap_or(Contents::NONE);
        let (status, message) = (status.code() as u8, Contents::NONE);
        link.push(Descriptor::End { call, status, has_not_run, message, metadata });
    }

    pub(super) fn push(&mut self, descriptor: Descriptor) {
        if let Some(link) = &mut self.on.link {
            link.push(descriptor);
        }
    }

    /// Whether another call may be begun now.
    pub(super) fn may_begin(&self) -> bool {
        let link = self.on.link.as_ref();
        link.is_some_and(|link| self.on.begun.len() < link.calls_max() && !link.is_backed_up())
    }

    pub(super) fn note_begun(&mut self, call: CallNumber, begun: Begun) {
        self.on.begun.insert(call.get(), begun);
    }

    pub(super) fn sweep_later<S>(&mut self, cx: &Context<S>) {
        self.sweep_at = self.sweep_at.min(cx.now() + SWEEP);
    }
}
