//! What handlers and continuations can do, and what the application can do between turns.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::{MsgBuf, PoolError};
use petasos_proto::{Call, CallOptions, Respond, Transmit};
use petasos_wire::{Header, RejectCode};

use crate::call::{
    CallContext, CallError, CallId, CallSettings, Continuation, EnqueueError, Refused,
};
use crate::core::{Core, ready};
use crate::handler::RequestHandle;
use crate::transmit::STAGED_PAYLOAD_BYTES_MAX;
use crate::config::EndpointConfig;
use crate::sessions::{ClientEntry, ClientState, SessionId, SessionState};

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
        let entry = core.clients.get_mut(session.index);
        let entry = match admit(entry, session, bytes, in_progress, &core.config) {
            Ok(entry) => entry,
            Err(error) => return Err(Refused { request, error }),
        };
        let ClientState::Ready { session: client, route } = &mut entry.state else {
            unreachable!("an admitted session is ready");
        };
        let limit = client.params().response_bytes_max;
        let timeout_at = settings.timeout.map_or(Time::NEVER, |timeout| now + timeout);
        let options = CallOptions {
            method,
            encoding: settings.encoding,
            request_bytes: bytes as u32,
            response_bytes_max: settings.response_bytes_max.map_or(limit, |max| max.min(limit)),
            timeout_at,
        };
        let context = CallContext { request, response: None, continuation, tag };
        let (enqueued, transmit) = match client.enqueue_and_send(Call { options, context }, now) {
            Ok(enqueued) => enqueued,
            Err(call) => {
                let error = EnqueueError::BacklogFull { calls_max: core.config.backlog_max };
                return Err(Refused { request: call.context.request, error });
            }
        };
        let number = enqueued.call;
        match transmit {
            Some(Transmit::Request { slot, header, .. }) if bytes <= STAGED_PAYLOAD_BYTES_MAX => {
                let request = &client.context_mut(slot).request;
                core.tx.push_staged(*route, header, request);
            }
            Some(Transmit::Request { slot, header, request, index }) => {
                client.context_mut(slot).request.write_header(index, &header.to_bytes());
                core.tx.push_request(*route, session.index, slot, request, index);
            }
            _ => core.touch_client(session.index),
        }
        if core.clients.get(session.index).is_some_and(|entry| entry.timer_at == Time::NEVER) {
            core.arm_retransmission(session.index);
        }
        core.request_bytes = in_progress;
        if timeout_at != Time::NEVER {
            core.arm(session, timeout_at);
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
            && entry.session.is_running(handle.slot, handle.request)
        {
            let kept = entry.session.buffer_mut(handle.slot);
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
        let RequestHandle { session: index, generation, slot, request } = handle;
        let entry = core.servers.get_mut(index).filter(|entry| entry.generation == generation);
        let Some(entry) = entry else { return core.pool.give(response) };
        match entry.session.respond(slot, request, response.len() as u32) {
            Respond::Send => {
                if let Some(old) = entry.session.buffer_mut(slot).replace(response) {
                    core.pool.give(old);
                }
                core.send_response(index, slot, 0, 1);
            }
            Respond::Stale => core.pool.give(response),
            Respond::TooLong => {
                core.pool.give(response);
                crate::receive::reject(core, index, slot, RejectCode::HandlerFailed);
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
        let (slot, request, len) = (handle.slot, handle.request, bytes.len() as u32);
        let Some((header, buf)) = entry.session.respond_in_place(slot, request, len, fits) else {
            return false;
        };
        buf.copy_from(bytes);
        core.tx.push_staged(entry.route, header, bytes);
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
        let core = &mut *self.core;
        let Some(entry) = core.servers.get_mut(handle.session) else { return };
        if entry.generation != handle.generation {
            return;
        }
        if let Some(transmit) = entry.session.reject(handle.slot, handle.request, code) {
            core.tx.push_bare(entry.route, transmit.header, &[]);
        }
    }

    /// Whether the call behind `handle` still waits for an answer; long work may look now and
    /// then.
    pub fn is_wanted(&self, handle: &RequestHandle) -> bool {
        let entry = self.core.servers.get(handle.session);
        entry.is_some_and(|entry| {
            entry.generation == handle.generation
                && entry.session.is_running(handle.slot, handle.request)
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
    /// Queues a bare header to a client session's peer.
    pub(crate) fn push_to_peer(&mut self, session: SessionId, header: Header) {
        if let Some(entry) = self.clients.get(session.index)
            && let ClientState::Ready { route, .. } = &entry.state
        {
            self.tx.push_bare(*route, header, &[]);
        }
    }
}

/// The entry of `session` if a request of `bytes` may be started on it now.
#[inline(always)]
fn admit<'a, S>(
    entry: Option<&'a mut ClientEntry<S>>,
    session: SessionId,
    bytes: usize,
    in_progress: usize,
    config: &EndpointConfig,
) -> Result<&'a mut ClientEntry<S>, EnqueueError> {
    let entry = entry.filter(|entry| entry.generation == session.generation);
    let entry = entry.ok_or(EnqueueError::NoSuchSession)?;
    let params = match &entry.state {
        ClientState::Ready { session, .. } => session.params(),
        ClientState::Connecting => return Err(EnqueueError::NotReady),
        ClientState::Failed => return Err(EnqueueError::SessionFailed),
    };
    if bytes > params.request_bytes_max as usize {
        return Err(EnqueueError::TooLarge { bytes_max: params.request_bytes_max });
    }
    let bytes_max = config.request_bytes_in_flight_max;
    if in_progress > bytes_max {
        return Err(EnqueueError::TooManyBytes { bytes_max });
    }
    Ok(entry)
}
