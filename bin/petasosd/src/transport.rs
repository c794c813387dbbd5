//! Calls to and from other hosts, over Petasos datagrams and over gRPC (`grpc`).
//!
//! The daemon's thread has a loop of the public API, which it turns between turns of the hub, and
//! one for each application that has a transport of its own (`set`). All that a transport does with
//! its loop, it does [within](Transport::within) it.
//! Unary calls are events there (`relayed`). Each stream is a future: of a channel if it leaves, of
//! a handler if it comes in. A future talks to this module through a port (`mail`), and only this
//! module talks to the hub.
//!
//! The wire is the ordinary protocol: at the other end may be any Petasos server or client.
//! Messages of unary calls travel as the images that the hub has checked, if the other end agrees
//! (R4), and those of streams as protobuf.
//!
//! Other hosts call services by their names. If several applications serve one, the one that
//! attached first is called. A service stays known when its application has gone: calls of it end
//! with `UNAVAILABLE` until somebody serves it again. Another version replaces it.
//!
//! Invariant: descriptors of services, with their schemas, are there while applications that call
//! or serve them are (`channels`, `exported`). What stays after that are names and numbers
//! (`known`), so that no application can use up what there is of descriptors for good.

mod changing;
mod channels;
mod config;
mod exported;
mod grpc;
mod known;
mod leaving;
mod mail;
mod messages;
mod outgoing;
mod relayed;
mod rooms;
mod sealing;
mod serving;
mod set;
mod succession;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::Refusals;
use petasos::relay::{CallKey, RequestName};
use petasos::{Loop, LoopConfig, ServiceChoice, Status};
use petasos_base::Time;
use petasos_service::{
    Encoded, Hub, Incoming, ListenerId, Memory, Outgoing, RemoteCall, RemoteCalls, RemoteEvent,
    RemoteItem, RemoteOutcome,
};

use crate::names::take_caller;

use channels::{Channels, KnownPeers};
use config::One;
pub use config::{
    ApplicationTransport, Carried, Carrier, Certificate, Listeners, Peers, TransportConfig,
};
use exported::Exported;
use grpc::{Grpc, Listen};
pub use grpc::{client_config, is_grpc};
use mail::{Begun, Ended, Inbox, Item, Port, Said};
use messages::{encoded, end_item, failure};
use relayed::{Caller, Requests, Seen};
use sealing::is_secured;
pub use set::TransportSet;
use succession::Succession;

/// With calls under way, the loop is turned at least so often: a turn is a system call.
const BUSY_EVERY: Duration = Duration::from_micros(2);
/// The same, without.
const IDLE_EVERY: Duration = Duration::from_millis(1);
/// Calls come one after another: so long after one, the next is looked for as if it were there.
const WARM: Duration = Duration::from_millis(1);
/// Turns at a time before the daemon sleeps, or a transport goes.
const TURNS_MAX: u32 = 64;

/// How a call that is not over goes on.
enum Handle {
    /// By a future.
    Future(Arc<Port>),
    /// A unary one that has left.
    Call(CallKey),
    /// A unary one that has come in.
    Request(RequestName),
}

/// The transport of calls to and from other hosts: of all applications, or of one.
pub struct Transport {
    event_loop: Loop,
    grpc: Grpc,
    descriptor: OwnedFd,
    channels: Channels,
    inbox: Arc<Inbox>,
    /// Calls that are not over.
    handles: RemoteCalls<Handle>,
    requests: Requests,
    /// Messages for which their applications had no room. The hub says when there is.
    waiting: RemoteCalls<(Arc<Port>, Vec<u8>)>,
    /// By name: services that applications serve, or have served.
    served: HashMap<Arc<str>, Exported>,
    /// As of which change of the hub's exports.
    served_changes: Option<u64>,
    listener: ListenerId,
    /// The hub has wanted something since the last turn.
    has_heard: bool,
    /// When the loop is turned next.
    due: Time,
    /// Until when it is turned as often as with calls under way.
    warm_until: Time,
    succession: Succession,
}

impl Transport {
    /// Opens the addresses. With sockets of another process, others connect as of
    /// [`Transport::accept`].
    ///
    /// # Errors
    /// A text that says why it cannot.
    pub fn new(config: One<'_>, listeners: Option<Listeners>) -> Result<Transport, String> {
        let One { listen, packets: transport, nic, security, peers, .. } = config;
        let (listen_grpc, message_bytes_max) = (config.listen_grpc, config.grpc_message_bytes);
        let succession = Succession::new(listeners.is_none());
        let Listeners { hosts, grpc } = listeners.unwrap_or_default();
        // The service's own calls go through no service.
        let service = ServiceChoice::Direct;
        let loop_config = LoopConfig {
            listen,
            ip: nic,
            transport,
            security: security.clone(),
            service,
            ..LoopConfig::default()
        };
        let event_loop = match hosts {
            Some(hosts) => Loop::adopt(loop_config, hosts),
            None => Loop::new(loop_config),
        };
        let event_loop =
            event_loop.map_err(|error| format!("cannot open the transport: {error}"))?;
        let descriptor = event_loop.descriptor();
        let descriptor = descriptor.map_err(|error| format!("cannot wait for packets: {error}"))?;
        event_loop.accept_sessions().map_err(|error| error.to_string())?;
        let taken = grpc;
        let port = listen_grpc.map(|address| Listen { address, taken, message_bytes_max });
        let grpc = Grpc::new(&security, port, &event_loop)?;
        let channels = Channels::new(&peers.peers, (config.vouches, is_secured(&security)), &grpc)?;
        event_loop.runtime().step_aside();
        Ok(Transport {
            event_loop,
            descriptor,
            channels,
            grpc,
            inbox: Arc::default(),
            handles: RemoteCalls::default(),
            requests: Requests::believing(peers.believed.clone(), config.listener),
            listener: config.listener,
            waiting: RemoteCalls::default(),
            served: HashMap::new(),
            served_changes: None,
            has_heard: false,
            due: Time::ZERO,
            warm_until: Time::ZERO,
            succession,
        })
    }

    /// Does something with the loop as the thread's. Between these, the thread has none: it has one
    /// at a time, and there may be several transports.
    #[inline]
    pub fn within<R>(&mut self, work: impl FnOnce(&mut Transport) -> R) -> R {
        self.event_loop.runtime().step_in();
        let result = work(self);
        self.event_loop.runtime().step_aside();
        result
    }

    /// What [`Transport::set_peers`] takes, if nothing is wrong with it.
    ///
    /// # Errors
    /// What is.
    pub fn check_peers(&self, peers: &Peers) -> Result<KnownPeers, String> {
        Channels::check_peers(&peers.peers, &self.grpc)
    }

    /// Puts other hosts in the place of those that are known by name. Calls that are under way go
    /// on.
    pub fn set_peers(&mut self, known: KnownPeers, believed: &[String]) {
        self.channels.set_peers(known);
        self.requests.believe(believed.to_vec());
    }

    /// Where other hosts call, if anywhere.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.event_loop.local_address()
    }

    /// Where others connect.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.local_address().into_iter().chain(self.grpc.local_address())
    }

    /// What counts what the port of gRPC clients refuses, if there is one.
    pub fn grpc_refusals(&self) -> Option<Refusals> {
        self.grpc.refusals()
    }

    /// The target that gRPC clients call, if there is one.
    pub fn local_grpc_target(&self) -> Option<String> {
        self.grpc.local_target()
    }

    /// As of which count of the hub's exports others can call what applications serve.
    pub fn published(&self) -> Option<u64> {
        self.served_changes
    }

    /// Whether a call is this transport's.
    pub fn has(&self, call: RemoteCall) -> bool {
        self.handles.get(call).is_some()
    }

    /// Does what the hub wants done with a call.
    pub fn hear_hub<M: Memory>(&mut self, hub: &mut Hub<M>, event: RemoteEvent, now: Time) {
        self.has_heard = true;
        match event {
            RemoteEvent::Begin(call) => self.begin(hub, *call, now),
            RemoteEvent::Ready(call) => self.feed(hub, call, now),
            RemoteEvent::Cancel(call) => match self.handles.remove(call) {
                Some(Handle::Future(port)) => port.cancel(),
                Some(Handle::Call(key)) => self.event_loop.give_up_relayed(key),
                // What has come in is not the hub's to cancel.
                Some(Handle::Request(_)) | None => {}
            },
            RemoteEvent::Room(call) => {
                if let Some((port, bytes)) = self.waiting.remove(call) {
                    self.offer(hub, port, bytes, now);
                }
            }
        }
    }

    /// Whether something that applications serve may have changed.
    #[inline]
    pub fn is_unpublished<M: Memory>(&self, hub: &Hub<M>) -> bool {
        self.served_changes != Some(hub.export_changes())
    }

    /// Publishes what is served, before the turn in which calls of it may come in.
    pub fn publish<M: Memory>(&mut self, hub: &Hub<M>) {
        // As of before the look: a change that comes meanwhile is seen in the next turn.
        self.served_changes = Some(hub.export_changes());
        self.requests.forget_routes();
        self.serve(hub);
        self.channels.note_change();
    }

    /// Moves calls between the hub and the loop, after the hub was heard. Says whether anything
    /// moved.
    pub fn turn<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        let mut has_moved = std::mem::take(&mut self.has_heard);
        if has_moved || now >= self.due {
            let wait = self.event_loop.turn_ready(1);
            if !self.handles.is_empty() {
                self.warm_until = now + WARM;
            }
            let every = if now < self.warm_until { BUSY_EVERY } else { IDLE_EVERY };
            self.due = now + wait.map_or(every, |wait| wait.min(every));
        }
        has_moved |= self.hear_events(hub, now);
        while let Some(said) = self.inbox.pop() {
            has_moved = true;
            self.hear(hub, said, now);
        }
        self.grpc.begin_turn();
        while let Some(said) = self.grpc.hear() {
            has_moved = true;
            self.hear(hub, said, now);
        }
        has_moved
    }

    /// How long the daemon may sleep, unless the transport's descriptor becomes readable; `None`
    /// without limit. To be called right before it sleeps.
    pub fn rest(&mut self) -> Option<Duration> {
        self.channels.let_go_of_changed();
        // What futures say in these turns is heard in the next turn of the daemon.
        let wait = self.event_loop.turn_ready(TURNS_MAX);
        self.due = Time::ZERO;
        let is_heard = self.inbox.is_empty() && self.grpc.is_quiet();
        let is_heard = is_heard && !self.event_loop.has_events();
        if is_heard { wait } else { Some(Duration::ZERO) }
    }

    /// Begins a call to another host.
    fn begin<M: Memory>(&mut self, hub: &mut Hub<M>, call: Outgoing, now: Time) {
        let number = call.call;
        let ends = (&self.event_loop, &self.grpc);
        let begun = self.channels.begin(call, ends, &self.inbox, now);
        self.begun(hub, number, begun, now);
    }

    fn begun<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        number: RemoteCall,
        begun: Result<Handle, Status>,
        now: Time,
    ) {
        match begun {
            Ok(handle) => self.handles.insert(number, handle),
            // Nothing was sent.
            Err(status) => hub.remote_end(number, failure(status, true), now),
        }
    }

    /// Gives a call's future the next item, if there is one and room for it.
    fn feed<M: Memory>(&mut self, hub: &mut Hub<M>, call: RemoteCall, now: Time) {
        let port = match self.handles.get(call) {
            Some(Handle::Future(port)) if port.is_free() => port.clone(),
            Some(Handle::Request(name)) => return self.answer(hub, (call, *name)),
            _ => return,
        };
        let Some(item) = hub.next_remote_item(call) else { return };
        let item = match item {
            RemoteItem::Message(message) => encoded(&message).map(Item::Message),
            RemoteItem::Close => Ok(Item::Close),
            RemoteItem::Head(metadata) => Ok(Item::Head(metadata)),
            RemoteItem::End(end) => {
                self.handles.remove(call);
                Ok(end_item(end))
            }
        };
        match item {
            Ok(item) => port.put(item),
            Err(status) => self.give_up(hub, &port, status, now),
        }
    }

    /// Ends a call at both ends that has a message which cannot be sent.
    fn give_up<M: Memory>(&mut self, hub: &mut Hub<M>, port: &Port, status: Status, now: Time) {
        let Some(call) = port.call() else { return };
        self.handles.remove(call);
        // One of the two knows the call.
        hub.remote_end(call, failure(status.clone(), false), now);
        hub.remote_cancel(call, now);
        port.put(Item::End {
            result: Err(status),
            metadata: <_>::default(),
            trailers: <_>::default(),
        });
        port.cancel();
    }

    fn hear<M: Memory>(&mut self, hub: &mut Hub<M>, said: Said, now: Time) {
        match said {
            Said::Begun(port, begun) => self.come_in(hub, &port, *begun, now),
            Said::Message(port, bytes) => self.offer(hub, port, bytes, now),
            Said::Closed(port) => self.with(&port, |call| hub.remote_close(call, now)),
            Said::Head(port, metadata) => {
                self.with(&port, |call| hub.remote_head(call, metadata, now));
            }
            Said::Ended(port, ended) => {
                let Ended { result, metadata, trailers } = *ended;
                let result = result.as_deref().map_err(Status::clone);
                let result = result.map(|bytes| Some(Encoded::Protobuf(bytes)));
                let outcome = RemoteOutcome { result, has_not_run: false, metadata, trailers };
                self.with(&port, |call| hub.remote_end(call, outcome, now));
                self.forget(&port);
            }
            Said::Taken(port) => {
                if let Some(call) = port.call() {
                    self.feed(hub, call, now);
                }
            }
            Said::Left(port) => {
                // Of one that was answered, nothing is known any more.
                self.with(&port, |call| hub.remote_cancel(call, now));
                self.forget(&port);
            }
        }
    }

    /// A call has come in.
    fn come_in<M: Memory>(&mut self, hub: &mut Hub<M>, port: &Arc<Port>, begun: Begun, now: Time) {
        let Begun { service, method, message, metadata, timeout, peer, is_proved, is_sealed } =
            begun;
        let deadline = timeout.map_or(Time::NEVER, |timeout| now + timeout);
        let mut metadata = metadata;
        let said = take_caller(&mut metadata);
        let caller = self.requests.seen(Caller { name: peer, is_proved, is_sealed }, said);
        let Seen { name, identity } = caller;
        let (message, peer, listener) = (message.as_deref(), name.as_str(), self.listener);
        let incoming = Incoming {
            listener,
            service: &service,
            method: &method,
            message,
            metadata,
            deadline,
            peer,
            identity,
            is_sealed,
        };
        match hub.begin_remote(incoming, now) {
            Ok(call) => {
                port.set_call(call);
                self.handles.insert(call, Handle::Future(port.clone()));
            }
            Err(status) => {
                let (metadata, trailers) = Default::default();
                port.put(Item::End { result: Err(status), metadata, trailers });
            }
        }
    }

    /// Hands a message over, or keeps it until its application has room.
    fn offer<M: Memory>(&mut self, hub: &mut Hub<M>, port: Arc<Port>, bytes: Vec<u8>, now: Time) {
        // A call that did not begin takes anything.
        if let Some(call) = port.call() {
            if !hub.has_room_for_remote(call) {
                return self.waiting.insert(call, (port, bytes));
            }
            hub.remote_message(call, &bytes, now);
        }
        port.accept();
    }

    fn with(&self, port: &Port, what: impl FnOnce(RemoteCall)) {
        if let Some(call) = port.call().filter(|call| self.handles.get(*call).is_some()) {
            what(call);
        }
    }

    fn forget(&mut self, port: &Port) {
        if let Some(call) = port.call() {
            self.handles.remove(call);
            self.waiting.remove(call);
        }
    }
}

impl Drop for Transport {
    /// What is dropped with the loop has to find it.
    fn drop(&mut self) {
        // Whatever was under way when the thread panicked.
        self.event_loop.runtime().step_aside();
        self.event_loop.runtime().step_in();
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests;
