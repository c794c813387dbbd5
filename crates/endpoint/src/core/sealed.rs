//! Short messages of sealed sessions, in one step (W27).

use petasos_base::Time;

use super::{CallContext, Core};
use crate::call::{CallId, CallSettings};
use crate::handler::RequestHandle;
use crate::secure::sealer;
use crate::sessions::{ClientState, SessionId};

impl<S> Core<S> {
    /// Starts a short call on a sealed session in one step.
    ///
    /// # Errors
    /// Returns the context if it is no such call.
    #[inline(never)]
    pub(crate) fn start_sealed(
        &mut self,
        session: SessionId,
        method: u16,
        context: CallContext<S>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, CallContext<S>> {
        let (now, bytes) = (self.now, context.request.len());
        let entry = self.clients.get_mut(session.index);
        let Some(entry) = entry.filter(|entry| entry.generation == session.generation) else {
            return Err(context);
        };
        let (Some(sealer), ClientState::Ready { session: client, route }) =
            (sealer(&mut entry.secure), &mut entry.state)
        else {
            return Err(context);
        };
        let options = CallSettings::of_call(settings, method, bytes, now);
        let sent = client.send_protected(options, context, now)?;
        let number = sent.call;
        self.tx.push_part(*route, sent.header, &sent.context.request, WHOLE, Some(sealer));
        if entry.needs_timer(now) || options.timeout_at != Time::NEVER {
            self.arm_call(session, options.timeout_at);
        }
        Ok(CallId { session, number })
    }

    /// Answers a request of a sealed session with a copy of `bytes` that is short enough for the
    /// slot to keep without a buffer. Returns false if it is no such request.
    pub(crate) fn respond_sealed(&mut self, handle: &RequestHandle, bytes: &[u8]) -> bool {
        let preallocated = self.switches.preallocated_responses;
        let Some(entry) = self.servers.get_mut(handle.session.index()) else { return false };
        let Some(sealer) = sealer(&mut entry.secure) else { return false };
        if entry.id != handle.session || !preallocated {
            return false;
        }
        let answered = entry.session.respond_protected(handle.request, bytes.len() as u32);
        let Some((header, kept)) = answered else { return false };
        kept.short_mut(bytes.len()).copy_from_slice(bytes);
        self.tx.push_part(entry.route, header, bytes, WHOLE, Some(sealer));
        true
    }
}

/// The part of a message that is the whole message.
const WHOLE: (u32, usize) = (0, usize::MAX);
