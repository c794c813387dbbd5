//! The transports of a service: its own, and those of applications that have one (ADR 21).
//!
//! The transport of an application has an address, a certificate, or both for that application
//! alone. The calls that the application makes leave by it. At its address, other hosts call the
//! application's services and no others, and they call these nowhere else. So applications may
//! serve the same at addresses of their own.
//!
//! Invariant: the name of the application is proved. A process that only says it gets nothing of
//! the transport: neither its certificate nor the calls that come in there.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::Refusals;
use petasos_base::Time;
use petasos_service::{Hub, ListenerId, Memory, RemoteEvent, RemoteLimits};

use super::Transport;
use super::config::{ApplicationTransport, Listeners, One, Peers, TransportConfig};
use crate::takeover::{Reach, Reached};

/// Applications with transports of their own. Each takes sockets, threads for their connections,
/// and a place in each turn of the service.
pub const APPLICATIONS_MAX: usize = 64;

/// All transports of a service.
pub struct TransportSet {
    /// The service's, and then those of applications.
    transports: Vec<Transport>,
    /// Of the applications: their names, in the same order.
    applications: Vec<Arc<str>>,
    /// By an application's name: where its calls leave.
    by_caller: HashMap<Arc<str>, usize>,
    peers: Peers,
}

impl TransportSet {
    /// Opens the addresses and lets calls leave the hub. With sockets of another process, those of
    /// each transport in order, others connect as of [`TransportSet::accept`].
    ///
    /// # Errors
    /// A text that says why it cannot.
    pub fn new<M: Memory>(
        config: TransportConfig,
        taken: Option<Vec<Listeners>>,
        hub: &mut Hub<M>,
    ) -> Result<TransportSet, String> {
        check_applications(&config.applications)?;
        let mut taken = taken.map(Vec::into_iter);
        let mut next_taken = || taken.as_mut().map(|taken| taken.next().unwrap_or_default());
        let peers = config.peers.clone();
        let mut transports = vec![Transport::new(of_service(&config), next_taken())?];
        let (mut applications, mut by_caller, mut listeners) = (Vec::new(), HashMap::new(), 0);
        for (number, of_one) in config.applications.iter().enumerate() {
            let (application, has_address) = (&of_one.application, of_one.has_address());
            listeners += u16::from(has_address);
            let listener = ListenerId(if has_address { listeners } else { u16::MAX });
            let transport = Transport::new(of_application(&config, of_one, listener), next_taken());
            transports
                .push(transport.map_err(|why| format!("application `{application}`: {why}"))?);
            let name: Arc<str> = application.as_str().into();
            by_caller.insert(name.clone(), number + 1);
            applications.push(name);
        }
        hub.allow_remote(RemoteLimits::default());
        let with_address = config.applications.iter().filter(|of_one| of_one.has_address());
        let names: Vec<&str> = with_address.map(|of_one| &*of_one.application).collect();
        hub.set_listeners(&names);
        reserve(&peers, hub)?;
        Ok(TransportSet { transports, applications, by_caller, peers })
    }

    /// Puts other hosts in the place of those that are known by name. Gives those, if anything
    /// changes. Calls that are under way go on.
    ///
    /// # Errors
    /// What is wrong with them. Nothing has changed then.
    pub fn set_peers<M: Memory>(
        &mut self,
        peers: Peers,
        hub: &mut Hub<M>,
    ) -> Result<Option<Peers>, String> {
        if self.peers == peers {
            return Ok(None);
        }
        let check = |transport: &Transport| transport.check_peers(&peers);
        let known = self.transports.iter().map(check).collect::<Result<Vec<_>, _>>()?;
        reserve(&peers, hub)?;
        for (transport, known) in self.transports.iter_mut().zip(known) {
            transport.within(|transport| transport.set_peers(known, &peers.believed));
        }
        Ok(Some(std::mem::replace(&mut self.peers, peers)))
    }

    /// Where others call which application, or all: targets.
    pub fn reached(&self) -> Vec<(Option<&str>, String)> {
        let mut all = Vec::new();
        for (number, transport) in self.transports.iter().enumerate() {
            let name = number.checked_sub(1).map(|number| &*self.applications[number]);
            let address = transport.local_address().map(|address| format!("petasos://{address}"));
            all.extend(
                address.into_iter().chain(transport.local_grpc_target()).map(|it| (name, it)),
            );
        }
        all
    }

    /// What counts what the ports of gRPC clients refuse.
    pub fn grpc_refusals(&self) -> Vec<Refusals> {
        self.transports.iter().filter_map(Transport::grpc_refusals).collect()
    }

    /// As of which count of the hub's exports others can call what applications serve.
    pub fn published(&self) -> Option<u64> {
        self.transports.iter().map(Transport::published).min().flatten()
    }

    /// Moves calls between the hub and the loops. Says whether anything moved.
    pub fn turn<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        for transport in self.transports.iter_mut().filter(|it| it.is_unpublished(hub)) {
            transport.within(|transport| transport.publish(hub));
        }
        while let Some(event) = hub.poll_remote() {
            let number = self.of(&event);
            self.transports[number].within(|transport| transport.hear_hub(hub, event, now));
        }
        let mut has_moved = false;
        for transport in &mut self.transports {
            has_moved |= transport.within(|transport| transport.turn(hub, now));
        }
        has_moved
    }

    /// The transport that a call is with, or leaves by.
    #[inline]
    fn of(&self, event: &RemoteEvent) -> usize {
        if self.applications.is_empty() {
            return 0;
        }
        let call = match event {
            RemoteEvent::Begin(call) if !call.is_proved => return 0,
            RemoteEvent::Begin(call) => {
                return self.by_caller.get(&call.caller).copied().unwrap_or(0);
            }
            RemoteEvent::Ready(call) | RemoteEvent::Cancel(call) | RemoteEvent::Room(call) => *call,
        };
        // Of one that is over, none knows anything.
        self.transports.iter().position(|transport| transport.has(call)).unwrap_or(0)
    }

    /// How long the daemon may sleep, unless one of the descriptors becomes readable; `None`
    /// without limit. To be called right before it sleeps.
    pub fn rest(&mut self) -> Option<Duration> {
        self.transports.iter_mut().filter_map(|it| it.within(Transport::rest)).min()
    }

    /// What becomes readable when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.transports.iter().map(Transport::as_fd)
    }

    /// Lets other hosts connect from now on, if they cannot yet.
    pub fn accept(&mut self) {
        self.transports.iter_mut().for_each(|it| it.within(Transport::accept));
    }

    /// Descriptors of the sockets at which others than this host's connect, for the process that
    /// takes over.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listeners(&self) -> std::io::Result<Vec<(Reached, OwnedFd)>> {
        let mut all = Vec::new();
        for (number, transport) in self.transports.iter().enumerate() {
            let application = number.checked_sub(1).map(|number| self.applications[number].clone());
            let its = |(reach, file): (Reach, OwnedFd)| {
                (Reached { reach, application: application.clone() }, file)
            };
            all.extend(transport.share_listeners()?.into_iter().map(its));
        }
        Ok(all)
    }

    /// Leaves the addresses to the process that has taken over, and tells those who are connected.
    /// What they have begun has `grace` to end.
    pub fn hand_over(&mut self, grace: Duration, now: Time) {
        for transport in &mut self.transports {
            transport.within(|transport| transport.hand_over(grace, now));
        }
    }

    /// Whether no call of another host is under way, and none will come.
    pub fn has_nothing_left(&mut self, now: Time) -> bool {
        let mut is_left = true;
        for transport in &mut self.transports {
            // Each is asked: it may have to refuse what comes now.
            is_left &= transport.within(|transport| transport.has_nothing_left(now));
        }
        is_left
    }
}

impl ApplicationTransport {
    fn has_address(&self) -> bool {
        self.listen.is_some() || self.listen_grpc.is_some()
    }
}

fn check_applications(all: &[ApplicationTransport]) -> Result<(), String> {
    match all.len() {
        0..=APPLICATIONS_MAX => Ok(()),
        len => Err(format!(
            "{len} applications have a `transport` of their own: at most {APPLICATIONS_MAX} may"
        )),
    }
}

fn of_service(config: &TransportConfig) -> One<'_> {
    One {
        listen: config.listen,
        listen_grpc: config.listen_grpc,
        grpc_message_bytes: config.grpc_message_bytes,
        packets: config.packets.clone(),
        security: config.security.clone(),
        peers: &config.peers,
        listener: ListenerId::default(),
        vouches: true,
    }
}

fn of_application<'a>(
    config: &'a TransportConfig,
    of_one: &ApplicationTransport,
    listener: ListenerId,
) -> One<'a> {
    One {
        listen: of_one.listen,
        listen_grpc: of_one.listen_grpc,
        security: of_one.security.clone().unwrap_or_else(|| config.security.clone()),
        listener,
        vouches: of_one.security.is_none(),
        ..of_service(config)
    }
}

/// What the operator has for another host is not an application's to serve.
fn reserve<M: Memory>(peers: &Peers, hub: &mut Hub<M>) -> Result<(), String> {
    let names: Vec<&str> = peers.peers.iter().map(|(name, _)| &**name).collect();
    hub.reserve(&names).map_err(|error| error.to_string())
}
