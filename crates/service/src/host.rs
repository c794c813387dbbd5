//! What the hubs of one service share.
//!
//! Each runtime of the service, which is a thread, has a hub of its own, with the applications that
//! it runs. All hubs of a host have one [`Host`]: the schemas that are known, the numbers by which
//! policies tell applications, peers and methods apart, and the names under which applications
//! serve. So a policy means the same everywhere, and a name has one server.
//!
//! # Invariants
//!
//! - [`Host::changes`] grows with each change of what is bound or served, after the change was
//!   made. What a hub has found at a count holds while the count is the same.
//! - Calls take no lock here: a hub looks again only after a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use petasos_base::sync::{AtomicU32, AtomicU64, Ordering};
use petasos_call::Status;
use petasos_engine::{Application as Number, Peer};

use crate::hub_error::{HubError, NAMES_MAX};
use crate::inherited::{NotNumbers, PolicyNumbers};
use crate::numbered::Numbered;
use crate::peers::{Peers, Policed, PolicyNames};
use crate::versions::Versions;
use crate::{Binding, SchemaLimits, Schemas};

/// A hub, by its number at its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HubId(pub u32);

/// Where other hosts call. The first is for all applications that have no other one; those of
/// [`Hub::set_listeners`](crate::Hub::set_listeners) follow in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u16);

/// What other hosts can call, by listener, and there by service.
pub(crate) type Exports = Vec<HashMap<Arc<str>, Export>>;

/// Where a name is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) hub: HubId,
    pub(crate) application: Number,
}

/// An application's service, as other hubs and other hosts call it.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) server: Server,
    /// The application's name, if it is proved.
    pub(crate) owner: Option<Arc<str>>,
    /// The binding's number there.
    pub(crate) number: u16,
    pub(crate) binding: Arc<Binding>,
    /// The longest message that the application takes.
    pub(crate) message_bytes_max: usize,
}

/// What an application serves.
#[derive(Default)]
struct Served {
    services: Vec<Export>,
    /// How many names it has.
    names: usize,
    /// Those that may take them: other attachments of the same application.
    gives_way_to: Vec<Number>,
    /// The number of the attachment that it has taken them from, before which others come no more.
    rank: Option<u32>,
}

#[derive(Default)]
struct Names {
    servers: HashMap<Arc<str>, Server>,
    /// Names that no application serves under.
    reserved: HashSet<Arc<str>>,
    /// Proved names of applications that other hosts call at listeners of their own. Nobody is
    /// called at those that are free.
    listeners: Vec<Option<Arc<str>>>,
    /// In the order in which applications have attached.
    served: BTreeMap<u32, Served>,
    /// Of applications, by the names that they have and those that they call.
    peers: Peers,
}

impl Names {
    fn listener_of(&self, export: &Export) -> ListenerId {
        let is_its = |name: &Option<Arc<str>>| name.is_some() && export.owner == *name;
        let found = self.listeners.iter().position(is_its);
        ListenerId(found.map_or(0, |index| index as u16 + 1))
    }
}

/// Tells which calls leave the host encrypted: what carries them knows.
pub trait Sealing: Send + Sync {
    /// Of calls to this name; `caller` is the name of the application that calls, if it is proved.
    fn is_sealed(&self, target: &str, caller: Option<&str>) -> bool;
}

/// What the hubs of one service share.
pub struct Host {
    schemas: Mutex<Schemas>,
    names: Mutex<Names>,
    versions: Mutex<Versions>,
    /// Counts changes of what is bound and served.
    changes: AtomicU64,
    /// For the next application. None is given twice: what still names one that has gone names
    /// nothing.
    next_application: AtomicU32,
    next_hub: AtomicU32,
    /// The number of the hub whose calls a transport carries to other hosts.
    transport: AtomicU32,
    /// Which of these are encrypted; none without.
    sealing: Mutex<Option<Arc<dyn Sealing>>>,
}

/// No hub has a transport.
const NONE: u32 = u32::MAX;

impl Host {
    /// Without hubs.
    pub fn new(limits: SchemaLimits) -> Arc<Host> {
        Arc::new(Host {
            schemas: Mutex::new(Schemas::new(limits)),
            names: Mutex::default(),
            versions: Mutex::default(),
            changes: AtomicU64::new(0),
            next_application: AtomicU32::new(0),
            next_hub: AtomicU32::new(0),
            transport: AtomicU32::new(NONE),
            sealing: Mutex::default(),
        })
    }

    /// The schemas that are known. Others cannot bind meanwhile.
    pub fn schemas(&self) -> MutexGuard<'_, Schemas> {
        locked(&self.schemas)
    }

    /// The same, if nobody has them now.
    pub fn try_schemas(&self) -> Option<MutexGuard<'_, Schemas>> {
        match self.schemas.try_lock() {
            Ok(schemas) => Some(schemas),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Changes whenever what applications have bound or serve does.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Lets no application serve under these names, and under others that were reserved before.
    pub(crate) fn reserve(&self, reserved: &[&str]) -> Result<(), HubError> {
        let names = &mut *self.names();
        if let Some(name) = reserved.iter().find(|name| names.servers.contains_key(**name)) {
            return Err(HubError::NameTaken((*name).to_owned()));
        }
        names.reserved = reserved.iter().map(|name| Arc::from(*name)).collect();
        self.note_change();
        Ok(())
    }

    /// Other hosts call the applications that have proved these names at listeners of their own,
    /// and at no other.
    pub(crate) fn set_listeners(&self, applications: &[Option<Arc<str>>]) {
        self.names().listeners = applications.to_vec();
        self.note_change();
    }

    /// A hub has a transport.
    pub(crate) fn set_transport(&self, hub: HubId) {
        self.transport.store(hub.0, Ordering::Relaxed);
        self.note_change();
    }

    /// The hub that has a transport, if one has.
    pub(crate) fn transport(&self) -> Option<HubId> {
        let hub = self.transport.load(Ordering::Relaxed);
        (hub != NONE).then_some(HubId(hub))
    }

    /// Calls leave the host as this says from now on.
    pub(crate) fn set_sealing(&self, sealing: Arc<dyn Sealing>) {
        *locked(&self.sealing) = Some(sealing);
        self.note_change();
    }

    /// Whether a call to this name leaves the host encrypted. One that stays here does not.
    #[cold]
    pub(crate) fn is_sealed(&self, target: &str, caller: Option<&str>) -> bool {
        let sealing = locked(&self.sealing).clone();
        let leaves = self.server(target).is_none() && self.transport().is_some();
        leaves && sealing.is_some_and(|sealing| sealing.is_sealed(target, caller))
    }

    pub(crate) fn add_hub(&self) -> HubId {
        HubId(self.next_hub.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for an application.
    pub(crate) fn next_application(&self) -> Number {
        let number = self.next_application.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX - 1, "fewer than 2^32 attach");
        Number(number)
    }

    /// As what policies know an application: see [`Peers::application`].
    pub(crate) fn policed(&self, name: (&str, Option<u32>), number: Number) -> Policed {
        self.names().peers.application(name, number)
    }

    /// A caller of another host has this number, which no other has.
    pub(crate) fn add_caller(&self, peer: Peer, name: Arc<str>) {
        self.names().peers.add_caller(peer, name);
    }

    /// What the numbers mean by which policies know applications and peers.
    pub fn policy_names(&self) -> PolicyNames {
        // Only this much of it keeps others from attaching.
        let raw = self.names().peers.names();
        raw.into()
    }

    /// Callers of other hosts that have numbers.
    pub(crate) fn with_callers<R>(&self, what: impl FnOnce(&[(u32, Arc<str>)]) -> R) -> R {
        what(self.names().peers.callers())
    }

    /// The numbers by which policies know applications, peers and methods.
    pub fn policy_numbers(&self) -> PolicyNumbers {
        let next_application = self.next_application.load(Ordering::Relaxed);
        let methods = self.schemas().method_numbers();
        let names = self.names();
        let [called, callers, applications] = names.peers.numbers();
        PolicyNumbers {
            applications: Numbered { known: applications, next: next_application },
            called: Numbered { known: called, next: names.peers.next_called() },
            callers,
            methods,
        }
    }

    /// Goes on with the numbers of another process. To be called before anybody attaches, and
    /// before there is a transport.
    ///
    /// # Errors
    /// They cannot be numbers of one process. Nothing has changed.
    pub fn inherit(&self, numbers: PolicyNumbers) -> Result<(), NotNumbers> {
        numbers.check(self.schemas().limits().methods_max)?;
        let PolicyNumbers { applications, called, callers, methods } = numbers;
        self.next_application.store(applications.next, Ordering::Relaxed);
        self.schemas().inherit(methods);
        self.names().peers.inherit(called, callers, applications.known);
        Ok(())
    }

    /// The number of a name that an application calls: see [`Peers::number`].
    pub(crate) fn peer(&self, name: &str) -> (Arc<str>, Peer) {
        self.names().peers.number(name)
    }

    /// Whether a caller's method and a server's go together: see [`Versions::agree`].
    pub(crate) fn agree(
        &self,
        caller: (&Binding, usize),
        server: (&Binding, usize),
    ) -> Result<(), Status> {
        locked(&self.versions).agree(caller, server)
    }

    /// An application serves under a name.
    pub(crate) fn serve(&self, name: &str, server: Server) -> Result<(), HubError> {
        let names = &mut *self.names();
        if names.reserved.contains(name) {
            return Err(HubError::Reserved(name.to_owned()));
        }
        let before = names.servers.get(name).copied();
        if before == Some(server) {
            return Ok(());
        }
        let mut rank = None;
        if let Some(Server { application: Number(other), .. }) = before {
            let given = names.served.get(&other);
            let given = given.filter(|served| served.gives_way_to.contains(&server.application));
            let given = given.ok_or_else(|| HubError::NameTaken(name.to_owned()))?;
            rank = Some(given.rank.unwrap_or(other));
        }
        let served = names.served.entry(server.application.0).or_default();
        if served.names >= NAMES_MAX {
            return Err(HubError::TooMany);
        }
        served.names += 1;
        served.rank = served.rank.or(rank);
        names.servers.insert(name.into(), server);
        if let Some(before) = before.and_then(|it| names.served.get_mut(&it.application.0)) {
            before.names -= 1;
        }
        self.note_change();
        Ok(())
    }

    /// An application has attached once more: the new attachment may take the names of this one.
    pub(crate) fn give_way(&self, application: Number, to: Number) {
        // Who serves nothing has no names.
        if let Some(served) = self.names().served.get_mut(&application.0) {
            served.gives_way_to.push(to);
        }
    }

    /// An application has bound a service that it serves.
    pub(crate) fn add_service(&self, export: Export) {
        let served = &mut self.names().served;
        served.entry(export.server.application.0).or_default().services.push(export);
        self.note_change();
    }

    /// Who serves under a name.
    pub(crate) fn server(&self, name: &str) -> Option<Server> {
        self.names().servers.get(name).copied()
    }

    /// An application has gone.
    pub(crate) fn remove(&self, application: Number) {
        let names = &mut *self.names();
        if names.served.remove(&application.0).is_some_and(|served| served.names > 0) {
            names.servers.retain(|_, server| server.application != application);
        }
        self.note_change();
    }

    /// The names under which an application serves, in order.
    pub(crate) fn served_by(&self, application: Number) -> Vec<Arc<str>> {
        let names = self.names();
        let its = names.servers.iter().filter(|(_, server)| server.application == application);
        let mut found: Vec<_> = its.map(|(name, _)| name.clone()).collect();
        found.sort_unstable();
        found
    }

    /// What applications serve that have names, each service once at each listener: that of the
    /// application that has attached first, if several serve it.
    pub(crate) fn exports(&self) -> Exports {
        let names = self.names();
        let named = names.served.iter().filter(|(_, served)| served.names > 0);
        let mut named: Vec<_> =
            named.map(|(number, served)| (served.rank.unwrap_or(*number), served)).collect();
        named.sort_by_key(|(rank, _)| *rank);
        let mut found = vec![HashMap::new(); names.listeners.len() + 1];
        for export in named.iter().flat_map(|(_, served)| &served.services) {
            let there = &mut found[usize::from(names.listener_of(export).0)];
            there.entry(export.binding.service.clone()).or_insert_with(|| export.clone());
        }
        found
    }

    /// Something that is bound or served has changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        locked(&self.names)
    }
}

/// A panic elsewhere leaves nothing half done here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
