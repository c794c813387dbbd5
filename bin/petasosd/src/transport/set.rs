//! The transports of a service: its own, and those of applications that have one (ADR 21).
//!
//! The transport of an application has an address, a certificate, or both for that application
//! alone. The calls that the application makes leave by it. At its address, other hosts call the
//! application's services and no others, and they call these nowhere else. So applications may
//! serve the same at addresses of their own.
//!
//! They may change while calls run (`changing`).
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

use super::config::{
    ApplicationTransport, Carried, Carrier, Listeners, One, Peers, TransportConfig,
};
use super::leaving::Leaving;
use super::sealing::Ways;
use super::{Transport, is_grpc};
use crate::takeover::{Reach, Reached};

/// Applications with transports of their own. Each takes sockets, threads for their connections,
/// and a place in each turn of the service.
pub const APPLICATIONS_MAX: usize = 64;

/// All transports of a service.
pub struct TransportSet {
    /// With the applications of now.
    pub(super) config: TransportConfig,
    /// The service's, and then those of applications, in the configuration's order.
    pub(super) transports: Vec<Transport>,
    /// By an application's name: where its calls leave.
    by_caller: HashMap<Arc<str>, usize>,
    /// Who is called where.
    pub(super) listeners: Vec<Option<Arc<str>>>,
    /// Those that others have taken the place of, or nothing.
    pub(super) leaving: Leaving,
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
        let mut transports =
            vec![Transport::new(of_service(&config, config.carrier)?, next_taken())?];
        let mut listeners = Vec::new();
        for its in &config.applications {
            let listener = listener_of(its, &mut listeners, |_| false);
            transports.push(open(&config, its, listener, next_taken())?);
        }
        hub.allow_remote(RemoteLimits::default());
        reserve(&config.peers, hub)?;
        let (by_caller, leaving) = Default::default();
        let mut set = TransportSet { config, transports, by_caller, listeners, leaving };
        set.take_effect(hub);
        Ok(set)
    }

    /// Lets calls take the transports that there are.
    pub(super) fn take_effect<M: Memory>(&mut self, hub: &mut Hub<M>) {
        let names = self.config.applications.iter().map(|its| Arc::from(&*its.application));
        self.by_caller = names.zip(1..).collect();
        hub.set_sealing(Arc::new(Ways::new(&self.config)));
        hub.set_listeners(&self.listeners);
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
        if self.config.peers == peers {
            return Ok(None);
        }
        let check = |transport: &Transport| transport.check_peers(&peers);
        let known = self.transports.iter().map(check).collect::<Result<Vec<_>, _>>()?;
        reserve(&peers, hub)?;
        for (transport, known) in self.transports.iter_mut().zip(known) {
            transport.within(|transport| transport.set_peers(known, &peers.believed));
        }
        let before = std::mem::replace(&mut self.config.peers, peers);
        hub.set_sealing(Arc::new(Ways::new(&self.config)));
        Ok(Some(before))
    }

    /// Where others call which application, or all: targets, with the application's name.
    pub fn reached(&self) -> Vec<(Option<String>, String)> {
        let mut all = Vec::new();
        for (number, transport) in self.transports.iter().enumerate() {
            let name = || self.name(number).map(str::to_owned);
            let address = transport.local_address().map(|address| format!("petasos://{address}"));
            let targets = address.into_iter().chain(transport.local_grpc_target());
            all.extend(targets.map(|target| (name(), target)));
        }
        all
    }

    /// Says where others call, but for what was there before.
    pub fn announce(&self, before: &[(Option<String>, String)]) {
        for (application, target) in self.reached().iter().filter(|it| !before.contains(it)) {
            let who = if is_grpc(target) { "gRPC clients" } else { "other hosts" };
            let what = application.as_ref().map(|name| format!("`{name}` is ")).unwrap_or_default();
            eprintln!("petasosd: {what}reached by {who} at {target}");
        }
    }

    /// What carries packets, and its switches.
    pub fn carried(&self) -> Carried {
        self.config.carried()
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
            self.of(&event).within(|transport| transport.hear_hub(hub, event, now));
        }
        let mut has_moved = false;
        for transport in &mut self.transports {
            has_moved |= transport.within(|transport| transport.turn(hub, now));
        }
        has_moved | self.leaving.turn(hub, now)
    }

    /// The transport that a call is with, or leaves by.
    #[inline]
    fn of(&mut self, event: &RemoteEvent) -> &mut Transport {
        if self.transports.len() == 1 && self.leaving.is_empty() {
            return &mut self.transports[0];
        }
        let call = match event {
            RemoteEvent::Begin(call) => {
                let number = self.by_caller.get(&call.caller).filter(|_| call.is_proved);
                return &mut self.transports[number.copied().unwrap_or(0)];
            }
            RemoteEvent::Ready(call) | RemoteEvent::Cancel(call) | RemoteEvent::Room(call) => *call,
        };
        // Of one that is over, none knows anything.
        let place = self.transports.iter().position(|transport| transport.has(call));
        match place {
            Some(place) => &mut self.transports[place],
            None => self.leaving.of(call).unwrap_or(&mut self.transports[0]),
        }
    }

    /// How long the daemon may sleep, unless one of the descriptors becomes readable; `None`
    /// without limit. To be called right before it sleeps.
    pub fn rest(&mut self) -> Option<Duration> {
        let look = self.leaving.rest();
        let all = self.transports.iter_mut().chain(self.leaving.iter_mut());
        all.filter_map(|transport| transport.within(Transport::rest)).chain(look).min()
    }

    /// What becomes readable when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.transports.iter().chain(self.leaving.iter()).map(Transport::as_fd)
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
            let its = |(reach, file): (Reach, OwnedFd)| {
                (Reached { reach, application: self.name(number).map(Arc::from) }, file)
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
        is_left && self.leaving.is_empty()
    }

    /// The application that has the transport of this number.
    fn name(&self, number: usize) -> Option<&str> {
        number.checked_sub(1).map(|number| &*self.config.applications[number].application)
    }
}

/// Where an application is called: a listener that no other has, and for which `is_in_use` does not
/// hold, if it has addresses.
pub(super) fn listener_of(
    its: &ApplicationTransport,
    listeners: &mut Vec<Option<Arc<str>>>,
    is_in_use: impl Fn(ListenerId) -> bool,
) -> ListenerId {
    if !its.has_address() {
        return ListenerId(u16::MAX);
    }
    let id = |place: usize| ListenerId(place as u16 + 1);
    let its_own = listeners.iter().position(|name| name.as_deref() == Some(&*its.application));
    let free = || {
        (0..).find(|place| {
            listeners.get(*place).is_none_or(Option::is_none) && !is_in_use(id(*place))
        })
    };
    let place = its_own.or_else(free).expect("there are fewer than numbers");
    if listeners.len() <= place {
        listeners.resize(place + 1, None);
    }
    listeners[place] = Some(its.application.as_str().into());
    id(place)
}

/// Opens the transport of an application.
pub(super) fn open(
    config: &TransportConfig,
    its: &ApplicationTransport,
    listener: ListenerId,
    taken: Option<Listeners>,
) -> Result<Transport, String> {
    let transport =
        of_application(config, its, listener).and_then(|config| Transport::new(config, taken));
    transport.map_err(|why| format!("application `{}`: {why}", its.application))
}

pub(super) fn check_applications(all: &[ApplicationTransport]) -> Result<(), String> {
    match all.len() {
        0..=APPLICATIONS_MAX => Ok(()),
        len => Err(format!(
            "{len} applications have a `transport` of their own: at most {APPLICATIONS_MAX} may"
        )),
    }
}

/// The service's transport, or what others have of it.
fn of_service(config: &TransportConfig, carrier: Carrier) -> Result<One<'_>, String> {
    Ok(One {
        listen: config.listen,
        listen_grpc: config.listen_grpc,
        grpc_message_bytes: config.grpc_message_bytes,
        packets: config.packets(carrier)?,
        nic: config.nic.filter(|_| carrier == Carrier::Fabric),
        security: config.security.clone(),
        peers: &config.peers,
        listener: ListenerId::default(),
        vouches: true,
    })
}

fn of_application<'a>(
    config: &'a TransportConfig,
    of_one: &ApplicationTransport,
    listener: ListenerId,
) -> Result<One<'a>, String> {
    let service = of_service(config, of_one.carrier.unwrap_or(config.carrier))?;
    // A fabric needs the address of one NIC.
    let nic = config.nic.or(of_one.listen.or(config.listen).map(|listen| listen.ip()));
    let is_fabric = of_one.carrier.unwrap_or(config.carrier) == Carrier::Fabric;
    Ok(One {
        listen: of_one.listen,
        listen_grpc: of_one.listen_grpc,
        nic: nic.filter(|_| is_fabric),
        security: of_one.security().unwrap_or(&config.security).clone(),
        listener,
        vouches: of_one.certificate.is_none(),
        ..service
    })
}

/// What the operator has for another host is not an application's to serve.
fn reserve<M: Memory>(peers: &Peers, hub: &mut Hub<M>) -> Result<(), String> {
    let names: Vec<&str> = peers.peers.iter().map(|(name, _)| &**name).collect();
    hub.reserve(&names).map_err(|error| error.to_string())
}
