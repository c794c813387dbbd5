//! Calls that come in from other hosts.

use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{Metadata, Status};
use petasos_engine::{Application as Number, Call, Direction, ItemKind, Peer, Submission};
use petasos_schema::Hash;

use super::handing::decode;
use crate::Binding;
use crate::application::{Body, Memory};
use crate::beyond::{Encoded, Outgoing, Remote, RemoteCaller, ToHub, far};
use crate::carrier::Carrier;
use crate::host::{Export, HubId, ListenerId};
use crate::hub::{Hub, served};
use crate::incoming::attempt;
use crate::known::Known;
use crate::remote_calls::RemoteCall;
use crate::routes::Route;
use crate::schemas::MethodAt;
use crate::stats::Way;
use crate::versions::retyped;

/// A call from another host.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Where it has come in.
    pub listener: ListenerId,
    /// The full name of the service.
    pub service: &'a str,
    /// The method, without the service.
    pub method: &'a str,
    /// The request of a unary call, in protobuf's encoding; none of a stream.
    pub message: Option<&'a [u8]>,
    /// From the caller.
    pub metadata: Metadata,
    /// When its time is up; [`Time::NEVER`] for none.
    pub deadline: Time,
    /// Who calls, so far as that tells callers from each other: a proved name, or an address.
    pub peer: &'a str,
    /// The caller's name, if it is proved.
    pub identity: Option<Arc<str>>,
    /// Its packets are encrypted.
    pub is_sealed: bool,
}

/// Which application's method serves calls from other hosts. To be used until
/// [`Hub::export_changes`] changes.
#[derive(Clone, Debug)]
pub struct RouteIn {
    export: Export,
    /// In its binding.
    method: u16,
}

impl RouteIn {
    /// The types of requests and responses, by the schema of the application that serves them.
    pub fn message_hashes(&self) -> [Hash; 2] {
        let binding = &self.export.binding;
        binding.message_hashes(&binding.methods[usize::from(self.method)])
    }
}

/// A call that an application of this hub serves.
pub(super) struct Served {
    pub(super) server: Number,
    pub(super) at: MethodAt,
    /// The number by which its descriptors name the caller.
    pub(super) partner: u32,
    pub(super) is_idempotent: bool,
    pub(super) carrier: Carrier,
    pub(super) way: Way,
}

impl<M: Memory> Hub<M> {
    /// A call has come in. It goes through the policies of the application that serves it.
    ///
    /// # Errors
    /// It does not begin, and has not run: `UNAVAILABLE` if no application serves it.
    pub fn begin_remote(
        &mut self,
        incoming: Incoming<'_>,
        now: Time,
    ) -> Result<RemoteCall, Status> {
        let Incoming { service, method, message, metadata, deadline, .. } = incoming;
        let route = self.route_in(incoming.listener, (service, method), message.is_none())?;
        let Incoming { peer, identity, is_sealed, .. } = incoming;
        let caller = RemoteCaller { peer: self.remote_peer(peer), identity, is_sealed };
        let message = message.map(Encoded::Protobuf);
        self.begin_routed(&route, caller, (message, metadata, deadline), now)
    }

    /// The number of a caller: a proved name, or an address.
    pub fn remote_peer(&mut self, name: &str) -> Peer {
        let remote = self.remote.as_mut().expect("calls come in from a transport");
        let (peer, new) = remote.peer(name);
        if let Some(name) = new {
            self.host.add_caller(peer, name);
        }
        peer
    }

    /// Who serves a method of a service for other hosts that call at a listener.
    ///
    /// # Errors
    /// `UNAVAILABLE` if no application does, `UNIMPLEMENTED` if it has no such method.
    pub fn route_in(
        &mut self,
        listener: ListenerId,
        (service, method): (&str, &str),
        is_stream: bool,
    ) -> Result<RouteIn, Status> {
        self.refresh_exports();
        let remote = self.remote.as_ref().expect("calls come in from a transport");
        let unavailable = || Status::unavailable("no application serves this");
        let export =
            remote.exports.get(usize::from(listener.0)).and_then(|there| there.get(service));
        let export = export.ok_or_else(unavailable)?;
        let method = method_index(&export.binding, method, is_stream)?;
        Ok(RouteIn { export: export.clone(), method })
    }

    /// Like [`Hub::begin_remote`], of a call whose server is known: with its message if it is
    /// unary, its metadata, and its deadline.
    ///
    /// # Errors
    /// The same.
    pub fn begin_routed(
        &mut self,
        route: &RouteIn,
        caller: RemoteCaller,
        (message, metadata, deadline): (Option<Encoded<'_>>, Metadata, Time),
        now: Time,
    ) -> Result<RemoteCall, Status> {
        let Export { server, number, binding, message_bytes_max, .. } = &route.export;
        if server.hub != self.id {
            let to = (&route.export, route.method);
            return self.begin_inward(to, caller, (message, metadata, deadline));
        }
        let method = &binding.methods[usize::from(route.method)];
        let read = |encoded| decode(&binding.types, method.request, encoded, *message_bytes_max);
        let body = message.map(read).transpose()?;
        let served = Served {
            server: server.application,
            at: MethodAt { binding: *number, method: route.method },
            partner: caller.peer.0,
            is_idempotent: method.is_idempotent,
            carrier: Carrier::Transport,
            way: Way::FromRemote,
        };
        self.begin_served(served, caller, (body, metadata, deadline), now)
    }

    /// Whether the application is here that a call from another hub is for.
    pub(crate) fn has_server(&self, outgoing: &Outgoing) -> bool {
        let server = outgoing.crossing.as_ref().and_then(|crossing| crossing.server);
        server.is_none_or(|server| self.applications.get(&server.0).is_some())
    }

    /// Whether another attachment serves under the name of a call now, which goes there then. Gives
    /// the hub.
    pub(crate) fn server_again(&self, outgoing: &mut Outgoing) -> Option<HubId> {
        let crossing = outgoing.crossing.as_mut().filter(|crossing| crossing.is_of_host)?;
        let server = self.host.server(&outgoing.target)?;
        let before = crossing.server.replace(server.application);
        crossing.hub = server.hub;
        (before != crossing.server).then_some(server.hub)
    }

    /// A call of another hub's application, or of another host that another hub talks to.
    pub(crate) fn begin_crossed(
        &mut self,
        from: HubId,
        outgoing: Outgoing,
        now: Time,
    ) -> Result<RemoteCall, Status> {
        let to = outgoing.crossing.as_ref().expect("a call from another hub says so");
        let Some(server) = to.server else { return self.begin_outward(from, outgoing) };
        // The crossing has looked: see `has_server`.
        let gone = || Status::unavailable("the server has gone");
        let callee = self.applications.get(&server.0).ok_or_else(gone)?;
        let wanted = (server.0, outgoing.method().id);
        let changes = self.host.changes();
        let remote = self.remote.as_mut().expect("the crossing has brought it");
        let at = match remote.routes.get(wanted, changes) {
            Some(Route::Here { method, .. }) => method,
            _ => {
                let index = usize::from(outgoing.method);
                let method = served(&self.host, callee, &outgoing.binding, index)?;
                remote.routes.insert(wanted, changes, Route::Here { server, method });
                method
            }
        };
        let Outgoing { message, metadata, deadline, is_idempotent, crossing, .. } = outgoing;
        let ToHub { caller, partner, is_of_host, .. } = *crossing.expect("it was just there");
        let to = (callee.types(at), callee.method(at).request);
        let body = message.map(|message| retyped(message, to, callee.limits.message_bytes_max));
        let body = body.transpose()?;
        let way = if is_of_host { Way::FromLocal } else { Way::FromRemote };
        let carrier = Carrier::Hub(from);
        let served = Served { server, at, partner, is_idempotent, carrier, way };
        self.begin_served(served, caller, (body, metadata, deadline), now)
    }

    /// Begins a call in the datapath of the application that serves it.
    pub(super) fn begin_served(
        &mut self,
        served: Served,
        caller: RemoteCaller,
        (body, metadata, deadline): (Body, Metadata, Time),
        now: Time,
    ) -> Result<RemoteCall, Status> {
        if served.carrier == Carrier::Transport {
            self.remote.as_ref().expect("a carrier has brought it").check_room()?;
        }
        let Served { server, at, partner, is_idempotent, carrier, way } = served;
        let unavailable = || Status::unavailable("no application serves this");
        let callee = self.applications.get_mut(&server.0).ok_or_else(unavailable)?;
        let full = || Status::resource_exhausted("the server takes no more calls now");
        if !callee.takes_calls() {
            return Err(full());
        }
        let method = callee.method(at);
        let RemoteCaller { peer, identity, is_sealed } = caller;
        let began = Call {
            application: callee.policed.number,
            peer,
            method: method.id,
            requests: Direction::Inbound,
            is_stream: method.is_stream,
            is_idempotent,
            is_sealed,
            attempt: attempt(&metadata),
            began: now,
            deadline,
            identity,
        };
        let id = callee.datapath.begin(began).map_err(|_| full())?;
        let number = callee.next_number();
        let remote = self.remote.as_mut().expect("it was there");
        let call = remote.insert((server, id), carrier, |_| None);
        let mut known = Known::new((id, number), (at, partner), now);
        known.far = Some(far(call));
        callee.remember_served(known, way);
        let bytes = body.as_ref().map_or(0, |body| body.image_bytes() as u32);
        let request = Submission::new(ItemKind::Request, Direction::Inbound, bytes);
        let item = Submission { metadata, ..request };
        callee.submit(id, item, body, now).expect("the call has just begun");
        Ok(call)
    }

    /// The caller sends no more messages.
    pub fn remote_close(&mut self, call: RemoteCall, now: Time) {
        if self.remote_entry(call).is_some_and(|entry| !entry.is_outgoing) {
            let close = Submission::new(ItemKind::Close, Direction::Inbound, 0);
            self.hand_in(call, close, None, now);
        }
    }

    /// Nobody waits any more for a call that has come in.
    pub fn remote_cancel(&mut self, call: RemoteCall, now: Time) {
        if self.remote_entry(call).is_some_and(|entry| !entry.is_outgoing) {
            let cancel = Submission::new(ItemKind::Cancel, Direction::Inbound, 0);
            self.hand_in(call, cancel, None, now);
            self.forget_remote(call);
        }
    }

    /// Other hosts call the applications that have proved these names at listeners of their own,
    /// and at no other: the first at `ListenerId(1)`, and so on. Nobody is called at a listener
    /// that has no name.
    pub fn set_listeners(&self, applications: &[Option<Arc<str>>]) {
        self.host.set_listeners(applications);
    }

    /// What applications of this host serve at a listener, each service once: that of the
    /// application that has attached first, if several serve it.
    pub fn exports(&self, listener: ListenerId) -> Vec<Arc<Binding>> {
        let there = self.host.exports().into_iter().nth(usize::from(listener.0));
        there.into_iter().flatten().map(|(_, export)| export.binding).collect()
    }

    /// Changes whenever [`Hub::exports`] may.
    pub fn export_changes(&self) -> u64 {
        self.host.changes()
    }

    fn refresh_exports(&mut self) {
        let changes = self.host.changes();
        if let Some(remote) = &mut self.remote
            && remote.known_changes != changes
        {
            (remote.exports, remote.known_changes) = (self.host.exports(), changes);
        }
    }

    /// Drops what is known of what applications serve, and with it the schemas of those that have
    /// gone.
    pub(crate) fn forget_exports(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.exports.clear();
            remote.known_changes = u64::MAX;
        }
    }

    /// The same, if it is old.
    #[inline]
    pub(crate) fn forget_old_exports(&mut self) {
        let changes = self.host.changes();
        let is_old =
            |remote: &Remote| remote.known_changes != changes && !remote.exports.is_empty();
        if self.remote.as_ref().is_some_and(is_old) {
            self.forget_exports();
        }
    }
}

fn method_index(binding: &Binding, method: &str, is_stream: bool) -> Result<u16, Status> {
    // Names of methods ascend behind the service's and a slash.
    let start = binding.service.len() + 1;
    let found = binding.methods.binary_search_by(|known| known.name[start..].cmp(method));
    let index = found.map_err(|_| Status::unimplemented("the server has no such method"))?;
    if binding.methods[index].is_stream != is_stream {
        return Err(Status::unimplemented("the server's method has other streams"));
    }
    Ok(u16::try_from(index).expect("a binding has fewer methods"))
}
