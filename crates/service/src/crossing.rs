//! Calls between the hubs of a host.
//!
//! Each runtime of the service is a thread with a hub of its own. A call whose two ends are in
//! different hubs is, for each of them, a call whose other end is beyond it
//! ([`remote`](crate::remote)). This module is what carries it there: the hub's events become
//! [`Letter`]s, and letters become calls of the hub. Messages are handed over as they are, without
//! encoding: both hubs are the service, and the first has checked them.
//!
//! The module knows no threads. Whoever runs the hub sends the letters ([`Crossing::next_letter`])
//! and gives those that have come ([`Crossing::hear`]). Letters from one hub to another have to keep
//! their order, and none may be lost.
//!
//! # Names
//!
//! A call has a name in each of the two hubs. Letters use that of the hub that has begun it; the
//! other hub translates.
//!
//! # Bounds
//!
//! Of each direction of a call, at most [`WINDOW_BYTES`] and one message more are in letters or wait
//! at the other end. The other end says what its hub has taken. Calls are bounded by both hubs.

use std::collections::VecDeque;

use petasos_base::Time;
use petasos_call::{Metadata, Status};

use crate::application::Memory;
use crate::beyond::{Encoded, Outgoing, RemoteEvent, RemoteItem, RemoteOutcome};
use crate::host::HubId;
use crate::hub::Hub;
use crate::remote_calls::{RemoteCall, RemoteCalls};

/// As many bytes of a call are on their way in each direction, before its messages wait.
const WINDOW_BYTES: usize = 64 << 10;

/// What one hub tells another one of a call.
#[derive(Debug)]
pub struct Letter {
    /// The hub that says it.
    from: HubId,
    /// By its name in the hub that has begun it.
    call: RemoteCall,
    says: Says,
}

#[derive(Debug)]
enum Says {
    /// From the caller's hub: a call begins.
    Begin(Box<Outgoing>),
    /// From the caller's hub: a message, or that there are no more.
    Request(RemoteItem),
    /// From the caller's hub: nobody waits for the call any more.
    Cancel,
    /// From the callee's hub: a head, a message, or the end.
    Answer(RemoteItem),
    /// From the callee's hub: the call has not begun, and has not run.
    Refuse(Status),
    /// The receiver's hub has taken so many bytes of messages.
    Taken(usize, Side),
}

/// Which end of a call a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Caller,
    Callee,
}

/// A call, at one of its ends.
struct Line {
    /// The other end's hub.
    hub: HubId,
    /// Its name in the hub that has begun it.
    name: RemoteCall,
    /// The end that is here.
    here: Side,
    /// Bytes of messages that were sent and not taken.
    untaken_bytes: usize,
    /// What has come and has no room yet.
    waiting: VecDeque<RemoteItem>,
    /// Bytes that were taken of which the other end was not told.
    taken_bytes: usize,
}

/// What carries a hub's calls to and from the other hubs of its host.
pub struct Crossing {
    here: HubId,
    /// By their names in this hub.
    lines: RemoteCalls<Line>,
    /// By hub, calls that other hubs have begun: from their names there to those in this hub.
    names: Vec<RemoteCalls<RemoteCall>>,
    letters: VecDeque<(HubId, Letter)>,
}

impl Crossing {
    /// Lets calls of a hub go to others, and come from them.
    pub fn new<M: Memory>(hub: &mut Hub<M>) -> Crossing {
        hub.allow_crossing();
        let (lines, names, letters) = Default::default();
        Crossing { here: hub.id(), lines, names, letters }
    }

    /// Takes what the hub wants carried. Says whether there was anything.
    pub fn turn<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        let mut has_moved = false;
        while let Some(event) = hub.poll_crossing() {
            has_moved = true;
            match event {
                RemoteEvent::Begin(outgoing) => self.begin(outgoing),
                RemoteEvent::Ready(call) => self.feed(hub, call),
                RemoteEvent::Cancel(call) => self.cancel(call),
                RemoteEvent::Room(call) => self.deliver(hub, call, now),
            }
        }
        has_moved
    }

    /// The next letter to send, and the hub that it is for.
    pub fn next_letter(&mut self) -> Option<(HubId, Letter)> {
        self.letters.pop_front()
    }

    /// Calls that are not over.
    pub fn calls(&self) -> usize {
        self.lines.len()
    }

    /// A letter has come.
    pub fn hear<M: Memory>(&mut self, hub: &mut Hub<M>, letter: Letter, now: Time) {
        let Letter { from, call: name, says } = letter;
        match says {
            Says::Begin(outgoing) => match hub.begin_crossed(from, *outgoing, now) {
                Ok(call) => {
                    self.names_of(from).insert(name, call);
                    self.lines.insert(call, Line::new(from, name, Side::Callee));
                }
                Err(status) => self.send(from, name, Says::Refuse(status)),
            },
            Says::Request(item) => {
                if let Some(call) = self.served(from, name) {
                    self.take(hub, call, item, now);
                }
            }
            Says::Cancel => {
                if let Some(call) = self.served(from, name) {
                    self.forget(call);
                    hub.remote_cancel(call, now);
                }
            }
            Says::Answer(item) => self.take(hub, name, item, now),
            Says::Refuse(status) => {
                if self.forget(name) {
                    let (metadata, trailers) = Default::default();
                    let result = Err(status);
                    let outcome = RemoteOutcome { result, has_not_run: true, metadata, trailers };
                    hub.remote_end(name, outcome, now);
                }
            }
            Says::Taken(bytes, side) => {
                let call = match side {
                    Side::Caller => Some(name),
                    Side::Callee => self.served(from, name),
                };
                if let Some(line) = call.and_then(|call| self.lines.get_mut(call)) {
                    line.untaken_bytes -= bytes;
                    self.feed(hub, call.expect("it was just found"));
                }
            }
        }
    }

    /// A call of this hub begins.
    fn begin(&mut self, outgoing: Box<Outgoing>) {
        let call = outgoing.call;
        let Some(to) = outgoing.to_hub() else { return };
        self.lines.insert(call, Line::new(to, call, Side::Caller));
        self.send(to, call, Says::Begin(outgoing));
    }

    /// Sends what this end has said, as far as the other end takes it.
    fn feed<M: Memory>(&mut self, hub: &mut Hub<M>, call: RemoteCall) {
        while let Some(line) = self.lines.get_mut(call) {
            if line.untaken_bytes >= WINDOW_BYTES {
                return;
            }
            let Some(item) = hub.next_remote_item(call) else { return };
            if matches!(item, RemoteItem::Message(_)) {
                line.untaken_bytes += item.bytes();
            }
            let (to, name, here) = (line.hub, line.name, line.here);
            let is_end = matches!(item, RemoteItem::End(_));
            let says = match here {
                Side::Caller => Says::Request(item),
                Side::Callee => Says::Answer(item),
            };
            self.send(to, name, says);
            if is_end {
                self.forget(call);
            }
        }
    }

    /// Nobody at this end waits for a call any more.
    fn cancel(&mut self, call: RemoteCall) {
        let Some(line) = self.lines.get(call) else { return };
        let (to, name) = (line.hub, line.name);
        self.forget(call);
        self.send(to, name, Says::Cancel);
    }

    /// Something has come for a call.
    fn take<M: Memory>(&mut self, hub: &mut Hub<M>, call: RemoteCall, item: RemoteItem, now: Time) {
        let Some(line) = self.lines.get_mut(call) else { return };
        line.waiting.push_back(item);
        // What came before it is told of when it has room.
        if line.waiting.len() == 1 {
            self.deliver(hub, call, now);
        }
    }

    /// Gives the hub what waits, as far as it has room.
    fn deliver<M: Memory>(&mut self, hub: &mut Hub<M>, call: RemoteCall, now: Time) {
        while let Some(line) = self.lines.get_mut(call) {
            let Some(next) = line.waiting.front() else { return };
            if matches!(next, RemoteItem::Message(_)) && !hub.has_room_for_remote(call) {
                return;
            }
            let item = line.waiting.pop_front().expect("it was just there");
            let bytes = item.bytes();
            match item {
                RemoteItem::Message(message) => {
                    line.taken_bytes += bytes;
                    hub.take_message(call, Encoded::Checked(message), now);
                    self.tell_taken(call);
                }
                RemoteItem::Close => hub.remote_close(call, now),
                RemoteItem::Head(metadata) => hub.remote_head(call, metadata, now),
                RemoteItem::End(end) => {
                    self.forget(call);
                    hub.remote_end(call, outcome(end), now);
                }
            }
        }
    }

    /// Tells the other end what was taken, if that is worth a letter.
    fn tell_taken(&mut self, call: RemoteCall) {
        let Some(line) = self.lines.get_mut(call) else { return };
        if line.taken_bytes < WINDOW_BYTES / 2 {
            return;
        }
        let bytes = std::mem::take(&mut line.taken_bytes);
        let (to, name) = (line.hub, line.name);
        let side = match line.here {
            Side::Caller => Side::Callee,
            Side::Callee => Side::Caller,
        };
        self.send(to, name, Says::Taken(bytes, side));
    }

    fn send(&mut self, to: HubId, call: RemoteCall, says: Says) {
        self.letters.push_back((to, Letter { from: self.here, call, says }));
    }

    /// A call is over at this end. Says whether it was not before.
    fn forget(&mut self, call: RemoteCall) -> bool {
        let Some(line) = self.lines.remove(call) else { return false };
        if line.here == Side::Callee {
            self.names_of(line.hub).remove(line.name);
        }
        true
    }

    /// The call that another hub has begun by this name.
    fn served(&mut self, from: HubId, name: RemoteCall) -> Option<RemoteCall> {
        self.names_of(from).get(name).copied()
    }

    fn names_of(&mut self, hub: HubId) -> &mut RemoteCalls<RemoteCall> {
        let index = hub.0 as usize;
        if self.names.len() <= index {
            self.names.resize_with(index + 1, RemoteCalls::default);
        }
        &mut self.names[index]
    }
}

impl Line {
    fn new(hub: HubId, name: RemoteCall, here: Side) -> Line {
        let (untaken_bytes, taken_bytes, waiting) = (0, 0, VecDeque::new());
        Line { hub, name, here, untaken_bytes, waiting, taken_bytes }
    }
}

/// The end of a call, as its caller's hub is told.
fn outcome(end: crate::RemoteEnd) -> RemoteOutcome<'static> {
    let crate::RemoteEnd { status, has_not_run, message, metadata } = end;
    let (result, trailers) = match status {
        Some(status) if status.code() != petasos_call::Code::Ok => (Err(status), Metadata::new()),
        status => {
            let trailers = status.map(|status| status.metadata().clone()).unwrap_or_default();
            (Ok(message.map(Encoded::Checked)), trailers)
        }
    };
    RemoteOutcome { result, has_not_run, metadata, trailers }
}
