//! Unary calls and handlers without futures, for a program that passes messages on and does not
//! read them by types of its own: a proxy, or the managed service.
//!
//! A call is begun with a tag, and its outcome comes as an [`Event`]. A request of a method that is
//! served so comes as an event too, and is answered by its name, in any later turn. Nothing is
//! allocated for either beyond their messages.
//!
//! Who may touch what: the program takes events, begins calls and answers between turns; within a
//! turn only the loop touches the tables (`relayed`).

mod method;

use petasos_buf::MsgBuf;

use crate::head::CallHead;
use crate::keys::CallKey;
use crate::local::Local;
use crate::runtime::Runtime;
use crate::task::Task;

pub use crate::relayed::{Arrived, Event, Reply, RequestName};
pub use method::Relayed;

impl Local {
    pub(crate) fn begin_relayed(&self, head: CallHead, request: MsgBuf, tag: u64) -> CallKey {
        let mut calls = self.calls.borrow_mut();
        let call = calls.begin_with(|| head, request);
        calls.relay(call, tag);
        drop(calls);
        self.kick();
        call
    }

    /// A request is to be answered, if it still waits.
    fn reply_relayed(&self, name: RequestName, reply: Reply) {
        {
            let mut relay = self.relay.borrow_mut();
            let Some(place) = relay.place(name) else { return };
            place.reply = Some(reply);
        }
        self.make_ready(Task { kind: name.kind, slot: name.slot });
    }
}

impl Runtime {
    /// Begins a call of this head, in this loop's thread. Its outcome comes as [`Event::Done`].
    pub fn relay(&self, head: CallHead, request: MsgBuf, tag: u64) -> CallKey {
        self.local.begin_relayed(head, request, tag)
    }

    /// Gives a call up that was begun by [`Runtime::relay`]. No event of it comes, unless it is
    /// there already.
    pub fn give_up_relayed(&self, call: CallKey) {
        self.local.give_up(call);
    }

    /// Answers a request, if somebody still waits.
    pub fn reply(&self, name: RequestName, reply: Reply) {
        self.local.reply_relayed(name, reply);
    }

    /// The next thing that has happened.
    #[inline]
    pub fn next_event(&self) -> Option<Event> {
        self.local.relay.borrow_mut().events.pop_front()
    }

    /// Whether something has happened that was not taken.
    pub fn has_events(&self) -> bool {
        !self.local.relay.borrow().events.is_empty()
    }
}
