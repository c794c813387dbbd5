//! Sessions of streams: numbers in them (R14), and what channels grant.

use petasos_call::Status;
use petasos_call::channel::{Avoid, CallOptions};
use petasos_call::stream::StreamNumbers;
use petasos_endpoint::{Context, SessionId};

use super::caller;
use super::table::{Half, Key, Queued, Side};
use crate::channels::{Granted, Lease};
use crate::dispatcher::{Dispatcher, Due};
use crate::local::Local;

/// Numbers of the streams in each session.
#[derive(Default)]
pub(super) struct StreamSlots {
    sessions: Vec<(SessionId, StreamNumbers)>,
}

impl StreamSlots {
    /// A number in a session. `lives` says whether others still exist: in those that do, numbers
    /// go on where they were, since none is used twice (R15).
    fn take(
        &mut self,
        session: SessionId,
        slots: u32,
        lives: impl Fn(SessionId) -> bool,
    ) -> Option<u32> {
        if let Some((_, numbers)) = self.sessions.iter_mut().find(|(id, _)| *id == session) {
            return numbers.open();
        }
        // A new session is rare.
        self.sessions.retain(|(id, numbers)| numbers.open_streams() > 0 || lives(*id));
        let mut numbers = StreamNumbers::new(slots);
        let number = numbers.open();
        self.sessions.push((session, numbers));
        number
    }

    /// A stream of a session is over.
    pub(super) fn leave(&mut self, session: SessionId) {
        let found = self.sessions.iter_mut().find(|(id, _)| *id == session);
        let (_, numbers) = found.expect("a session with streams is known");
        numbers.close();
    }
}

impl Local {
    /// Begins a call, which waits for its session.
    pub(super) fn begin_stream(
        &self,
        channel: u32,
        method: (u32, u16),
        mut queued: Queued,
        wait_for_ready: bool,
    ) -> Key {
        let options =
            CallOptions { wait_for_ready, deadline: queued.deadline, avoid: Avoid::NOTHING };
        let tag = self.streams.borrow_mut().next_tag();
        let mut channels = self.channels.borrow_mut();
        queued.ask = channels.ask_for_stream(channel, method, options, tag, self.now());
        drop(channels);
        let key = self.streams.borrow_mut().enqueue(queued, tag);
        self.kick();
        key
    }

    /// The application has no more to do with a direction.
    pub(crate) fn leave_stream(&self, key: Key, side: Side) {
        let (earlier, ask) = self.streams.borrow_mut().leave(key, side);
        drop(earlier);
        if let Some(ask) = ask {
            self.channels.borrow_mut().withdraw(ask);
        }
        self.kick();
    }
}

/// Keeps the times of calls that have begun.
pub(super) fn keep_time(dispatcher: &mut Dispatcher, cx: &Context<Dispatcher>) {
    let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
    while let Some((key, at)) = streams.fresh.pop() {
        dispatcher.parts.deadlines.insert(cx.now(), at, Due::Stream { key, at });
    }
}

/// Gives sessions to calls that have waited for them.
pub(super) fn take_granted(local: &Local, cx: &mut Context<Dispatcher>) {
    let channels = &mut *local.channels.borrow_mut();
    // Their exchanges fail, each for itself.
    channels.lost.clear();
    let streams = &mut *local.streams.borrow_mut();
    for (tag, granted) in core::mem::take(&mut channels.granted) {
        let place = streams.asks.remove(&tag);
        let (place, granted) = match (place, granted) {
            (Some(place), granted) => (place, granted),
            (None, Ok(Granted { lease, .. })) => {
                channels.give_back(lease, cx.now());
                continue;
            }
            (None, Err(_)) => continue,
        };
        let Half::Queued(queued) = &mut streams.at(place).half else {
            unreachable!("who does not wait any more has withdrawn")
        };
        let queued = core::mem::replace(&mut **queued, Queued::NONE);
        let half = match granted.map(|granted| seated(streams, cx, queued, granted)) {
            Ok(Ok(caller)) => Half::Caller(Box::new(caller)),
            Ok(Err(lease)) => {
                channels.give_back(lease, cx.now());
                Half::Failed(Status::unavailable("the session takes no more streams"))
            }
            Err(status) => Half::Failed(status),
        };
        streams.at(place).half = half;
        streams.mark(place);
        streams.wake_later(place);
    }
}

fn seated(
    streams: &mut super::Streams,
    cx: &Context<Dispatcher>,
    queued: Queued,
    granted: Granted,
) -> Result<super::table::Caller, Lease> {
    let params = cx.session_params(granted.session);
    let lives = |id| cx.session_params(id).is_some();
    let number = params.and_then(|params| streams.slots.take(granted.session, params.slots, lives));
    match (number, params) {
        (Some(number), Some(params)) => {
            let epoch = streams.next_epoch();
            Ok(caller::begin(cx, queued, granted, (number, epoch), &params))
        }
        _ => Err(granted.lease),
    }
}
