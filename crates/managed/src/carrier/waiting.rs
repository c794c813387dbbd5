//! Calls, binds and answers that wait for room, and the errors of those that will never have room.

use petasos_abi::CallNumber;
use petasos_buf::MsgBuf;
use petasos_call::{Failure, Status};
use petasos_endpoint::{CallId, RejectCode};
use petasos_message::NativeMsg;

use crate::convert::Meant;
use crate::link::NoRoom;
use crate::services::Method;

/// What a message of bytes was converted to, so that this is done once.
pub(super) type Converted = Option<Box<NativeMsg>>;

/// What waits for room.
#[derive(Debug)]
pub(super) enum Waiting {
    /// With its message as an image, if that was made already.
    Call(CallId, Method, Converted),
    /// A bind, until the service has answered.
    Bind(CallId),
    /// With the type of its message, if that may be protobuf.
    Answer(CallNumber, MsgBuf, Option<Meant>, Converted),
}

/// What a rejection means to the caller (R12).
pub(super) fn failure_of(code: RejectCode) -> Failure {
    match code {
        RejectCode::UnknownMethod => Failure::UnknownMethod,
        RejectCode::TooLarge => Failure::RequestTooLarge,
        RejectCode::Overloaded => Failure::Overloaded,
        RejectCode::Draining => Failure::Draining,
        RejectCode::HandlerFailed => Failure::HandlerFailed,
        _ => Failure::Declined,
    }
}

/// The status of what will never fit.
pub(super) fn too_long(_: NoRoom) -> Status {
    Status::resource_exhausted("the message is longer than the application's share of memory")
}
