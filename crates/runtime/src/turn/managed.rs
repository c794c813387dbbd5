//! The part of a turn that concerns the managed service.

use petasos_base::Time;
use petasos_endpoint::Context;
use petasos_rpc::descriptors::ServiceRef;

use crate::dispatcher::Dispatcher;
use crate::{local, managed};

/// Handles what the service has said. Returns whether it has said anything.
pub(super) fn receive(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> bool {
    let of = &dispatcher.parts.local.managed;
    let has_received = of.with(|carrier| carrier.receive(dispatcher, cx)).unwrap_or(false);
    if has_received {
        of.wake();
    }
    has_received
}

/// Hands over what the turn has for the service. Returns when the carrier needs a turn.
pub(super) fn send(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> Time {
    let sent = dispatcher.parts.local.managed.with(|carrier| {
        carrier.send(dispatcher, cx);
        carrier.next_turn_at()
    });
    sent.unwrap_or(Time::NEVER)
}

/// Lets a service be called through the service.
pub(super) fn describe(called: &ServiceRef) {
    if let Some(local) = local::current() {
        managed::describe(local, called);
    }
}
