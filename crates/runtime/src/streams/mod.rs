//! Streams of a loop: the halves of calls and of handlers, in one table.
//!
//! What an application does with a stream it does to the half in the table, and the half's place
//! goes on the list of those that may have something to send; `turn` goes through that list once
//! ready tasks have been polled, so that what a handler says at once goes with the answer that the
//! protocol owes anyway (R18). What the network brings goes to the half first, and wakes who waits
//! for it.
//!
//! Invariants: a place is used while the half is not over, or a [`StreamHandle`] or a handler
//! refers to it; its generation tells its users apart. A caller's half has a seat in a session from
//! its first exchange until it is over. A server's half is known to its session by its number until
//! it is over. No cell is borrowed while a waker is cloned, dropped or woken, or a future dropped.
//!
//! Who may touch what: `port` is all that futures see; `caller` and `server` are the drivers of the
//! two halves, and alone talk to the endpoint; `seat` alone knows how sessions are found; `remote`
//! is what other threads share with a loop.

mod caller;
mod encoded;
mod handle;
mod remote;
mod server;
mod slots;
mod table;

use petasos_endpoint::Context;

use super::dispatcher::Dispatcher;
pub(crate) use caller::expire;
pub use handle::{Opened, StreamHandle};
pub(crate) use remote::RemoteStream;
pub use server::Handling;
pub(crate) use server::{abandon, cut_off, dispatch, sweep};
pub use table::{Key, Side, Streams};

/// Sends what halves have to say, and finds sessions for calls.
pub(crate) fn turn(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let local = dispatcher.parts.local;
    caller::cancel(local, cx);
    slots::keep_time(dispatcher, cx);
    if !local.channels.borrow().granted.is_empty() {
        slots::take_granted(local, cx);
    }
    let mut dirty = local.streams.borrow_mut().take_dirty();
    for place in dirty.drain(..) {
        local.streams.borrow_mut().unmark(place);
        caller::send(local, cx, place);
        server::answer(dispatcher, cx, place);
    }
    let streams = &mut *local.streams.borrow_mut();
    streams.give_dirty(dirty);
    dispatcher.parts.note_malformed(core::mem::take(&mut streams.malformed));
}
