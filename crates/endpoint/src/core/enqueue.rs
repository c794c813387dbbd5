//! Calls that are not sent in one step: they have to wait, or are long.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_proto::{Call, CallOptions};

use super::{CallContext, Core, SHORT_REQUEST_BYTES_MAX, counted_bytes};
use crate::call::{CallId, CallSettings, EnqueueError, Refused};
use crate::sessions::{ClientState, SessionId};

impl<S> Core<S> {
    /// Queues a short call that was not sent in one step on a session that is ready. It lacks a
    /// slot or credits, unless the session has checksums or seals.
    #[inline(never)]
    pub(super) fn enqueue_waiting(
        &mut self,
        id: SessionId,
        call: Call<CallContext<S>>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, Refused> {
        let CallOptions { method, request_bytes, timeout_at, .. } = call.options;
        let (now, calls_max) = (self.now, self.config.backlog_max);
        let entry = self.clients.get_mut(id.index).expect("the session was just found");
        let (client, _) = entry.state.ready().expect("the session was just found ready");
        if !client.sends_short(request_bytes) {
            return self.enqueue_any(id, method, call.context, settings);
        }
        match client.enqueue(call, now) {
            Ok(enqueued) => Ok(self.await_turn(id, enqueued.call, timeout_at)),
            Err(call) => Err(Refused::full(call, calls_max)),
        }
    }

    /// Notes that a call was queued. When its session sends, that arms the timer.
    fn await_turn(&mut self, session: SessionId, number: u64, timeout_at: Time) -> CallId {
        self.touch_client(session.index);
        if timeout_at != Time::NEVER {
            self.arm(session, timeout_at);
        }
        CallId { session, number }
    }

    /// Starts or queues a call of any size on a session in any state.
    #[inline(never)]
    pub(super) fn enqueue_any(
        &mut self,
        session: SessionId,
        method: u16,
        mut context: CallContext<S>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, Refused> {
        let (now, bytes) = (self.now, context.request.len());
        if bytes <= SHORT_REQUEST_BYTES_MAX {
            context = match self.start_sealed(session, method, context, settings) {
                Ok(call) => return Ok(call),
                Err(context) => context,
            };
        }
        let in_progress = self.request_bytes + counted_bytes(bytes);
        let within = in_progress <= self.config.request_bytes_in_flight_max;
        let entry = self.clients.get_mut(session.index);
        let entry = entry.filter(|entry| within && entry.generation == session.generation);
        let Some((client, route)) = entry.and_then(|entry| entry.state.ready()) else {
            if session.is_external() || session.is_group() {
                return self.enqueue_elsewhere(session, method, context, settings);
            }
            return Err(refuse(self, session, context.request));
        };
        if bytes > client.params().request_bytes_max as usize {
            return Err(refuse(self, session, context.request));
        }
        let options = CallSettings::of_call(settings, method, bytes, now);
        if bytes > SHORT_REQUEST_BYTES_MAX {
            context = match client.send_short(options, context, now) {
                Ok(sent) => {
                    sent.context.request.write_header(0, bytes, &sent.header.to_bytes());
                    self.tx.push_request(route, session.index, sent.slot, sent.request, 0);
                    let number = sent.call;
                    return Ok(self.enqueued(session, number, bytes, options.timeout_at));
                }
                Err(context) => context,
            };
        }
        match client.enqueue(Call { options, context }, now) {
            Ok(enqueued) => {
                self.request_bytes += counted_bytes(bytes);
                Ok(self.await_turn(session, enqueued.call, options.timeout_at))
            }
            Err(call) => Err(Refused::full(call, self.config.backlog_max)),
        }
    }

    fn enqueued(
        &mut self,
        session: SessionId,
        number: u64,
        request_bytes: usize,
        timeout_at: Time,
    ) -> CallId {
        self.request_bytes += counted_bytes(request_bytes);
        self.arm_call(session, timeout_at);
        CallId { session, number }
    }

    /// Arms the session's timer for a call that has just begun.
    #[cold]
    pub(crate) fn arm_call(&mut self, session: SessionId, timeout_at: Time) {
        self.arm_retransmission(session.index);
        self.arm(session, timeout_at);
    }
}

impl Refused {
    #[cold]
    fn full<S>(call: Call<CallContext<S>>, calls_max: u32) -> Refused {
        Refused { request: call.context.request, error: EnqueueError::BacklogFull { calls_max } }
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
