//! Unary messages of callers and servers without a native layout (R4).

use petasos_abi::Request;
use petasos_call::{Code, Encoding};
use petasos_endpoint::{CallId, Context, Payload};

use super::Carrier;
use super::receive::End;
use super::request_numbers::unary_number;
use crate::convert::Meant;
use crate::frames::{frame, request_head, response_head, status_frame};
use crate::link::LinkError;

impl Carrier {
    /// Ends a unary call of this process, whose response is to be protobuf.
    pub(super) fn finish_bytes<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
        end: &End,
        meant: Meant,
    ) -> Result<(), LinkError> {
        let (message, tail) = (self.take(end.message)?, self.take(end.metadata)?);
        let head = response_head(Encoding::Protobuf, !tail.is_empty(), end.code);
        let framed = match end.code {
            Code::Ok => match self.services.protobuf(meant, &message) {
                Ok(body) => frame(head, &body, &tail),
                Err(status) => status_frame(&status),
            },
            _ => frame(head, &[], &tail),
        };
        Context::finish_external(state, cx, call, Ok(Payload::Frame(&framed)));
        Ok(())
    }

    /// Delivers a unary request to its handler as protobuf.
    pub(super) fn deliver_bytes<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        request: &Request,
        method: u16,
        meant: Meant,
    ) -> Result<(), LinkError> {
        let call = request.call;
        let (message, tail) = (self.take(request.message)?, self.take(request.metadata)?);
        let body = match self.services.protobuf(meant, &message) {
            Ok(body) => body,
            Err(status) => {
                self.end(call, &status, true);
                return Ok(());
            }
        };
        let head = request_head(Encoding::Protobuf, !tail.is_empty(), request.time_left_us);
        let framed = frame(head, &body, &tail);
        let number = unary_number(call, self.on.is_second);
        let key = Context::deliver_external(state, cx, number, method, Payload::Frame(&framed));
        if let Some(key) = key {
            // Even if it has been answered already, the endpoint has not said so yet.
            self.on.answers.insert(call.get(), Meant { is_response: true, ..meant });
            if cx.is_external_running(key) {
                self.on.running.insert(call.get(), key);
            }
        }
        Ok(())
    }
}
