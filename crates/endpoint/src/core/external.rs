//! External sessions: their state, and what their carrier can do (see [`crate::external`]).
//!
//! Invariants: each call that was begun is finished once, by the carrier or by what
//! [`ExternalEvent::Cancel`] tells it of. An answer is passed on if its request is still running.
//! All of this is off the path of packets: it is reached where a session is in no table.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_proto::{Recovery, SessionParams};
use petasos_wire::RejectCode;

use super::{CallContext, Context, Core, counted_bytes};
use crate::call::{CallError, CallId, CallSettings, Completion, EnqueueError, Refused};
use crate::error::SessionError;
use crate::external::{ExternalAnswer, ExternalEvent, ExternalLimits, Named};
use crate::handler::{Payload, Request, RequestHandle, RequestKey, ServerSessionId};
use crate::sessions::{SessionId, SessionState};

/// Deadlines are looked at so often.
const TICK_NS: u64 = 1_000_000;

/// A client's session.
struct Client {
    id: SessionId,
    state: SessionState,
    params: SessionParams,
}

/// A call that its carrier has.
struct Carried<S> {
    session: SessionId,
    context: CallContext<S>,
    timeout_at: Time,
}

pub(crate) struct External<S> {
    /// By place.
    clients: Vec<Option<Client>>,
    calls: Named<Carried<S>>,
    /// No call is late before this time.
    late_at: Time,
    server: Option<(ServerSessionId, SessionParams)>,
    /// Requests that were delivered and not answered, by what the carrier calls them.
    requests: Named<u64>,
    events: VecDeque<ExternalEvent>,
}

impl<S> Default for External<S> {
    fn default() -> External<S> {
        External {
            clients: Vec::new(),
            calls: Named::default(),
            late_at: Time::NEVER,
            server: None,
            requests: Named::default(),
            events: VecDeque::new(),
        }
    }
}

impl<S> External<S> {
    fn client(&self, id: SessionId) -> Option<&Client> {
        let at = id.is_external().then(|| id.place())?;
        self.clients.get(at)?.as_ref().filter(|client| client.id == id)
    }

    fn client_mut(&mut self, id: SessionId) -> Option<&mut Client> {
        let at = id.is_external().then(|| id.place())?;
        self.clients.get_mut(at)?.as_mut().filter(|client| client.id == id)
    }

    /// Requests without answers, and calls that have not ended.
    pub(crate) fn unfinished(&self) -> (usize, usize) {
        (self.requests.len(), self.calls.len())
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.clients.iter().flatten().map(|client| client.id).collect()
    }
}

fn params_of(limits: ExternalLimits) -> SessionParams {
    SessionParams {
        peer_session: 0,
        peer_tag: 0,
        local_tag: 0,
        slots: limits.slots,
        credits: 1,
        credits_max: 1,
        room_packets: 1,
        payload_bytes: limits.message_bytes_max,
        request_bytes_max: limits.message_bytes_max,
        response_bytes_max: limits.message_bytes_max,
        recovery: Recovery::Selective,
        checksum: false,
    }
}

impl<S> Core<S> {
    /// Begins a call in a session that is in no table: an external one, if it exists.
    #[cold]
    pub(super) fn enqueue_external(
        &mut self,
        session: SessionId,
        method: u16,
        context: CallContext<S>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, Refused> {
        let refuse =
            |context: CallContext<S>, error| Err(Refused { request: context.request, error });
        let bytes = context.request.len();
        let in_progress = self.request_bytes + counted_bytes(bytes);
        let bytes_max = self.config.request_bytes_in_flight_max;
        let Some(client) = self.external.client(session) else {
            return refuse(context, EnqueueError::NoSuchSession);
        };
        let limit = client.params.request_bytes_max;
        match client.state {
            SessionState::Ready if bytes > limit as usize => {
                return refuse(context, EnqueueError::TooLarge { bytes_max: limit });
            }
            SessionState::Ready if in_progress > bytes_max => {
                return refuse(context, EnqueueError::TooManyBytes { bytes_max });
            }
            SessionState::Ready => {}
            SessionState::Connecting => return refuse(context, EnqueueError::NotReady),
            _ => return refuse(context, EnqueueError::SessionFailed),
        }
        let timeout_at = CallSettings::of_call(settings, method, bytes, self.now).timeout_at;
        self.request_bytes = in_progress;
        let external = &mut self.external;
        external.late_at = external.late_at.min(timeout_at);
        self.others_at = self.others_at.min(timeout_at);
        let number = external.calls.add(Carried { session, context, timeout_at });
        let call = CallId { session, number };
        external.events.push_back(ExternalEvent::Call { call, method });
        Ok(call)
    }

    /// Ends a call that its carrier has, and tells it so. Returns whether there was such a call.
    #[cold]
    pub(super) fn end_external(&mut self, call: CallId, error: CallError) -> bool {
        let Some(carried) = self.external.calls.take(call.number) else { return false };
        self.external.events.push_back(ExternalEvent::Cancel(call));
        self.finish_later(call.session, carried.context, error);
        true
    }

    /// Ends the calls that are late.
    #[cold]
    pub(super) fn expire_external(&mut self) {
        let now = self.now;
        if self.external.late_at > now {
            return;
        }
        for number in self.external.calls.names(|carried| carried.timeout_at <= now) {
            let session = self.external.calls.get(number).expect("it is late").session;
            self.end_external(CallId { session, number }, CallError::Timeout);
        }
        let mut next = Time::NEVER;
        for (_, carried) in self.external.calls.iter() {
            next = next.min(carried.timeout_at);
        }
        // Not more often than once per tick.
        let tick = now + core::time::Duration::from_nanos(TICK_NS);
        self.external.late_at = if next == Time::NEVER { next } else { next.max(tick) };
    }

    /// When [`Core::expire_external`] has something to do.
    pub(super) fn external_due(&self) -> Time {
        self.external.late_at
    }

    /// Ends all calls of an external session.
    pub(crate) fn fail_external(&mut self, session: SessionId, error: CallError) {
        for number in self.external.calls.names(|carried| carried.session == session) {
            self.end_external(CallId { session, number }, error);
        }
        if let Some(client) = self.external.client_mut(session) {
            client.state = SessionState::Failed;
        }
    }

    /// Forgets an external session, if there is one with this name.
    #[cold]
    pub(crate) fn close_external(&mut self, session: SessionId) {
        if self.external.client(session).is_some() {
            self.fail_external(session, CallError::SessionClosed);
            self.external.clients[session.place()] = None;
            self.external.events.push_back(ExternalEvent::Closed(session));
        }
    }

    /// Passes an answer to the carrier, if its request came from there and is still running.
    #[cold]
    pub(super) fn answer_external(&mut self, handle: &RequestHandle, answer: ExternalAnswer) {
        let number =
            handle.session.is_external().then(|| self.external.requests.take(handle.request));
        match (number.flatten(), answer) {
            (Some(number), answer) => {
                self.external.events.push_back(ExternalEvent::Answer(number, answer));
            }
            (None, ExternalAnswer::Response(response)) => self.pool.give(response),
            (None, ExternalAnswer::Rejected(_)) => {}
        }
    }

    pub(super) fn is_external_running(&self, handle: &RequestHandle) -> bool {
        handle.session.is_external() && self.external.requests.get(handle.request).is_some()
    }

    pub(crate) fn external_state(&self, session: SessionId) -> SessionState {
        self.external.client(session).map_or(SessionState::Unknown, |client| client.state)
    }

    pub(crate) fn external_params(&self, session: SessionId) -> Option<SessionParams> {
        let client = self.external.client(session)?;
        (client.state == SessionState::Ready).then_some(client.params)
    }

    pub(crate) fn external_served(&self, session: ServerSessionId) -> Option<SessionParams> {
        let (id, params) = self.external.server.as_ref()?;
        (*id == session).then_some(*params)
    }
}

impl<S> Context<S> {
    /// Makes an external session, which is connecting.
    pub fn open_external(&mut self, limits: ExternalLimits) -> SessionId {
        let generation = self.core.next_generation();
        let clients = &mut self.core.external.clients;
        let free = clients.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            clients.push(None);
            clients.len() - 1
        });
        let id = SessionId::external(place as u32, generation);
        let (state, params) = (SessionState::Connecting, params_of(limits));
        clients[place] = Some(Client { id, state, params });
        id
    }

    /// Notes that an external session is ready for calls. No effect if it was closed or has failed.
    pub fn establish_external(&mut self, session: SessionId) {
        if let Some(client) = self.core.external.client_mut(session)
            && client.state == SessionState::Connecting
        {
            client.state = SessionState::Ready;
        }
    }

    /// Notes that an external session cannot be set up, or has failed: its calls end as those of a
    /// peer that has failed.
    pub fn fail_external(&mut self, session: SessionId, why: &str) {
        if self.core.external.client(session).is_some() {
            let error = SessionError::Carrier(Arc::from(why));
            self.core.outside.errors.insert(session, error);
            self.core.fail_external(session, CallError::PeerFailed);
        }
    }

    /// The next thing that the carrier has to do.
    pub fn poll_external(&mut self) -> Option<ExternalEvent> {
        self.core.external.events.pop_front()
    }

    /// Whether the carrier has something to do.
    #[inline]
    pub fn has_external(&self) -> bool {
        !self.core.external.events.is_empty()
    }

    /// The request of a call that was begun and is not over.
    pub fn external_request(&self, call: CallId) -> Option<&MsgBuf> {
        self.core.external.calls.get(call.number).map(|carried| &carried.context.request)
    }

    /// Ends a call with its outcome: its continuation runs here. Does nothing if the call is over.
    pub fn finish_external(
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
        result: Result<Payload<'_>, CallError>,
    ) {
        let core = &mut cx.core;
        let Some(Carried { context, session, .. }) = core.external.calls.take(call.number) else {
            if let Ok(Payload::Buffer(buf)) = result {
                core.pool.give(buf);
            }
            return;
        };
        let CallContext { request, continuation, tag, .. } = context;
        core.request_bytes -= counted_bytes(request.len());
        let completion = Completion { tag, session, request, result };
        // A panic is the application's; its carrier goes on.
        let run = AssertUnwindSafe(|| continuation(state, cx, completion));
        if catch_unwind(run).is_err() {
            cx.core.stats.panics += 1;
        }
    }

    /// Makes the session in which the carrier delivers requests. An earlier one ends: its requests
    /// are abandoned.
    pub fn serve_external(&mut self, limits: ExternalLimits) -> ServerSessionId {
        self.end_served_external();
        let id = ServerSessionId::external(self.core.next_generation());
        self.core.external.server = Some((id, params_of(limits)));
        id
    }

    /// Ends the session in which the carrier delivers requests.
    pub fn end_served_external(&mut self) {
        let Some((session, _)) = self.core.external.server.take() else { return };
        for request in self.core.external.requests.names(|_| true) {
            self.core.external.requests.take(request);
            self.core.abandoned.push(session.key(request));
        }
    }

    /// Delivers a request, which runs its handler. `number` is what the carrier calls it.
    pub fn deliver_external(
        state: &mut S,
        cx: &mut Context<S>,
        number: u64,
        method: u16,
        payload: Payload<'_>,
    ) -> Option<RequestKey> {
        let (session, _) = cx.core.external.server?;
        let request = cx.core.external.requests.add(number);
        let handle = RequestHandle { session, request };
        let key = handle.key();
        match cx.core.handlers.get(usize::from(method)).copied() {
            Some(handler) => {
                let request = Request { handle, method, payload };
                let run = AssertUnwindSafe(|| handler(state, cx, request));
                if catch_unwind(run).is_err() {
                    cx.core.stats.panics += 1;
                    let handle = RequestHandle { session, request: key.request };
                    cx.reject(handle, RejectCode::HandlerFailed);
                }
            }
            None => cx.reject(handle, RejectCode::UnknownMethod),
        }
        Some(key)
    }

    /// Whether a delivered request has neither been answered nor abandoned.
    pub fn is_external_running(&self, key: RequestKey) -> bool {
        self.is_wanted(&RequestHandle { session: key.session, request: key.request })
    }

    /// The caller wants no answer to a request any more.
    pub fn abandon_external(&mut self, key: RequestKey) {
        if key.session.is_external() && self.core.external.requests.take(key.request).is_some() {
            self.core.abandoned.push(key);
        }
    }
}
