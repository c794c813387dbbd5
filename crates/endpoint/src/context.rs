//! What handlers and continuations can do, and what the application can do between turns.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::{MsgBuf, PoolError};
use petasos_proto::{Call, CallOptions, Respond};
use petasos_wire::{Header, RejectCode};

use crate::call::{
    CallContext, CallError, CallId, CallSettings, Continuation, EnqueueError, Refused,
};
use crate::core::{Core, ready};
use crate::handler::RequestHandle;
use crate::sessions::{ClientState, SessionId, SessionState};
use crate::tx_queue::STAGED_PAYLOAD_BYTES_MAX;

/// The endpoint as handlers, continuations and the application see it.
pub struct Context<'a, S> {
    pub(crate) core: &'a mut Core<S>,
}

impl<S> Context<'_, S> {
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

    /// Gives a buffer back to the pool.
    #[inline]
    pub fn free(&mut self, buf: MsgBuf) {
        self.core.pool.give(buf);
    }

    /// Starts a call: `continuation` runs, with `tag`, exactly once when it is over. The request's
    /// buffer goes in with the call and comes back with the completion.
    ///
    /// # Errors
    /// The buffer, with the reason; see [`EnqueueError`].
    #[inline(always)]
    pub fn enqueue_request(
        &mut self,
        session: SessionId,
        method: u16,
        request: MsgBuf,
        continuation: Continuation<S>,
        tag: u64,
    ) -> Result<CallId, Refused> {
        let settings = CallSettings::default();
        self.enqueue_with(session, method, request, continuation, tag, &settings)
    }

    /// [`Context::enqueue_request`] with a timeout and other settings of the one call.
    ///
    /// # Errors
    /// The buffer, with the reason; see [`EnqueueError`].
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
        let core = &mut *self.core;
        let (now, bytes) = (core.now, request.len());
        let in_progress = core.request_bytes + bytes;
        let Some(entry) = core.clients.get_mut(session.index) else {
            return Err(Refused { request, error: EnqueueError::NoSuchSession });
        };
        let ClientState::Ready { session: client, route } = &mut entry.state else {
            return Err(refuse(core, session, request));
        };
        let params = client.params();
        let admitted = entry.generation == session.generation
            && bytes <= params.request_bytes_max as usize
            && in_progress <= core.config.request_bytes_in_flight_max;
        if !admitted {
            return Err(refuse(core, session, request));
        }
        let limit = params.response_bytes_max;
        let timeout_at = settings.timeout.map_or(Time::NEVER, |timeout| now + timeout);
        let options = CallOptions {
            method,
            encoding: settings.encoding,
            request_bytes: bytes as u32,
            response_bytes_max: settings.response_bytes_max.map_or(limit, |max| max.min(limit)),
            timeout_at,
        };
        let context = CallContext { request, response: None, continuation, tag };
        let unarmed = entry.timer_at > now.plus_nanos(client.rtt().rto_ns(0));
        let number = match client.send_short(options, context, now) {
            Ok(sent) if bytes <= STAGED_PAYLOAD_BYTES_MAX || sent.header.has_checksum() => {
                core.tx.push_short(*route, sent.header, &sent.context.request);
                sent.call
            }
            Ok(sent) => {
                sent.context.request.write_header(0, &sent.header.to_bytes());
                core.tx.push_request(*route, session.index, sent.slot, sent.request, 0);
                sent.call
            }
            Err(context) => core.enqueue_late(session, Call { options, context })?,
        };
        core.request_bytes = in_progress;
        if unarmed || timeout_at != Time::NEVER {
            core.arm_call(session, timeout_at);
        }
        Ok(CallId { session, number })
    }

    /// Cancels a call. Its continuation runs with [`CallError::Cancelled`] within this turn, and
    /// the server is told, as well as a datagram can. Returns whether there was such a call.
    pub fn cancel(&mut self, call: CallId) -> bool {
        let Some(entry) = self.core.client_mut(call.session) else { return false };
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
        if self.core.config.optimisations.preallocated_responses
            && let Some(entry) = self.core.servers.get_mut(handle.session)
            && entry.generation == handle.generation
            && entry.session.is_running(handle.request)
        {
            let slot = entry.session.slot_of(handle.request);
            let kept = entry.session.buffer_mut(slot);
            if kept.as_ref().is_some_and(|buf| buf.capacity() >= len) {
                let mut buf = kept.take().expect("the buffer was just seen");
                buf.set_len(len);
                return Ok(buf);
            }
        }
        self.core.pool.take(len)
    }

    /// Answers a request. If its call is over already, the response is dropped.
    #[inline]
    pub fn respond(&mut self, handle: RequestHandle, response: MsgBuf) {
        let core = &mut *self.core;
        let RequestHandle { session: index, generation, request } = handle;
        let entry = core.servers.get_mut(index).filter(|entry| entry.generation == generation);
        let Some(entry) = entry else { return core.pool.give(response) };
        let slot = entry.session.slot_of(request);
        match entry.session.respond(request, response.len() as u32) {
            Respond::Send => {
                if let Some(old) = entry.session.buffer_mut(slot).replace(response) {
                    core.pool.give(old);
                }
                core.send_response(index, slot, 0, 1);
            }
            Respond::Stale => core.pool.give(response),
            Respond::TooLong => {
                core.pool.give(response);
                crate::receive::reject(core, index, request, RejectCode::HandlerFailed);
            }
        }
    }

    /// Answers a request with a copy of `bytes`. Without memory for it, the request is rejected
    /// as [`RejectCode::HandlerFailed`]: it has run.
    #[inline(always)]
    pub fn respond_with(&mut self, handle: RequestHandle, bytes: &[u8]) {
        if !self.respond_in_place(&handle, bytes) {
            self.respond_with_buffer(handle, bytes);
        }
    }

    /// The common case: a short response into the buffer that the slot has kept.
    #[inline(always)]
    fn respond_in_place(&mut self, handle: &RequestHandle, bytes: &[u8]) -> bool {
        let core = &mut *self.core;
        let preallocated = core.config.optimisations.preallocated_responses;
        if bytes.len() > STAGED_PAYLOAD_BYTES_MAX || !preallocated {
            return false;
        }
        let Some(entry) = core.servers.get_mut(handle.session) else { return false };
        if entry.generation != handle.generation {
            return false;
        }
        let fits = |kept: &MsgBuf| kept.capacity() >= bytes.len();
        let (request, len) = (handle.request, bytes.len() as u32);
        let Some((header, buf)) = entry.session.respond_in_place(request, len, fits) else {
            return false;
        };
        buf.copy_from(bytes);
        core.tx.push_short(entry.route, header, bytes);
        true
    }

    fn respond_with_buffer(&mut self, handle: RequestHandle, bytes: &[u8]) {
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
        let entry = self.core.servers.get(handle.session);
        if entry.is_some_and(|entry| entry.generation == handle.generation) {
            crate::receive::reject(self.core, handle.session, handle.request, code);
        }
    }

    /// Whether the call behind `handle` still waits for an answer; long work may look now and
    /// then.
    pub fn is_wanted(&self, handle: &RequestHandle) -> bool {
        let entry = self.core.servers.get(handle.session);
        entry.is_some_and(|entry| {
            entry.generation == handle.generation && entry.session.is_running(handle.request)
        })
    }

    /// How far `session` is.
    pub fn session_state(&self, session: SessionId) -> SessionState {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            None => SessionState::Unknown,
            Some(ClientState::Connecting) => SessionState::Connecting,
            Some(ClientState::Ready { .. }) => SessionState::Ready,
            Some(ClientState::Failed) => SessionState::Failed,
        }
    }

    /// Calls of `session` that hold a slot, and calls that wait for one.
    pub fn session_load(&self, session: SessionId) -> (u32, usize) {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            Some(ClientState::Ready { session, .. }) => (session.busy(), session.backlog()),
            _ => (0, 0),
        }
    }

    /// The smoothed round trip of `session`, once one has been measured.
    pub fn session_rtt(&self, session: SessionId) -> Option<Duration> {
        let entry = self.core.clients.get(session.index)?;
        match &entry.state {
            ClientState::Ready { session: client, .. }
                if entry.generation == session.generation =>
            {
                client.rtt().smoothed_ns().map(Duration::from_nanos)
            }
            _ => None,
        }
    }
}

impl<S> Core<S> {
    /// Starts or queues a call that cannot be sent in one step. Returns its number.
    #[inline(never)]
    fn enqueue_late(
        &mut self,
        session: SessionId,
        call: Call<CallContext<S>>,
    ) -> Result<u64, Refused> {
        let (now, calls_max) = (self.now, self.config.backlog_max);
        let entry = self.clients.get_mut(session.index).expect("the session was just found");
        let client = ready(entry).expect("the session was just found ready");
        match client.enqueue(call, now) {
            Ok(enqueued) => {
                self.touch_client(session.index);
                Ok(enqueued.call)
            }
            Err(call) => {
                let error = EnqueueError::BacklogFull { calls_max };
                Err(Refused { request: call.context.request, error })
            }
        }
    }

    /// Arms the session's timer for a call that has just begun.
    #[cold]
    fn arm_call(&mut self, session: SessionId, timeout_at: Time) {
        self.arm_retransmission(session.index);
        self.arm(session, timeout_at);
    }

    /// Queues a bare header to a client session's peer.
    pub(crate) fn push_to_peer(&mut self, session: SessionId, header: Header) {
        if let Some(entry) = self.clients.get(session.index)
            && let ClientState::Ready { route, .. } = &entry.state
        {
            self.tx.push_bare(*route, header, &[]);
        }
    }
}

/// Why a request cannot be started on `session` now.
#[cold]
fn refuse<S>(core: &Core<S>, session: SessionId, request: MsgBuf) -> Refused {
    let entry = core.clients.get(session.index);
    let entry = entry.filter(|entry| entry.generation == session.generation);
    let bytes_max = core.config.request_bytes_in_flight_max;
    let error = match entry.map(|entry| &entry.state) {
        None => EnqueueError::NoSuchSession,
        Some(ClientState::Connecting) => EnqueueError::NotReady,
        Some(ClientState::Failed) => EnqueueError::SessionFailed,
        Some(ClientState::Ready { session, .. }) => {
            let limit = session.params().request_bytes_max;
            if request.len() > limit as usize {
                EnqueueError::TooLarge { bytes_max: limit }
            } else {
                EnqueueError::TooManyBytes { bytes_max }
            }
        }
    };
    Refused { request, error }
}
