//! What handlers and continuations can do, and what the application can do between turns.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::{MsgBuf, PoolError, SPARE_BYTES_MIN};
use petasos_proto::taken::TakenId;
use petasos_proto::{Call, Respond};
use petasos_wire::RejectCode;

use super::{CallContext, Context, Continuation, SHORT_REQUEST_BYTES_MAX};
use crate::call::{CallError, CallId, CallSettings, Refused};
use crate::group::Routing;
use crate::handler::{Payload, RequestHandle, RequestKey};
use crate::kept::SHORT_BYTES_MAX;
use crate::sessions::{ClientState, SessionId, SessionState, ready};

impl<S> Context<S> {
    /// The time of this turn.
    #[inline]
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// A buffer of length `len` from the endpoint's pool. Its bytes are unspecified.
    ///
    /// # Errors
    /// See [`PoolError`].
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Result<MsgBuf, PoolError> {
        self.core.pool.take(len)
    }

    /// Returns a buffer to the pool.
    #[inline]
    pub fn free(&mut self, buf: MsgBuf) {
        self.core.pool.give(buf);
    }

    /// Removes a buffer that the endpoint has lent from the pool's account: its holder may keep it
    /// for any time, on any thread, and then leave it to the process ([`petasos_buf::give_spare`])
    /// or give it to any pool.
    #[inline]
    pub fn part_with(&mut self, buf: &MsgBuf) {
        self.core.pool.part_with(buf);
    }

    /// Answers a request with a buffer that is not from the endpoint's pool; without a copy if it
    /// is long. Its tail is never copied. If there is no memory for it, the request is rejected as
    /// [`RejectCode::HandlerFailed`], because it has run. Returns the buffer if it was not needed.
    pub fn respond_in(&mut self, handle: RequestHandle, mut buf: MsgBuf) -> Option<MsgBuf> {
        if buf.capacity() >= SPARE_BYTES_MIN / 2 {
            self.core.pool.take_over(&buf);
            self.respond(handle, buf);
            return None;
        }
        if !buf.has_tail() {
            self.respond_with(handle, &buf);
            return Some(buf);
        }
        let tail = buf.take_tail();
        match self.response_buffer(&handle, buf.len()) {
            Ok(mut response) => {
                response.as_mut_slice().copy_from_slice(&buf);
                response.attach(tail);
                self.respond(handle, response);
            }
            Err(_) => self.reject(handle, RejectCode::HandlerFailed),
        }
        Some(buf)
    }

    /// Starts a call. When it is over, `continuation` runs exactly once, with `tag`. The request's
    /// buffer is returned with the completion.
    ///
    /// # Errors
    /// The buffer, with the reason; see [`crate::EnqueueError`].
    #[inline(always)]
    pub fn enqueue_request(
        &mut self,
        session: SessionId,
        method: u16,
        request: MsgBuf,
        continuation: Continuation<S>,
        tag: u64,
    ) -> Result<CallId, Refused> {
        self.enqueue(session, method, request, continuation, tag, None)
    }

    /// Like [`Context::enqueue_request`], with a timeout and other settings of this call.
    ///
    /// # Errors
    /// The buffer, with the reason; see [`crate::EnqueueError`].
    #[inline(always)]
    pub fn enqueue_with(
        &mut self,
        session: SessionId,
        method: u16,
        request: MsgBuf,
        continuation: Continuation<S>,
        tag: u64,
        settings: &CallSettings,
    ) -> Result<CallId, Refused> {
        self.enqueue(session, method, request, continuation, tag, Some(settings))
    }

    #[inline(always)]
    fn enqueue(
        &mut self,
        session: SessionId,
        method: u16,
        request: MsgBuf,
        continuation: Continuation<S>,
        tag: u64,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, Refused> {
        let core = &mut self.core;
        let (now, bytes) = (core.now, request.len());
        let context = CallContext { request, response: None, continuation, tag };
        if bytes <= SHORT_REQUEST_BYTES_MAX
            && let Some(entry) = core.clients.get_mut(session.index)
            && entry.generation == session.generation
            && let ClientState::Ready { session: client, route } = &mut entry.state
        {
            let options = CallSettings::of_call(settings, method, bytes, now);
            match client.send_short(options, context, now) {
                Ok(sent) => {
                    core.tx.push_short(*route, sent.header, &sent.context.request, None);
                    let number = sent.call;
                    if entry.needs_timer(now) || options.timeout_at != Time::NEVER {
                        core.arm_call(session, options.timeout_at);
                    }
                    return Ok(CallId { session, number });
                }
                Err(context) => {
                    return core.enqueue_waiting(session, Call { options, context }, settings);
                }
            }
        }
        core.enqueue_any(session, method, context, settings)
    }

    /// Starts a call to a group, whose router `session` is an attachment to. It is routed as
    /// `routing` says; with the other methods, as by default.
    ///
    /// # Errors
    /// The buffer, with the reason; see [`crate::EnqueueError`].
    #[allow(clippy::too_many_arguments, reason = "those of `enqueue_with`, and one more")]
    pub fn enqueue_routed(
        &mut self,
        session: SessionId,
        method: u16,
        request: MsgBuf,
        continuation: Continuation<S>,
        tag: u64,
        settings: &CallSettings,
        routing: Routing,
    ) -> Result<CallId, Refused> {
        let context = CallContext { request, response: None, continuation, tag };
        self.core.enqueue_to_group(session, method, context, Some(settings), routing)
    }

    /// Cancels a call. Its continuation runs with [`CallError::Cancelled`] within this turn, and
    /// the server is told by a datagram, which may be lost. Returns whether there was such a call.
    pub fn cancel(&mut self, call: CallId) -> bool {
        let Some(entry) = self.core.client_mut(call.session) else {
            return self.core.end_elsewhere(call, CallError::Cancelled);
        };
        let Some(client) = ready(entry) else { return false };
        let Some(ended) = client.cancel(call.number) else { return false };
        if let Some(cancel) = ended.cancel {
            self.core.push_to_peer(call.session, cancel);
        }
        self.core.touch_client(call.session.index);
        self.core.finish_later(call.session, ended.context, CallError::Cancelled);
        true
    }

    /// A buffer of length `len` for the answer to `handle`: the slot's previous response if that
    /// is large enough, otherwise one from the pool.
    ///
    /// # Errors
    /// See [`PoolError`].
    #[inline]
    pub fn response_buffer(
        &mut self,
        handle: &RequestHandle,
        len: usize,
    ) -> Result<MsgBuf, PoolError> {
        if self.core.switches.preallocated_responses
            && let Some(entry) = self.core.servers.get_mut(handle.session.index())
            && entry.id == handle.session
            && entry.session.is_running(handle.request)
        {
            let slot = entry.session.slot_of(handle.request);
            if let Some(mut buf) = entry.session.kept_mut(slot).take_roomy(len) {
                buf.set_len(len);
                return Ok(buf);
            }
        }
        self.core.pool.take(len)
    }

    /// Answers a request. If its call is already over, the response is dropped.
    #[inline]
    pub fn respond(&mut self, handle: RequestHandle, response: MsgBuf) {
        let core = &mut self.core;
        let RequestHandle { session, request } = handle;
        let index = session.index();
        let entry = core.servers.get_mut(index).filter(|entry| entry.id == session);
        let Some(entry) = entry else {
            let handle = RequestHandle { session, request };
            return core.answer_elsewhere(&handle, response);
        };
        let slot = entry.session.slot_of(request);
        match entry.session.respond(request, response.len() as u32) {
            Respond::Send => {
                if let Some(old) = entry.session.kept_mut(slot).put(response) {
                    core.pool.give(old);
                }
                core.send_response(index, slot, 0, 1);
            }
            Respond::Stale => core.pool.give(response),
            Respond::TooLong => {
                core.pool.give(response);
                core.reject(index, request, RejectCode::HandlerFailed);
            }
        }
    }

    /// Answers a request with a copy of `bytes`. If there is no memory for it, the request is
    /// rejected as [`RejectCode::HandlerFailed`], because it has run.
    #[inline(always)]
    pub fn respond_with(&mut self, handle: RequestHandle, bytes: &[u8]) {
        let core = &mut self.core;
        if bytes.len() <= SHORT_BYTES_MAX
            && let Some(entry) = core.servers.get_mut(handle.session.index())
            && entry.id == handle.session
            && let Some((header, kept)) =
                entry.session.respond_short(handle.request, bytes.len() as u32)
        {
            let kept = kept.short_mut(bytes.len());
            return core.tx.push_short(entry.route, header, bytes, Some(kept));
        }
        self.respond_with_buffer(handle, bytes);
    }

    #[inline(never)]
    fn respond_with_buffer(&mut self, handle: RequestHandle, bytes: &[u8]) {
        if handle.session.is_group() {
            return self.core.answer_taken(&handle, Payload::Frame(bytes));
        }
        if bytes.len() <= SHORT_BYTES_MAX && self.core.respond_sealed(&handle, bytes) {
            return;
        }
        match self.response_buffer(&handle, bytes.len()) {
            Ok(mut response) => {
                response.as_mut_slice().copy_from_slice(bytes);
                self.respond(handle, response);
            }
            Err(_) => self.reject(handle, RejectCode::HandlerFailed),
        }
    }

    /// Declines to answer, with a reason for the client.
    pub fn reject(&mut self, handle: RequestHandle, code: RejectCode) {
        let entry = self.core.servers.get(handle.session.index());
        if entry.is_some_and(|entry| entry.id == handle.session) {
            self.core.reject(handle.session.index(), handle.request, code);
        } else {
            self.core.reject_elsewhere(&handle, code);
        }
    }

    /// Says that the answer that follows is a failure of this endpoint's own, and not of who asks:
    /// if a router has given it the request, that one may give it none for a while (RT20, RT23). No
    /// effect on requests of sessions.
    #[cold]
    pub fn count_failure(&mut self, handle: &RequestHandle) {
        if handle.session.is_group() {
            self.core.count_taken_failure(TakenId::from_bits(handle.request));
        }
    }

    /// Ends a request of a group that is [abandoned](crate::Endpoint::on_abandoned), if its handler
    /// was dropped together with the handle: its router may give this worker another one then. No
    /// effect on requests of sessions.
    #[cold]
    pub fn end_abandoned(&mut self, request: RequestKey) {
        let RequestKey { session, request } = request;
        if session.is_group() {
            self.reject(RequestHandle { session, request }, RejectCode::Declined);
        }
    }

    /// Whether the call behind `handle` still waits for an answer. Long work may check this now and
    /// then.
    pub fn is_wanted(&self, handle: &RequestHandle) -> bool {
        let entry = self.core.servers.get(handle.session.index());
        entry.map_or_else(
            || self.core.is_external_running(handle) || self.core.is_taken_wanted(handle),
            |entry| entry.id == handle.session && entry.session.is_running(handle.request),
        )
    }

    /// Whether the endpoint drains. A handler can only see that after
    /// [`Endpoint::let_handlers_drain`](crate::Endpoint::let_handlers_drain).
    pub fn is_draining(&self) -> bool {
        self.core.draining
    }

    /// How many calls `session` can have under way at once; 0 unless it is ready.
    pub fn session_slots(&self, session: SessionId) -> u32 {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            Some(ClientState::Ready { session, .. }) => session.params().slots,
            Some(_) => 0,
            None => match self.core.group_attachment(session) {
                Some(attachment) => attachment.asked_max,
                None => self.core.external_params(session).map_or(0, |params| params.slots),
            },
        }
    }

    /// The state of `session`.
    pub fn session_state(&self, session: SessionId) -> SessionState {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            None if self.core.group_attachment(session).is_some() => SessionState::Ready,
            None => self.core.external_state(session),
            Some(ClientState::Connecting) => SessionState::Connecting,
            Some(ClientState::Ready { .. }) => SessionState::Ready,
            Some(ClientState::Failed) => SessionState::Failed,
        }
    }

    /// The smoothed round trip of `session`, once one has been measured.
    pub fn session_rtt(&self, session: SessionId) -> Option<Duration> {
        let entry = self.core.clients.get(session.index)?;
        match &entry.state {
            ClientState::Ready { session: client, .. }
                if entry.generation == session.generation =>
            {
                client.rtt_ns().map(Duration::from_nanos)
            }
            _ => None,
        }
    }
}
