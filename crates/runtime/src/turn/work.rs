//! What the parts of a turn share.

use petasos_base::{Time, Wheel};
use petasos_call::Failure;
use petasos_endpoint::{CallError, Context};

use crate::calls::Calls;
use crate::channels::Channels;
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::due::Due;
use crate::local::Local;
use crate::streams::Streams;

/// The parts of the loop that are needed to send calls. No application code runs while it is held.
pub(super) struct Work<'a> {
    pub(super) calls: &'a mut Calls,
    pub(super) channels: &'a mut Channels,
    pub(super) deadlines: &'a mut Wheel<Due>,
    /// Swapped with the outbox.
    pub(super) sent: &'a mut Vec<u32>,
}

/// Lets `run` send calls.
#[inline(always)]
pub(super) fn with_work<R>(parts: &mut DispatcherParts, run: impl FnOnce(&mut Work<'_>) -> R) -> R {
    let local = parts.local;
    let (calls, channels) = (&mut *local.calls.borrow_mut(), &mut *local.channels.borrow_mut());
    let DispatcherParts { deadlines, sent, .. } = parts;
    run(&mut Work { calls, channels, deadlines, sent })
}

/// R12: the failure for an error of the endpoint.
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
        CallError::Again | CallError::NoWorker => Failure::NoWorker,
        CallError::QueueFull => Failure::QueueFull,
        CallError::Expired => Failure::Expired,
        CallError::UnknownPolicy => Failure::UnknownPolicy,
        _ => Failure::Declined,
    }
}

/// Releases a call's session.
pub(super) fn leave_session(local: &Local, streams: &mut Streams, place: u32, lives: bool) {
    let caller = streams.caller(place).expect("only calls have sessions");
    let session = caller.session;
    let Some(lease) = caller.lease.take() else { return };
    let lent = core::mem::take(&mut caller.lent);
    streams.slots.leave(session, lent);
    let mut channels = local.channels.borrow_mut();
    if lives {
        channels.give_back(lease, local.now());
    } else {
        channels.lose_lease(lease);
    }
}

/// R16: microseconds until the deadline; 0 if there is none.
pub(super) fn time_left_us(cx: &Context<Dispatcher>, deadline: Time) -> u64 {
    match deadline {
        Time::NEVER => 0,
        deadline => deadline.nanos_since(cx.now()).div_ceil(1000).max(1),
    }
}
