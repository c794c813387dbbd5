//! The part of a turn that concerns streams: sending what halves have, and giving calls sessions.

use petasos_base::Time;
use petasos_call::Status;
use petasos_call::channel::{Avoid, CallOptions};
use petasos_endpoint::Context;

use super::{callers, handlers, restarts};
use crate::channels::{Channels, Granted};
use crate::dispatcher::Dispatcher;
use crate::due::Due;
use crate::lease::Lease;
use crate::local::{Local, ask_for_session};
use crate::streams::{Caller, Half, Queued, StreamRetry, Streams, Target};

/// Sends what halves have to send, and gives sessions to calls.
pub(super) fn run(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let local = dispatcher.parts.local;
    callers::cancel(local, cx);
    keep_time(dispatcher, cx);
    if !local.channels.borrow().granted.is_empty() {
        take_granted(local, cx);
    }
    let mut dirty = local.streams.borrow_mut().take_dirty();
    for place in dirty.drain(..) {
        local.streams.borrow_mut().unmark(place);
        callers::send(local, cx, place);
        handlers::answer(dispatcher, cx, place);
    }
    let streams = &mut *local.streams.borrow_mut();
    streams.give_dirty(dirty);
    dispatcher.parts.note_malformed(core::mem::take(&mut streams.malformed));
}

/// Adds the deadlines of new calls to the timers.
fn keep_time(dispatcher: &mut Dispatcher, cx: &Context<Dispatcher>) {
    let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
    while let Some((key, at)) = streams.fresh.pop() {
        dispatcher.parts.deadlines.insert(cx.now(), at, Due::Stream { key, at });
    }
}

/// Gives sessions to calls that have waited for them.
fn take_granted(local: &Local, cx: &mut Context<Dispatcher>) {
    let channels = &mut *local.channels.borrow_mut();
    // Each of their exchanges fails by itself.
    channels.lost.clear();
    let streams = &mut *local.streams.borrow_mut();
    for (tag, granted) in core::mem::take(&mut channels.granted) {
        let place = streams.asks.remove(&tag);
        let granted = match granted {
            Ok(granted) if cx.session_params(granted.session).is_none() => {
                // The session is gone, but its channel has not been told yet.
                channels.lose_lease(granted.lease);
                place.into_iter().for_each(|place| ask_again(streams, channels, place, cx.now()));
                continue;
            }
            granted => granted,
        };
        let (place, granted) = match (place, granted) {
            (Some(place), granted) => (place, granted),
            (None, Ok(Granted { lease, .. })) => {
                channels.give_back(lease, cx.now());
                continue;
            }
            (None, Err(_)) => continue,
        };
        let mut queued = match core::mem::replace(&mut streams.at(place).half, Half::Free) {
            Half::Queued(queued) => *queued,
            half => {
                streams.at(place).half = half;
                let unneeded = restarts::go_on(streams, channels, cx, place, granted);
                unneeded.into_iter().for_each(|lease| channels.give_back(lease, cx.now()));
                streams.mark(place);
                streams.wake_later(place);
                continue;
            }
        };
        if queued.retry.is_none() {
            queued.retry = retry_of(channels, &queued, cx.now());
        }
        let half = match granted {
            Ok(granted) => seat(streams, channels, cx, queued, granted),
            Err(status) => unseated(streams, channels, cx, place, queued, status),
        };
        streams.at(place).half = half;
        streams.mark(place);
        streams.wake_later(place);
    }
}

/// Asks again for a call that was given a session that is already gone.
#[cold]
fn ask_again(streams: &mut Streams, channels: &mut Channels, place: u32, now: Time) {
    let tag = streams.next_tag();
    let (target, deadline, avoid, ask) = match &mut streams.at(place).half {
        Half::Queued(queued) => (queued.target, queued.deadline, Avoid::NOTHING, &mut queued.ask),
        Half::Caller(caller) => {
            let Some(restart) = &mut caller.restart else { return };
            (caller.target, caller.deadline, restart.avoid, &mut restart.ask)
        }
        _ => return,
    };
    let options = CallOptions { wait_for_ready: target.wait_for_ready, deadline, avoid };
    *ask = Some(ask_for_session(channels, &target, options, tag, now));
    streams.asks.insert(tag, place);
}

/// The half of a call that was given a session.
fn seat(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    queued: Queued,
    granted: Granted,
) -> Half {
    match seated(streams, cx, queued, granted) {
        Ok(mut caller) => {
            caller.stream.keep_queue(caller.retry.is_some());
            Half::Caller(Box::new(caller))
        }
        Err(lease) => {
            channels.give_back(lease, cx.now());
            Half::Failed(Status::unavailable("the session takes no more streams"))
        }
    }
}

/// Handles a call for which there is no session. Its policy treats that like an answer, as for
/// unary calls.
fn unseated(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    place: u32,
    mut queued: Queued,
    status: Status,
) -> Half {
    let channel = queued.target.channel;
    if !restarts::waits(channels, channel, queued.retry.as_deref_mut(), &status, cx.now()) {
        return Half::Failed(status);
    }
    queued.ask = None;
    let key = streams.key(place);
    streams.fresh.push((key, cx.now()));
    Half::Queued(Box::new(queued))
}

/// The retry state of a call, if its policy allows retries.
fn retry_of(channels: &mut Channels, queued: &Queued, now: Time) -> Option<Box<StreamRetry>> {
    let Target { channel, method, .. } = queued.target;
    let entry = channels.entry(channel)?;
    StreamRetry::new(&entry.info, method, queued.deadline, &entry.budget, now)
}

fn seated(
    streams: &mut Streams,
    cx: &Context<Dispatcher>,
    queued: Queued,
    granted: Granted,
) -> Result<Caller, Lease> {
    let params = cx.session_params(granted.session);
    let number = params.and_then(|params| streams.slots.take(granted.session, params.slots));
    match (number, params) {
        (Some(number), Some(params)) => {
            let epoch = streams.next_epoch();
            Ok(callers::begin(cx, queued, granted, number, epoch, &params))
        }
        _ => Err(granted.lease),
    }
}
