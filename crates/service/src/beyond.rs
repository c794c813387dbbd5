//! The calls with one end beyond this hub, and their messages that wait for what carries them: the
//! transport, to other hosts, or the crossing, to other hubs of the host.
//! [`remote`](crate::remote) describes how they begin and end.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use petasos_abi::COUNTED_BYTES_MIN;
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::{Metadata, Status};
use petasos_engine::{Application as Number, CallId, Peer};
use petasos_message::NativeMsg;

use crate::carrier::{Carrier, Queued, tell};
use crate::copies::Copies;
use crate::host::{Exports, HubId};
use crate::passing::Passing;
use crate::peers::CALLERS_FIRST;
use crate::remote_calls::{Names, RemoteCall, RemoteCalls};
use crate::routes::Routes;
use crate::{Binding, BoundMethod};

/// How much may be under way to and from other hosts.
#[derive(Clone, Copy, Debug)]
pub struct RemoteLimits {
    /// Calls in both directions.
    pub calls_max: usize,
    /// How long an application is not heard when as many of its messages wait to leave as may,
    /// before streams of its end.
    pub pause: Duration,
    /// Peers whose calls are told from those of others.
    pub peers_max: usize,
}

impl Default for RemoteLimits {
    /// 16,384 calls, 100 ms, and 65,536 peers.
    fn default() -> RemoteLimits {
        RemoteLimits { calls_max: 1 << 14, pause: Duration::from_millis(100), peers_max: 1 << 16 }
    }
}

/// What the transport is to do.
#[derive(Debug)]
pub enum RemoteEvent {
    /// Call: from now on the call is with the transport.
    Begin(Box<Outgoing>),
    /// Something waits ([`next_remote_item`](crate::Hub::next_remote_item)), and nothing did. Said
    /// once, until all of it has been taken.
    Ready(RemoteCall),
    /// The call is to end, if it still runs: nobody waits for it.
    Cancel(RemoteCall),
    /// A message for which there was [no room](crate::Hub::has_room_for_remote) may be offered
    /// again: there is room, or the call is done. Said once for each time that there was none.
    Room(RemoteCall),
}

/// A call that an application of this host makes.
#[derive(Debug)]
pub struct Outgoing {
    /// Its number.
    pub call: RemoteCall,
    /// The name that is called, as the application has given it.
    pub target: Arc<str>,
    /// The service, by the caller's schema.
    pub binding: Arc<Binding>,
    /// The index of the method in its service.
    pub method: u16,
    /// Of a unary call.
    pub message: Option<NativeMsg>,
    /// From the caller.
    pub metadata: Metadata,
    /// When its time is up; [`Time::NEVER`] for none.
    pub deadline: Time,
    /// It may run twice.
    pub is_idempotent: bool,
    /// The name of the application that calls.
    pub caller: Arc<str>,
    /// That name is proved.
    pub is_proved: bool,
    /// Policies have let it pass as one that is encrypted: it must not leave in another way, even
    /// if the ways have changed since. Copies that a policy has made are not judged.
    pub is_sealed: bool,
    /// Of a call that goes to another hub.
    pub(crate) crossing: Option<Box<ToHub>>,
}

/// Who calls from another host. The same for all calls of a session.
#[derive(Clone, Debug)]
pub struct RemoteCaller {
    /// Tells it from others: from [`Hub::remote_peer`](crate::Hub::remote_peer).
    pub peer: Peer,
    /// Its name, if it is proved.
    pub identity: Option<Arc<str>>,
    /// Its packets are encrypted.
    pub is_sealed: bool,
}

/// What another hub of the host is told of a call.
#[derive(Clone, Debug)]
pub(crate) struct ToHub {
    /// Which one it is.
    pub(crate) hub: HubId,
    /// The application that is called; none if the call leaves the host there.
    pub(crate) server: Option<Number>,
    /// As what policies know the caller.
    pub(crate) caller: RemoteCaller,
    /// The number by which the server's descriptors name the caller.
    pub(crate) partner: u32,
    /// The caller is an application of this host.
    pub(crate) is_of_host: bool,
    /// The longest message that the caller takes.
    pub(crate) message_bytes_max: usize,
}

/// How a call ends that policies have taken for encrypted, if it would not be. It has not run, and
/// is judged anew when it is made again.
#[cold]
pub fn not_sealed() -> Status {
    Status::unavailable("the call would no longer be encrypted, as its policies were told")
}

impl Outgoing {
    /// The hub that it goes to.
    pub(crate) fn to_hub(&self) -> Option<HubId> {
        self.crossing.as_ref().map(|crossing| crossing.hub)
    }

    /// The method.
    pub fn method(&self) -> &BoundMethod {
        &self.binding.methods[usize::from(self.method)]
    }
}

/// What an application of this host says of a call, for the other end.
#[derive(Debug)]
pub enum RemoteItem {
    /// A message of a stream.
    Message(NativeMsg),
    /// From the caller: no more messages follow.
    Close,
    /// From the callee: initial metadata of a stream.
    Head(Metadata),
    /// From the callee: the call is over, and so is what there is to take of it.
    End(RemoteEnd),
}

/// How a call has ended that an application of this host has served.
#[derive(Debug)]
pub struct RemoteEnd {
    /// None if it has succeeded without trailing metadata.
    pub status: Option<Status>,
    /// It certainly has not run (R12).
    pub has_not_run: bool,
    /// The response of a unary call that has succeeded.
    pub message: Option<NativeMsg>,
    /// Initial metadata of a unary call.
    pub metadata: Metadata,
}

/// A message of another host, as it came.
#[derive(Debug)]
pub enum Encoded<'a> {
    /// In protobuf's encoding.
    Protobuf(&'a [u8]),
    /// An image of the type, by the binding of the application at this host's end: this range of a
    /// buffer. Nothing of it was checked.
    Native(MsgBuf, Range<usize>),
    /// From another hub of this host, which has checked it.
    Checked(NativeMsg),
}

/// How a call has ended at another host.
#[derive(Debug)]
pub struct RemoteOutcome<'a> {
    /// The response; none of a stream. Or why it has failed.
    pub result: Result<Option<Encoded<'a>>, Status>,
    /// It certainly has not run (R12). Means nothing of a success.
    pub has_not_run: bool,
    /// Initial metadata of a unary call.
    pub metadata: Metadata,
    /// Trailing metadata of a success.
    pub trailers: Metadata,
}

/// The application of which all others are that are beyond this host. The hub gives this number
/// to none.
pub(crate) const BEYOND: Number = Number(u32::MAX);

/// The other end of a call, as the end at this host knows it.
pub(crate) fn far(call: RemoteCall) -> (Number, CallId) {
    (BEYOND, CallId::from_number(call.to_number()))
}

/// What a half of a call knows.
pub(crate) struct Through {
    /// The other half.
    pub(crate) other: RemoteCall,
    pub(crate) binding: Arc<Binding>,
    pub(crate) method: u16,
    pub(crate) message_bytes_max: usize,
    /// The number of the application at the call's end on this host: what waits counts as its own.
    pub(crate) payer: u32,
    /// Of a half that leaves the host: the call without its message.
    pub(crate) again: Option<Box<Outgoing>>,
}

/// A call that is not done.
pub(crate) struct Entry {
    pub(crate) carrier: Carrier,
    /// Of a call that neither begins nor ends at this hub: its other half.
    pub(crate) through: Option<Box<Through>>,
    /// The end at this host.
    pub(crate) application: Number,
    pub(crate) id: CallId,
    /// The end at this host calls.
    pub(crate) is_outgoing: bool,
    /// It counts among those of [`RemoteLimits::calls_max`].
    is_counted: bool,
    /// Nobody at this end waits for it any more, and the hub at the other end has not let it go.
    pub(crate) is_void: bool,
    /// Messages that waited were dropped: its end is not to wait behind those before them.
    pub(crate) is_cut: bool,
    /// Bytes of messages that another hub has, and has not said that it has taken.
    pub(crate) untaken_bytes: usize,
    /// Until the transport has it.
    pub(crate) begin: Option<Box<Outgoing>>,
    pub(crate) items: VecDeque<RemoteItem>,
    /// Bytes of messages that wait, that of `begin` among them.
    pub(crate) bytes: usize,
    /// Bytes of the request that the transport has.
    pub(crate) carried_bytes: usize,
    /// The transport knows, or will be told, that something waits.
    pub(crate) is_told: bool,
    /// The transport has a message for which there was no room.
    pub(crate) is_refused: bool,
}

/// The calls that have one end beyond this host.
pub(crate) struct Remote {
    pub(crate) limits: RemoteLimits,
    pub(crate) calls: RemoteCalls<Entry>,
    names: Names,
    /// Calls to and from other hosts, those that pass this hub twice.
    counted: usize,
    /// What waits in calls that pass this hub, by the application that they are of.
    pub(crate) passing: Passing,
    /// What the transport is to do, and what the crossing is.
    pub(crate) queues: [VecDeque<Queued>; 2],
    /// By the peer's name.
    peers: HashMap<Arc<str>, u32>,
    /// The number of the next one.
    next_peer: u32,
    /// Which applications serve, as of [`Remote::known_changes`].
    pub(crate) exports: Exports,
    pub(crate) known_changes: u64,
    /// Of calls from other hubs: by server and method.
    pub(crate) routes: Routes,
    pub(crate) copies: Copies,
}

impl Remote {
    pub(crate) fn new(limits: RemoteLimits) -> Remote {
        Remote {
            limits,
            calls: RemoteCalls::default(),
            names: Names::default(),
            counted: 0,
            passing: Passing::default(),
            queues: Default::default(),
            peers: HashMap::new(),
            next_peer: CALLERS_FIRST,
            exports: Exports::new(),
            known_changes: u64::MAX,
            routes: Routes::default(),
            copies: Copies::default(),
        }
    }

    /// Whether another call to or from another host may begin.
    pub(crate) fn check_room(&self) -> Result<(), Status> {
        // Of each call there are a begin, a cancel and a notice of each kind in the queue at most;
        // of those that are over before the transport has looked, the begin stays.
        let is_full = self.counted >= self.limits.calls_max
            || self.queues[0].len() >= 4 * self.limits.calls_max;
        if is_full {
            return Err(Status::resource_exhausted("too many calls leave or enter this host"));
        }
        Ok(())
    }

    /// A call begins: from this hub, if there is something to begin with, which is told the
    /// call's name.
    pub(crate) fn insert(
        &mut self,
        (application, id): (Number, CallId),
        carrier: Carrier,
        begin: impl FnOnce(RemoteCall) -> Option<Box<Outgoing>>,
    ) -> RemoteCall {
        let call = self.names.take();
        let begin = begin(call);
        let is_outgoing = begin.is_some();
        let is_counted = carrier == Carrier::Transport || application == BEYOND;
        self.counted += usize::from(is_counted);
        let entry = Entry {
            carrier,
            through: None,
            is_counted,
            is_void: false,
            is_cut: false,
            untaken_bytes: 0,
            application,
            id,
            is_outgoing,
            begin,
            items: VecDeque::new(),
            bytes: 0,
            carried_bytes: 0,
            is_told: false,
            is_refused: false,
        };
        self.calls.insert(call, entry);
        if let Carrier::Nobody { until, bytes } = carrier {
            self.copies.insert(until, bytes, call);
        }
        call
    }

    /// A call is done.
    pub(crate) fn remove(&mut self, call: RemoteCall) -> Option<Entry> {
        let mut entry = self.calls.remove(call)?;
        self.names.release(call);
        if let Carrier::Nobody { until, bytes } = entry.carrier {
            self.copies.remove(until, bytes, call);
        }
        self.counted -= usize::from(entry.is_counted);
        self.passed(entry.through.as_deref().map(|through| through.payer), entry.bytes);
        if std::mem::take(&mut entry.is_refused) {
            tell(&mut self.queues, entry.carrier, Queued::Room(call));
        }
        Some(entry)
    }

    /// A call of this host's has passed its caller's policies. Gives the bytes that wait with it.
    pub(crate) fn queue_begin(
        &mut self,
        call: RemoteCall,
        (message, metadata, deadline): (Option<NativeMsg>, Metadata, Time),
    ) -> usize {
        let Some(entry) = self.calls.get_mut(call) else { return 0 };
        let Some(begin) = &mut entry.begin else { return 0 };
        let bytes = message.as_ref().map_or(0, |message| message.image_bytes());
        entry.bytes += bytes;
        if let Some(through) = &entry.through {
            self.passing.add(through.payer, bytes);
        }
        (begin.message, begin.metadata, begin.deadline) = (message, metadata, deadline);
        tell(&mut self.queues, entry.carrier, Queued::Begin(call));
        bytes
    }

    /// Queues something for the other end. Gives the bytes that wait with it.
    pub(crate) fn push(&mut self, call: RemoteCall, item: RemoteItem) -> usize {
        let Some(entry) = self.calls.get_mut(call) else { return 0 };
        if entry.is_void {
            return 0;
        }
        if matches!(entry.carrier, Carrier::Nobody { .. }) {
            if matches!(item, RemoteItem::End(_)) {
                self.remove(call);
            }
            return 0;
        }
        let bytes = item.bytes();
        entry.bytes += bytes;
        entry.items.push_back(item);
        if let Some(through) = &entry.through {
            self.passing.add(through.payer, bytes);
        }
        // What is not with the transport yet is looked at when it is.
        if !entry.is_told && entry.begin.is_none() {
            entry.is_told = true;
            tell(&mut self.queues, entry.carrier, Queued::Ready(call));
        }
        bytes
    }

    /// Messages of a call that another hub has count no more. Gives their bytes.
    pub(crate) fn take_untaken(&mut self, call: RemoteCall) -> usize {
        let entry = self.calls.get_mut(call);
        entry.map_or(0, |entry| std::mem::take(&mut entry.untaken_bytes))
    }

    /// A call has ended at this end, and the other one has messages that nobody takes: it ends
    /// there without them.
    pub(crate) fn cut_ended(&mut self, call: RemoteCall, end: RemoteEnd) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        entry.items.push_back(RemoteItem::End(end));
        tell(&mut self.queues, entry.carrier, Queued::Ready(call));
    }

    /// Drops the items of a call that wait for their carrier. Gives their bytes, and whether the
    /// call's end was among them.
    pub(crate) fn drop_waiting(&mut self, call: RemoteCall) -> (usize, bool) {
        let Some(entry) = self.calls.get_mut(call) else { return (0, false) };
        let had_end = matches!(entry.items.back(), Some(RemoteItem::End(_)));
        let bytes = entry.items.drain(..).map(|item| item.bytes()).sum();
        entry.bytes -= bytes;
        entry.is_cut = true;
        // What waited for a window to open does so no more: the end is told of again.
        entry.is_told = false;
        let payer = entry.through.as_deref().map(|through| through.payer);
        self.passed(payer, bytes);
        (bytes, had_end)
    }

    /// So many bytes of a half of a call wait no more, if the call passes this hub. Tells calls
    /// that were refused for what waits of their application, if that is little enough now.
    pub(crate) fn passed(&mut self, payer: Option<u32>, bytes: usize) {
        let Some(payer) = payer else { return };
        self.passing.remove(payer, bytes);
        for call in self.passing.take_refused(payer) {
            self.tell_room(call);
        }
    }

    /// A message for which there was no room may be offered again, if there is one.
    pub(crate) fn tell_room(&mut self, call: RemoteCall) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        if std::mem::take(&mut entry.is_refused) {
            tell(&mut self.queues, entry.carrier, Queued::Room(call));
        }
    }

    /// The caller, at this end, has given a call up. Gives what there was of it. A call that
    /// another hub has counts, with all that was under way, until that hub has let it go: otherwise
    /// letters of calls that begin and are given up would be without bounds.
    pub(crate) fn cancel(&mut self, call: RemoteCall) -> Option<Entry> {
        let entry = self.calls.get_mut(call)?;
        if matches!(entry.carrier, Carrier::Hub(_)) && entry.begin.is_none() {
            if !std::mem::replace(&mut entry.is_void, true) {
                entry.items.clear();
                entry.is_refused = false;
                tell(&mut self.queues, entry.carrier, Queued::Cancel(call));
            }
            return None;
        }
        let entry = self.remove(call)?;
        if entry.begin.is_none() {
            tell(&mut self.queues, entry.carrier, Queued::Cancel(call));
        }
        Some(entry)
    }

    /// The number of a peer, and its name if the number is new. Those that are too many share one.
    pub(crate) fn peer(&mut self, name: &str) -> (Peer, Option<Arc<str>>) {
        if let Some(number) = self.peers.get(name) {
            return (Peer(*number), None);
        }
        if self.peers.len() >= self.limits.peers_max || self.next_peer == u32::MAX {
            return (Peer(u32::MAX), None);
        }
        let (number, name) = (self.next_peer, Arc::<str>::from(name));
        self.next_peer += 1;
        self.peers.insert(name.clone(), number);
        (Peer(number), Some(name))
    }

    /// Peers that have numbers already.
    pub(crate) fn know_peers(&mut self, known: &[(u32, Arc<str>)]) {
        for (number, name) in known {
            self.peers.insert(name.clone(), *number);
            self.next_peer = self.next_peer.max(number.saturating_add(1));
        }
    }
}

impl RemoteItem {
    /// How many bytes it counts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            // Short ones take memory, too (D8).
            RemoteItem::Message(message) => message.image_bytes().max(COUNTED_BYTES_MIN as usize),
            RemoteItem::End(end) => end.message.as_ref().map_or(0, |message| message.image_bytes()),
            RemoteItem::Close | RemoteItem::Head(_) => 0,
        }
    }
}
