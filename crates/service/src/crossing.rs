//! Calls between the hubs of a host.
//!
//! Each runtime of the service is a thread with a hub of its own. A call whose two ends are in
//! different hubs is, for each of them, a call whose other end is beyond it
//! ([`remote`](crate::remote)). This module is what carries it there: the hub's events become
//! [`Letter`]s, and letters become calls of the hub. Messages are handed over as they are, without
//! encoding: both hubs are the service, and the first has checked them.
//!
//! The module knows no threads. Whoever runs the hub sends the letters ([`Crossing::next_letter`])
//! and gives those that have come ([`Crossing::hear`]). Letters from one hub to another have to
//! keep their order, and none may be lost.
//!
//! # Names
//!
//! A call has a name in each of the two hubs. Letters use that of the hub that has begun it; the
//! other hub translates.
//!
//! # Bounds
//!
//! Of each direction of a call, at most [`WINDOW_BYTES`] and one message more are in letters or
//! wait at the other end. Each is its sender's, and counts against its quota, until the other end's
//! hub has taken it. A call counts as its caller's until the other end's hub has let it go: each
//! [`Says::Begin`] is answered by one end, refusal, return or leave, also if the caller has given
//! the call up. Answers that end a call count as their sender's until their letter was opened.

use std::collections::VecDeque;
use std::sync::Arc;

use petasos_base::Time;
use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_call::{Metadata, Status};

use crate::application::Memory;
use crate::beyond::{Encoded, Outgoing, RemoteEnd, RemoteEvent, RemoteItem, RemoteOutcome};
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
    _charge: Option<Charge>,
}

/// Bytes that count as an application's until this is dropped.
#[derive(Debug)]
struct Charge {
    to: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    fn new(to: Arc<AtomicUsize>, bytes: usize) -> Charge {
        to.fetch_add(bytes, Ordering::Relaxed);
        Charge { to, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.to.fetch_sub(self.bytes, Ordering::Relaxed);
    }
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
    /// From the callee's hub: the end. Messages before it were dropped, and it does not wait for
    /// those that are still there.
    Cut(RemoteEnd),
    /// From the callee's hub: the call has not begun, and has not run.
    Refuse(Status),
    /// From the callee's hub: the server is not there, and may have moved.
    Return(Box<Outgoing>),
    /// From the callee's hub: it has let a call go that the caller has given up.
    Leave,
    /// The receiver's hub has taken so many messages, with so many bytes.
    Taken(u32, usize, Side),
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
    /// Messages that were taken of which the other end was not told, and their bytes.
    taken: (u32, usize),
    /// The end that is here, the caller's, has given the call up.
    is_given_up: bool,
    /// Something was sent behind the call.
    has_said: bool,
    /// The end that is here, the callee's, has ended the call.
    has_ended: bool,
    /// How often the call was sent after its server.
    moves: u32,
}

/// So often a call is sent after a server that moves.
const MOVES_MAX: u32 = 3;

/// What carries a hub's calls to and from the other hubs of its host.
pub struct Crossing {
    here: HubId,
    /// By their names in this hub.
    lines: RemoteCalls<Line>,
    /// By hub, calls that other hubs have begun: from their names there to those in this hub.
    names: Vec<RemoteCalls<RemoteCall>>,
    letters: VecDeque<(HubId, Letter)>,
    /// Calls of which something was taken.
    taken: Vec<RemoteCall>,
}

impl Crossing {
    /// Lets calls of a hub go to others, and come from them.
    pub fn new<M: Memory>(hub: &mut Hub<M>) -> Crossing {
        hub.allow_crossing();
        let (lines, names, letters, taken) = Default::default();
        Crossing { here: hub.id(), lines, names, letters, taken }
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
        while let Some(call) = self.taken.pop() {
            self.tell_taken(call);
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
        let Letter { from, call: name, says, _charge } = letter;
        match says {
            Says::Begin(outgoing) => self.take_call(hub, (from, name), outgoing, now),
            Says::Request(item) => {
                if let Some(call) = self.served(from, name) {
                    self.take(hub, call, item, now);
                }
            }
            Says::Cancel => {
                // What has ended here was told so.
                if let Some(call) = self.served(from, name) {
                    self.forget(call);
                    hub.remote_cancel(call, now);
                    self.send(from, name, Says::Leave);
                }
            }
            Says::Answer(item) => self.take(hub, name, item, now),
            Says::Cut(end) => {
                if let Some(line) = self.lines.get_mut(name) {
                    line.waiting.clear();
                    self.take(hub, name, RemoteItem::End(end), now);
                }
            }
            Says::Refuse(status) => self.end_unrun(hub, name, status, now),
            Says::Return(outgoing) => self.send_after(hub, name, outgoing, now),
            Says::Leave => {
                self.forget(name);
                hub.forget_remote(name);
            }
            Says::Taken(messages, bytes, side) => {
                let call = match side {
                    Side::Caller => Some(name),
                    Side::Callee => self.served(from, name),
                };
                let Some(call) = call else { return };
                let Some(line) = self.lines.get_mut(call) else { return };
                line.untaken_bytes -= bytes;
                let is_over = line.has_ended && line.untaken_bytes == 0;
                hub.crossing_taken(call, (messages, bytes));
                match is_over {
                    true => {
                        self.forget(call);
                        hub.forget_remote(call);
                    }
                    false => self.feed(hub, call),
                }
            }
        }
    }

    /// A call of another hub begins.
    fn take_call<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        (from, name): (HubId, RemoteCall),
        outgoing: Box<Outgoing>,
        now: Time,
    ) {
        if !hub.has_server(&outgoing) {
            return self.send(from, name, Says::Return(outgoing));
        }
        match hub.begin_crossed(from, *outgoing, now) {
            Ok(call) => {
                self.names_of(from).insert(name, call);
                self.lines.insert(call, Line::new(from, name, Side::Callee));
            }
            Err(status) => self.send(from, name, Says::Refuse(status)),
        }
    }

    /// A call of this hub has certainly not run.
    fn end_unrun<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        call: RemoteCall,
        status: Status,
        now: Time,
    ) {
        if self.forget(call) {
            let (metadata, trailers) = Default::default();
            let (result, has_not_run) = (Err(status), true);
            hub.remote_end(call, RemoteOutcome { result, has_not_run, metadata, trailers }, now);
        }
    }

    /// A call of this hub did not find its server. If another attachment serves under the name now,
    /// the call goes there.
    fn send_after<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        call: RemoteCall,
        mut outgoing: Box<Outgoing>,
        now: Time,
    ) {
        let Some(line) = self.lines.get_mut(call) else { return };
        line.moves += 1;
        // What was said behind the call is lost, and so is the call.
        let is_whole = !line.has_said && !line.is_given_up && line.moves <= MOVES_MAX;
        match hub.server_again(&mut outgoing).filter(|_| is_whole) {
            Some(to) => {
                line.hub = to;
                self.send(to, call, Says::Begin(outgoing));
            }
            None => self.end_unrun(hub, call, Status::unavailable("the server has gone"), now),
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
            let is_cut = hub.is_cut(call);
            let answers = if hub.ends_next(call) { hub.in_letters(call) } else { None };
            if line.untaken_bytes >= WINDOW_BYTES && !is_cut {
                return;
            }
            let Some(item) = hub.next_remote_item(call) else { return };
            let (to, name, bytes) = (line.hub, line.name, item.bytes());
            let says = match (line.here, item) {
                (_, RemoteItem::End(end)) => {
                    // What the other end has not taken yet counts until it has.
                    line.has_ended = line.untaken_bytes > 0 && !is_cut;
                    if !line.has_ended {
                        self.forget(call);
                    }
                    let says =
                        if is_cut { Says::Cut(end) } else { Says::Answer(RemoteItem::End(end)) };
                    let charge = answers.filter(|_| bytes > 0).map(|to| Charge::new(to, bytes));
                    let letter = Letter { from: self.here, call: name, says, _charge: charge };
                    return self.letters.push_back((to, letter));
                }
                (side, item) => {
                    if matches!(item, RemoteItem::Message(_)) {
                        line.untaken_bytes += bytes;
                    }
                    line.has_said = true;
                    match side {
                        Side::Caller => Says::Request(item),
                        Side::Callee => Says::Answer(item),
                    }
                }
            };
            self.send(to, name, says);
        }
    }

    /// Nobody at this end waits for a call any more.
    fn cancel(&mut self, call: RemoteCall) {
        let Some(line) = self.lines.get_mut(call) else { return };
        line.is_given_up = true;
        line.waiting.clear();
        let (to, name) = (line.hub, line.name);
        self.send(to, name, Says::Cancel);
    }

    /// Something has come for a call.
    fn take<M: Memory>(&mut self, hub: &mut Hub<M>, call: RemoteCall, item: RemoteItem, now: Time) {
        let Some(line) = self.lines.get_mut(call) else { return };
        if line.is_given_up && !matches!(item, RemoteItem::End(_)) {
            return;
        }
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
                    if line.taken.0 == 0 {
                        self.taken.push(call);
                    }
                    line.taken = (line.taken.0 + 1, line.taken.1 + bytes);
                    hub.take_message(call, Encoded::Checked(message), now);
                }
                RemoteItem::Close => hub.remote_close(call, now),
                RemoteItem::Head(metadata) => hub.remote_head(call, metadata, now),
                RemoteItem::End(end) => {
                    self.tell_taken(call);
                    self.forget(call);
                    hub.remote_end(call, outcome(end), now);
                }
            }
        }
    }

    /// Tells the other end what was taken.
    fn tell_taken(&mut self, call: RemoteCall) {
        let Some(line) = self.lines.get_mut(call) else { return };
        let (messages, bytes) = std::mem::take(&mut line.taken);
        if messages == 0 {
            return;
        }
        let (to, name) = (line.hub, line.name);
        let side = match line.here {
            Side::Caller => Side::Callee,
            Side::Callee => Side::Caller,
        };
        self.send(to, name, Says::Taken(messages, bytes, side));
    }

    fn send(&mut self, to: HubId, call: RemoteCall, says: Says) {
        let letter = Letter { from: self.here, call, says, _charge: None };
        self.letters.push_back((to, letter));
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
        Line {
            hub,
            name,
            here,
            untaken_bytes: 0,
            waiting: VecDeque::new(),
            taken: (0, 0),
            is_given_up: false,
            has_said: false,
            has_ended: false,
            moves: 0,
        }
    }
}

/// The end of a call, as its caller's hub is told.
fn outcome(end: RemoteEnd) -> RemoteOutcome<'static> {
    let RemoteEnd { status, has_not_run, message, metadata } = end;
    let (result, trailers) = match status {
        Some(status) if status.code() != petasos_call::Code::Ok => (Err(status), Metadata::new()),
        status => {
            let trailers = status.map(|status| status.metadata().clone()).unwrap_or_default();
            (Ok(message.map(Encoded::Checked)), trailers)
        }
    };
    RemoteOutcome { result, has_not_run, metadata, trailers }
}
