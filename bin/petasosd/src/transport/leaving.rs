//! Transports whose place others have taken, or nothing, until what they have begun has ended.
//!
//! They leave as at a takeover (ADR 20): others hear that there is a successor, what is under way
//! goes on where it has begun, and new requests of who does not know successors are refused after a
//! second.
//!
//! Invariant: a transport that leaves takes no call of an application of this host.

use std::net::SocketAddr;
use std::time::Duration;

use petasos::Status;
use petasos_base::Time;
use petasos_service::{Hub, ListenerId, Memory, RemoteCall, RemoteCalls};

use super::messages::failure;
use super::relayed::refusal;
use super::{Handle, TURNS_MAX, Transport};

/// While transports leave, the daemon looks at them so often at least.
const LOOK: Duration = Duration::from_millis(10);

/// Those that leave.
#[derive(Default)]
pub(super) struct Leaving {
    /// Each with the time by which what has not ended is ended.
    transports: Vec<(Transport, Time)>,
}

impl Leaving {
    pub(super) fn is_empty(&self) -> bool {
        self.transports.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.transports.len()
    }

    /// A transport takes no more calls. Those that it has may take so long.
    pub(super) fn add(&mut self, mut transport: Transport, drain: Duration, now: Time) {
        transport.within(|transport| transport.hand_over(drain, now));
        self.transports.push((transport, now + drain));
    }

    /// Whether calls may still come in at a listener.
    pub(super) fn has_listener(&self, id: ListenerId) -> bool {
        self.iter().any(|transport| transport.listener == id)
    }

    /// Whether others have connected there.
    pub(super) fn has_address(&self, at: SocketAddr) -> bool {
        self.iter().any(|transport| transport.addresses().any(|had| had == at))
    }

    /// The transport that a call is with.
    pub(super) fn of(&mut self, call: RemoteCall) -> Option<&mut Transport> {
        self.iter_mut().find(|transport| transport.has(call))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Transport> {
        self.transports.iter().map(|(transport, _)| transport)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Transport> {
        self.transports.iter_mut().map(|(transport, _)| transport)
    }

    /// After what time they have to be looked at, if there are any.
    pub(super) fn rest(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(LOOK)
    }

    /// Goes on with what is under way. Says whether anything moved.
    #[inline]
    pub(super) fn turn<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        !self.is_empty() && self.turn_each(hub, now)
    }

    #[cold]
    fn turn_each<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        let mut has_moved = false;
        self.transports.retain_mut(|(transport, until)| {
            let is_over = transport.within(|transport| {
                if transport.is_unpublished(hub) {
                    transport.publish(hub);
                }
                has_moved |= transport.turn(hub, now);
                let is_late = now >= *until;
                if is_late {
                    transport.give_up_all(hub, now);
                    // What they are told leaves with it.
                    transport.event_loop.turn_ready(TURNS_MAX);
                }
                is_late || transport.has_nothing_left(now)
            });
            !is_over
        });
        has_moved
    }
}

impl Transport {
    /// Ends all calls at both ends.
    fn give_up_all<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) {
        let calls: Vec<RemoteCall> = self.handles.iter().map(|(call, _)| call).collect();
        for call in calls {
            let status = || Status::unavailable("the transport was replaced, and time was up");
            match self.handles.get(call) {
                Some(Handle::Future(port)) => {
                    let port = port.clone();
                    self.give_up(hub, &port, status(), now);
                }
                Some(Handle::Call(key)) => {
                    self.event_loop.give_up_relayed(*key);
                    hub.remote_end(call, failure(status(), false), now);
                }
                Some(Handle::Request(name)) => {
                    self.event_loop.reply(*name, refusal(status()));
                    hub.remote_cancel(call, now);
                }
                None => {}
            }
        }
        self.handles = RemoteCalls::default();
    }
}
