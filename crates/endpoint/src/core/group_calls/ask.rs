//! Asking for a worker: how calls to groups begin, their first packets, and how they end early.

use petasos_base::Time;
use petasos_proto::pairs::{AskError, Asking, AttachmentId, First, PAIR_BIT, PairId, Why};
use petasos_wire::{CLAIM_BYTES_MAX, Header, Kind, PAYLOAD_BYTES_MIN, PRIORITIES, RoutingBlock};

use super::{Asked, GroupCalls};
use crate::call::{CallError, CallId, CallSettings, EnqueueError, Refused};
use crate::core::{CallContext, Core, counted_bytes};
use crate::group::{GroupError, Routing};
use crate::mail::Mail;
use crate::sessions::SessionId;
use crate::tx_queue::Guard;

/// From this sending on, a long first packet may have been lost for its length (ADR 14).
const DOUBTFUL: u32 = 3;
/// Bits of a pair's index, in a call's number.
const INDEX_BITS: u32 = 20;

/// A call's number, which names its pair: no other pair of the endpoint has the same request.
fn number_of(pair: PairId) -> u64 {
    pair.request << INDEX_BITS | u64::from(pair.index)
}

fn pair_of(call: CallId) -> PairId {
    let index = call.number as u32 & ((1 << INDEX_BITS) - 1);
    PairId { index: index | PAIR_BIT, request: call.number >> INDEX_BITS }
}

impl<S> Core<S> {
    /// Begins a call to a group.
    ///
    /// # Errors
    /// The buffer, with the reason.
    #[inline(never)]
    pub(crate) fn enqueue_to_group(
        &mut self,
        session: SessionId,
        method: u16,
        context: CallContext<S>,
        settings: Option<&CallSettings>,
        routing: Routing,
    ) -> Result<CallId, Refused> {
        let (now, bytes) = (self.now, context.request.len());
        let attachment = match self.admit_to_group(session, bytes) {
            Ok(attachment) => attachment,
            Err(error) => return Err(Refused { request: context.request, error }),
        };
        let (id, calls_max) = (attachment.id, attachment.asked_max);
        let is_claim = !routing.is_idempotent || bytes > attachment.params.payload_bytes as usize;
        let options = CallSettings::of_call(settings, method, bytes, now);
        let asking = Asking { tag: self.tags.take(), is_claim, timeout_at: options.timeout_at };
        let context = Some(context);
        let asked = Asked { context, options, routing, is_claim, of: session };
        match self.group_calls_mut().pairs.ask(id, asking, asked) {
            Ok(pair) => {
                self.request_bytes += counted_bytes(bytes);
                self.list_group_calls();
                Ok(CallId { session, number: number_of(pair) })
            }
            Err((error, asked)) => {
                let request = asked.context.expect("it was just put there").request;
                let error = match error {
                    AskError::Full => EnqueueError::BacklogFull { calls_max },
                    _ => EnqueueError::SessionFailed,
                };
                Err(Refused { request, error })
            }
        }
    }

    /// The attachment, if it takes a request of `bytes` now.
    fn admit_to_group(
        &self,
        session: SessionId,
        bytes: usize,
    ) -> Result<&super::Attachment, EnqueueError> {
        let attachment = self.group_attachment(session).ok_or(EnqueueError::NoSuchSession)?;
        let limit = attachment.params.request_bytes_max;
        if bytes > limit as usize {
            return Err(EnqueueError::TooLarge { bytes_max: limit });
        }
        let bytes_max = self.config.request_bytes_in_flight_max;
        if self.request_bytes + counted_bytes(bytes) > bytes_max {
            return Err(EnqueueError::TooManyBytes { bytes_max });
        }
        Ok(attachment)
    }

    /// Sends first packets, and ends pairs that nobody has answered.
    #[inline(never)]
    pub(crate) fn pump_group_calls(&mut self) {
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        calls.is_listed = false;
        let now = self.now;
        while let Some(calls) = self.group_calls.as_deref_mut()
            && let Some(first) = calls.pairs.poll_first(now)
        {
            self.push_first(first);
        }
        self.end_over();
        self.note_group_timers();
    }

    /// Handles what is due of pairs.
    pub(crate) fn run_group_calls(&mut self) {
        let now = self.now;
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        calls.pairs.handle_timers(now);
        self.list_group_calls();
    }

    /// When pairs have something to do without a packet.
    pub(crate) fn group_calls_due(&self) -> Time {
        self.group_calls.as_deref().map_or(Time::NEVER, |calls| calls.pairs.next_due())
    }

    /// RT1, RT2.
    fn push_first(&mut self, first: First) {
        let Core { group_calls, tx, now, .. } = self;
        let calls = group_calls.as_deref_mut().expect("a pair of it asks");
        let GroupCalls { pairs, attachments, .. } = calls;
        let attachment = attachments.iter_mut().flatten().find(|it| it.id == first.attachment);
        let (Some(asked), Some(attachment)) = (pairs.context(first.pair), attachment) else {
            return;
        };
        let Some(context) = &asked.context else { return };
        let (options, routing) = (&asked.options, &asked.routing);
        let block = RoutingBlock {
            policy: routing.policy,
            priority: routing.priority.min(PRIORITIES - 1),
            is_claim: first.is_claim,
            reply: attachment.reply,
            client: attachment.client,
            epoch: first.epoch,
            pair: first.pair.index,
            pair_tag: first.tag,
            number: first.number,
            lifetime_us: lifetime_us(options.timeout_at, *now),
            key_hash: routing.key_hash,
        };
        let header = Header::for_session(attachment.client, attachment.tag)
            .with_request(Kind::Routed, first.pair.request, block.transmission())
            .with_client(0, options.request_bytes, options.method)
            .with_encoding(options.encoding);
        let request = &context.request;
        let bytes = request.len().min(if first.is_claim { CLAIM_BYTES_MAX } else { usize::MAX });
        let fill = |to: &mut [u8]| request.copy_range(0, to);
        let route = attachment.route;
        let (block, payload) = (block.to_bytes(), (bytes, fill));
        match attachment.keys.as_deref_mut() {
            None => tx.push_with_block(route, header, &block, payload, true, Guard::Checksum),
            Some(keys) => {
                let Some(sealer) = keys.first(first.epoch) else { return };
                let (header, guard) = (header.with_checksum(), Guard::First(sealer));
                tx.push_sealed(route, header, &block, payload, true, guard);
            }
        }
        if first.sendings >= DOUBTFUL && bytes > PAYLOAD_BYTES_MIN as usize {
            self.doubt_path(route);
        }
    }

    /// Ends the calls of pairs that have ended without an answer.
    pub(super) fn end_over(&mut self) {
        while let Some(calls) = self.group_calls.as_deref_mut()
            && let Some(over) = calls.pairs.poll_over()
        {
            let error = match over.why {
                Why::Timeout => CallError::Timeout,
                _ if over.has_not_run => CallError::NotSent,
                _ => CallError::PeerFailed,
            };
            if over.why == Why::Silence {
                self.note_silence(over.attachment);
            }
            self.end_asked(over.context, error);
        }
    }

    /// A pair has had no answer for long. Some of these at a time say that the router's packets go
    /// nowhere, whatever its control connection says.
    fn note_silence(&mut self, id: AttachmentId) {
        let now = self.now;
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        let there = calls.attachments.iter_mut().enumerate();
        let mut there = there.filter_map(|(at, it)| Some((at, it.as_mut()?)));
        let Some((at, attachment)) = there.find(|(_, it)| it.id == id) else { return };
        let session = SessionId::group(at as u32, id.0);
        if attachment.note_silence(now)
            && let Some(mailbox) = self.outside.mailbox()
        {
            // It is this endpoint's own.
            let _ = mailbox.post(Mail::GroupSilent { session });
        }
    }

    /// Ends the call of a pair that was not bound.
    pub(crate) fn end_asked(&mut self, asked: Asked<S>, error: CallError) {
        let context = asked.context.expect("the pair was not bound");
        self.finish_later(asked.of, context, error);
    }

    /// Cancels a call to a group. Returns whether there was such a call.
    pub(crate) fn cancel_in_group(&mut self, call: CallId, error: CallError) -> bool {
        let pair = pair_of(call);
        let Some(calls) = self.group_calls.as_deref_mut() else { return false };
        if calls.pairs.context(pair).is_none_or(|asked| asked.of != call.session) {
            return false;
        }
        if calls.pairs.bound(pair).is_some() {
            self.cancel_bound(pair.index, error);
        } else if let Some(asked) = calls.pairs.end(pair) {
            self.end_asked(asked, error);
        }
        true
    }

    /// Closes an attachment for good: its calls end, also those that are bound.
    pub(crate) fn close_group(&mut self, session: SessionId) {
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        for pair in calls.pairs.unended(|asked| asked.of == session) {
            let number = number_of(pair);
            self.cancel_in_group(CallId { session, number }, CallError::SessionClosed);
        }
        self.detach_group(session);
    }

    /// Pairs that ask by `from` ask by `to` (RT38).
    pub(crate) fn move_group_calls(
        &mut self,
        from: SessionId,
        to: SessionId,
    ) -> Result<(), GroupError> {
        let calls = self.group_calls.as_deref_mut().ok_or(GroupError::Unknown)?;
        let [from, to] = [from, to].map(|session| calls.attachment(session));
        let (from, to) = from.zip(to).ok_or(GroupError::Unknown)?;
        // A request that went whole would not fit, or its sessions would cut it differently.
        if from.params.payload_bytes != to.params.payload_bytes {
            return Err(GroupError::OtherGroup);
        }
        let (from, to) = (from.id, to.id);
        calls.pairs.move_asked(from, to);
        self.list_group_calls();
        Ok(())
    }
}

/// RT6: the time left; `None` if there is no limit, or the number has no room for it.
fn lifetime_us(timeout_at: Time, now: Time) -> Option<u32> {
    if timeout_at == Time::NEVER {
        return None;
    }
    u32::try_from((timeout_at - now).as_micros()).ok()
}
