//! What the parts of a turn share.

use petasos_base::Wheel;
use petasos_call::Failure;
use petasos_endpoint::CallError;

use crate::calls::Calls;
use crate::channels::Channels;
use crate::dispatcher::DispatcherParts;
use crate::due::Due;

/// What starting calls needs of the loop. No code of the application's runs while it is held.
pub(super) struct Work<'a> {
    pub(super) calls: &'a mut Calls,
    pub(super) channels: &'a mut Channels,
    pub(super) deadlines: &'a mut Wheel<Due>,
    /// Exchanged for the outbox.
    pub(super) sent: &'a mut Vec<u32>,
}

/// Lets `run` start calls.
#[inline(always)]
pub(super) fn with_work<R>(parts: &mut DispatcherParts, run: impl FnOnce(&mut Work<'_>) -> R) -> R {
    let local = parts.local;
    let (calls, channels) = (&mut *local.calls.borrow_mut(), &mut *local.channels.borrow_mut());
    let DispatcherParts { deadlines, sent, .. } = parts;
    run(&mut Work { calls, channels, deadlines, sent })
}

/// R12: what failed below.
pub(super) fn failure_of(error: CallError) -> Failure {
    match error {
        CallError::Timeout => Failure::Timeout,
        CallError::Cancelled => Failure::Cancelled,
        CallError::PeerFailed | CallError::SessionClosed => Failure::Lost,
        CallError::NotSent => Failure::NotConnected,
        CallError::UnknownMethod => Failure::UnknownMethod,
        CallError::RequestTooLarge => Failure::RequestTooLarge,
        CallError::ResponseTooLarge => Failure::ResponseTooLarge,
        CallError::Overloaded => Failure::Overloaded,
        CallError::Draining => Failure::Draining,
        CallError::HandlerFailed => Failure::HandlerFailed,
        CallError::OutOfMemory => Failure::OutOfMemory,
        _ => Failure::Declined,
    }
}
