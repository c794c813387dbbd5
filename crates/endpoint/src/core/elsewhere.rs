//! Calls and requests whose sessions are in no table: those of groups, and external ones.

use petasos_buf::MsgBuf;
use petasos_proto::taken::TakenId;
use petasos_wire::RejectCode;

use super::{CallContext, Core};
use crate::call::{CallError, CallId, CallSettings, Refused};
use crate::external::ExternalAnswer;
use crate::group::Routing;
use crate::handler::{Payload, RequestHandle};
use crate::sessions::SessionId;

impl<S> Core<S> {
    /// Begins a call in a session that is in no table.
    #[cold]
    pub(super) fn enqueue_elsewhere(
        &mut self,
        session: SessionId,
        method: u16,
        context: CallContext<S>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, Refused> {
        match session.is_group() {
            true => self.enqueue_to_group(session, method, context, settings, Routing::default()),
            false => self.enqueue_external(session, method, context, settings),
        }
    }

    /// Ends such a call. Returns whether there was one.
    #[cold]
    pub(super) fn end_elsewhere(&mut self, call: CallId, error: CallError) -> bool {
        match call.session.is_group() {
            true => self.cancel_in_group(call, error),
            false => self.end_external(call, error),
        }
    }

    /// Answers a request whose session is in no table.
    #[inline(never)]
    pub(super) fn answer_elsewhere(&mut self, handle: &RequestHandle, response: MsgBuf) {
        match handle.session.is_group() {
            true => self.answer_taken(handle, Payload::Buffer(response)),
            false => self.answer_external(handle, ExternalAnswer::Response(response)),
        }
    }

    /// Declines to answer such a request.
    #[cold]
    pub(crate) fn reject_elsewhere(&mut self, handle: &RequestHandle, code: RejectCode) {
        match handle.session.is_group() {
            true => self.reject_taken(TakenId::from_bits(handle.request), code),
            false => self.answer_external(handle, ExternalAnswer::Rejected(code)),
        }
    }
}
