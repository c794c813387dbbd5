//! The sessions of pairs that are bound: binding, sending, timers and ends.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_netio::Route;
use petasos_proto::pairs::{PAIR_BIT, PairId, WorkerSession};
use petasos_proto::{Binding, Call, ClientSession, SessionParams, Transmit};
use petasos_wire::{Header, Kind, Packet, RejectCode};

use super::{Bound, GroupCalls};
use crate::call::CallError;
use crate::core::half::Half;
use crate::core::transmit::is_staged;
use crate::core::{CallContext, Core};
use crate::sealed_links::SealId;
use crate::sessions::SessionId;
use crate::timers::TimerEntry;

/// A bound pair of which nothing is heard for so long has failed (RT14).
const SILENCE: Duration = Duration::from_secs(2);

impl<S> Core<S> {
    /// A pair has just been bound to a session of a worker, by ready with its credits or by a
    /// response (RT12).
    pub(crate) fn bind_pair(
        &mut self,
        packet: &Packet<'_>,
        worker: WorkerSession,
        credits: Option<u32>,
        seal: Option<SealId>,
    ) {
        let (now, generation) = (self.now, self.next_generation());
        let pair = PairId { index: packet.session(), request: packet.request() };
        let calls = self.group_calls_mut();
        let attachment = calls.attachment_by_id(worker.member.attachment);
        let attachment = attachment.expect("it was just looked up to find out who sends");
        let link = attachment.link(worker.member.worker).expect("likewise");
        let names = SessionNames { worker, tag: packet.tag() };
        let (params, congestion) = (names.put_into(attachment.params), attachment.congestion);
        let asked = calls.pairs.context(pair).expect("it has just been bound");
        let (options, of, is_whole) = (asked.options, asked.of, !asked.is_claim);
        let context = asked.context.take().expect("it was not bound before");
        let mut bound = calls.spare.pop().unwrap_or_else(|| {
            let session = ClientSession::for_pairs(params, &congestion);
            Box::new(Bound {
                session,
                pair,
                of,
                worker,
                link,
                seal,
                is_claim: false,
                generation,
                heard_at: now,
                dirty: false,
                parked: false,
                timer_at: Time::NEVER,
                rearm_before: Time::NEVER,
            })
        });
        let at_link = calls.links.get_mut(link);
        at_link.pairs += 1;
        let binding = Binding { request: pair.request, is_whole, credits };
        let call = Call { options, context };
        bound.session.bind(params, &mut at_link.path, binding, call, now);
        (bound.pair, bound.of, bound.worker) = (pair, of, worker);
        (bound.link, bound.seal) = (link, seal);
        (bound.generation, bound.heard_at, bound.is_claim) = (generation, now, !is_whole);
        (bound.dirty, bound.parked) = (false, false);
        bound.set_timer(Time::NEVER);
        let place = (pair.index & !PAIR_BIT) as usize;
        if calls.bound.len() <= place {
            calls.bound.resize_with(place + 1, || None);
        }
        calls.bound[place] = Some(bound);
        self.arm_bound(pair.index, options.timeout_at.min(now + SILENCE));
        self.touch_bound(pair.index);
    }

    /// Puts a bound pair on the dirty list.
    #[inline]
    pub(crate) fn touch_bound(&mut self, index: u32) {
        let calls = self.group_calls.as_deref_mut();
        if let Some(bound) = calls.and_then(|calls| calls.bound_mut(index))
            && !bound.dirty
        {
            bound.dirty = true;
            self.dirty_clients.push(index);
        }
    }

    /// Takes the packets that the session of a pair has to send.
    #[inline(never)]
    pub(crate) fn pump_bound(&mut self, index: u32) {
        let Core { group_calls, tx, now, .. } = self;
        let Some(GroupCalls { bound, links, sealed, .. }) = group_calls.as_deref_mut() else {
            return;
        };
        let place = index.checked_sub(PAIR_BIT).and_then(|at| bound.get_mut(at as usize));
        let Some(bound) = place.and_then(|place| place.as_deref_mut()) else { return };
        bound.dirty = false;
        let link = links.get(bound.link);
        let (session, route) = (&mut bound.session, link.route);
        session.share(&link.path);
        let mut sealed = bound.seal.map(|seal| sealed.get_mut(seal));
        if let Some(sealed) = &sealed {
            session.number_after(sealed.last);
        }
        while let Some(transmit) = session.poll_transmit(*now) {
            // It has opened a packet, so it is made.
            let half = sealed.as_deref_mut().map(|it| it.half().expect("the link is made"));
            let sealer = half.map(|half| &mut half.sealer);
            match transmit {
                Transmit::Bare(header) => tx.push_bare(route, header, &[], sealer),
                Transmit::Request { slot, request, index: packet, header } => {
                    let payload_bytes = session.params().payload_bytes as usize;
                    let buf = &mut session.context_mut(slot).request;
                    if is_staged(buf.len(), &header) || buf.is_shared() {
                        let part = (packet, payload_bytes);
                        tx.push_buffer_part(route, header, buf, part, sealer);
                        continue;
                    }
                    buf.write_header(packet, payload_bytes, &header.to_bytes());
                    tx.push_request(route, index, slot, request, packet);
                }
            }
        }
        if let Some(sealed) = &mut sealed {
            sealed.last = session.transmission();
        }
        let next_send = session.next_send();
        let timer_at = now.plus_nanos(session.timer_ns());
        if session.busy() > 0 && *now < bound.rearm_before {
            self.arm_bound(index, timer_at);
        }
        if next_send != Time::NEVER {
            self.park_bound(index, next_send);
        }
    }

    /// The bytes of packet `packet` of a bound pair's request, unless it has ended.
    pub(crate) fn bound_packet(
        &self,
        index: u32,
        (slot, request): (u32, u64),
        packet: u32,
    ) -> Option<(&[u8], &[u8])> {
        let session = &self.group_calls.as_deref()?.bound(index)?.session;
        let context = session.context_of(slot, request)?;
        Some(context.request.packet(packet, session.params().payload_bytes as usize))
    }

    /// Makes the timer of a bound pair fire no later than `at`.
    fn arm_bound(&mut self, index: u32, at: Time) {
        let Core { group_calls, timers, .. } = self;
        let calls = group_calls.as_deref_mut();
        if let Some(bound) = calls.and_then(|calls| calls.bound_mut(index))
            && at < bound.timer_at
        {
            let generation = bound.generation;
            bound.set_timer(timers.arm(at, TimerEntry { index, generation }));
        }
    }

    fn park_bound(&mut self, index: u32, at: Time) {
        let Core { group_calls, paced, now, stats, .. } = self;
        let calls = group_calls.as_deref_mut();
        if let Some(bound) = calls.and_then(|calls| calls.bound_mut(index))
            && !bound.parked
        {
            bound.parked = true;
            paced.insert(*now, at, TimerEntry { index, generation: bound.generation });
            stats.sessions_parked += 1;
        }
    }

    fn bound_of(&mut self, timer: TimerEntry) -> Option<&mut Bound<S>> {
        let bound = self.group_calls.as_deref_mut()?.bound_mut(timer.index)?;
        (bound.generation == timer.generation).then_some(bound)
    }

    /// The pace of a bound pair lets it send again.
    pub(crate) fn unpark_bound(&mut self, timer: TimerEntry) {
        if let Some(bound) = self.bound_of(timer) {
            bound.parked = false;
            self.touch_bound(timer.index);
        }
    }

    /// The timer of a bound pair has fired.
    #[cold]
    pub(crate) fn on_bound_timer(&mut self, timer: TimerEntry) {
        let (now, index) = (self.now, timer.index);
        let Some(bound) = self.bound_of(timer) else { return };
        if bound.timer_at > now {
            return;
        }
        bound.set_timer(Time::NEVER);
        let link = bound.link;
        if now >= bound.heard_at + SILENCE {
            return self.fail_bound(index);
        }
        bound.session.handle_timeout(now);
        if let Some(expired) = bound.session.poll_expired(now) {
            let of = bound.of;
            if let Some(cancel) = expired.cancel {
                self.push_to_worker(index, cancel);
            }
            self.finish_bound_call(index, of, expired.context, CallError::Timeout);
            return self.end_bound(index);
        }
        let next = bound.session.next_timeout().min(bound.heard_at + SILENCE);
        if bound.session.long_packets_vanish() {
            let route = self.group_calls_mut().link(link).route;
            self.doubt_path(route);
        }
        self.touch_bound(index);
        self.arm_bound(index, next);
    }

    /// Queues a header without payload to the worker of a bound pair.
    pub(crate) fn push_to_worker(&mut self, index: u32, header: Header) {
        let Some(calls) = self.group_calls.as_deref() else { return };
        if let Some(bound) = calls.bound(index) {
            let (route, seal) = (calls.link(bound.link).route, bound.seal);
            self.push_bare_by_link(route, header, seal);
        }
    }

    /// Tells a session of a worker, to which no pair is bound, that nobody waits for it, or that
    /// its answer has come.
    pub(crate) fn tell_worker(
        &mut self,
        to: WorkerSession,
        seal: Option<SealId>,
        kind: Kind,
        request: u64,
    ) {
        let Some(calls) = self.group_calls.as_deref() else { return };
        let attachment = calls.attachment_by_id(to.member.attachment);
        if let Some(link) = attachment.and_then(|it| it.link(to.member.worker)) {
            let header = Header::for_session(to.session, to.tag).with_request(kind, request, 0);
            let route = calls.link(link).route;
            self.push_bare_by_link(route, header, seal);
        }
    }

    fn push_bare_by_link(&mut self, route: Route, header: Header, seal: Option<SealId>) {
        let Core { group_calls, tx, .. } = self;
        let Some(seal) = seal else { return tx.push_bare(route, header, &[], None) };
        let Some(calls) = group_calls.as_deref_mut() else { return };
        if let Some((header, sealer)) = calls.sealed.get_mut(seal).next(header) {
            tx.push_bare(route, header, &[], Some(sealer));
        }
    }

    /// The response of a bound pair has several packets: memory for it, and a part of the link.
    /// `None` if there is no memory for it.
    pub(crate) fn begin_bound_response(&mut self, index: u32, bytes: u32) -> Option<MsgBuf> {
        let calls = self.group_calls.as_deref_mut()?;
        let link = calls.bound(index)?.link;
        let holder = calls.link(link).holder;
        let buf = self.take_announced(holder, bytes)?;
        let GroupCalls { bound, links, .. } = self.group_calls_mut();
        let bound = bound[(index & !PAIR_BIT) as usize].as_deref_mut().expect("it was just found");
        bound.session.join(&mut links.get_mut(link).path);
        Some(buf)
    }

    /// A packet of a bound pair's long response has come: the link has a share of the receive queue
    /// (W26).
    pub(crate) fn share_with_link(&mut self, index: u32) {
        let calls = self.group_calls.as_deref_mut();
        let Some(link) = calls.and_then(|calls| Some(calls.bound(index)?.link)) else { return };
        let path = &mut self.group_calls_mut().links.get_mut(link).path;
        path.on_arrival();
        let membership = path.membership();
        if !self.share.has(membership) {
            self.share_with(Half::Link(link));
        }
    }

    /// Forgets a bound pair's response that is complete or given up.
    pub(crate) fn forget_bound_response(&mut self, index: u32, response: &MsgBuf) {
        let Some(calls) = self.group_calls.as_deref() else { return };
        if let Some(bound) = calls.bound(index) {
            let holder = calls.link(bound.link).holder;
            self.forget_announced(holder, response.len());
        }
    }

    /// Ends a bound pair whose session has returned its call after the whole response, or a
    /// rejection, with *done* (RT12).
    pub(crate) fn finish_bound(&mut self, index: u32) {
        let calls = self.group_calls.as_deref_mut();
        if let Some(bound) = calls.and_then(|calls| calls.bound_mut(index)) {
            let done = bound.session.done(0);
            self.push_to_worker(index, done);
            self.end_bound(index);
        }
    }

    /// A bound pair has ended; its session has no call.
    pub(crate) fn end_bound(&mut self, index: u32) {
        let GroupCalls { pairs, bound, links, spare, .. } = self.group_calls_mut();
        let place = bound.get_mut((index & !PAIR_BIT) as usize);
        let Some(mut ended) = place.and_then(Option::take) else { return };
        let link = links.get_mut(ended.link);
        ended.session.leave(&mut link.path);
        link.pairs -= 1;
        pairs.end(ended.pair).expect("a bound pair has not ended");
        let link = ended.link;
        spare.push(ended);
        self.drop_unused(link);
    }

    /// A bound pair fails: its worker has gone or is silent (RT14).
    pub(crate) fn fail_bound(&mut self, index: u32) {
        let calls = self.group_calls.as_deref_mut();
        let Some(bound) = calls.and_then(|calls| calls.bound_mut(index)) else { return };
        let (of, is_claim) = (bound.of, bound.is_claim);
        let failed: Vec<(CallContext<S>, bool)> = bound.session.fail_all();
        for (context, was_sent) in failed {
            let error = match is_claim && !was_sent {
                true => CallError::NotSent,
                false => CallError::PeerFailed,
            };
            self.finish_bound_call(index, of, context, error);
        }
        self.end_bound(index);
    }

    /// Ends the call of a bound pair without a response. Its response, if there is a part of it, is
    /// counted for the link, which the pair still has.
    pub(crate) fn finish_bound_call(
        &mut self,
        index: u32,
        of: SessionId,
        mut context: CallContext<S>,
        error: CallError,
    ) {
        if let Some(response) = context.response.take() {
            let response = self.response_boxes.take(response);
            self.forget_bound_response(index, &response);
            self.pool.give(response);
        }
        self.finish_later(of, context, error);
    }

    /// Cancels the call of a bound pair, and tells its worker.
    pub(crate) fn cancel_bound(&mut self, index: u32, error: CallError) {
        let calls = self.group_calls.as_deref_mut();
        let Some(bound) = calls.and_then(|calls| calls.bound_mut(index)) else { return };
        let (of, number) = (bound.of, bound.session.call_in(0));
        let Some(ended) = bound.session.cancel(number) else { return };
        if let Some(cancel) = ended.cancel {
            self.push_to_worker(index, cancel);
        }
        self.finish_bound_call(index, of, ended.context, error);
        self.end_bound(index);
    }

    /// Why a bound pair's call fails that its worker's session has rejected (RT14, RT15): the code
    /// of a whole request says nothing about its repetitions, which others may have run.
    pub(crate) fn bound_error(&self, index: u32, code: Option<RejectCode>) -> CallError {
        let bound = self.group_calls.as_deref().and_then(|calls| calls.bound(index));
        let error = CallError::from_reject(code);
        // Of a router these codes are certain; of a session they are what a handler says.
        let says_nothing =
            matches!(error, CallError::QueueFull | CallError::NoWorker | CallError::UnknownPolicy);
        let is_certain = bound.is_some_and(|bound| bound.is_claim) && !says_nothing;
        match is_certain || !error.retry_is_safe() {
            true => error,
            false => CallError::RejectedOtherwise,
        }
    }
}

/// What the ends of a pair's session call it.
struct SessionNames {
    worker: WorkerSession,
    /// The pair's.
    tag: u32,
}

impl SessionNames {
    fn put_into(&self, params: SessionParams) -> SessionParams {
        let WorkerSession { session, tag, .. } = self.worker;
        SessionParams { peer_session: session, peer_tag: tag, local_tag: self.tag, ..params }
    }
}
