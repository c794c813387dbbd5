//! Channels to other hosts, and how calls begin on them.
//!
//! Invariant: a channel has the descriptors of those services only whose bindings are in `bound`.
//! When a binding has gone, all channels let go of its service ([`Channels::let_go`]).

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use petasos::relay::RelayedCall;
use petasos::untyped::{Payload, Service};
use petasos::{Channel, Loop, ServiceClient, Status};
use petasos_base::Time;
use petasos_service::{Binding, CALLER_KEY, Outgoing, not_sealed};

use super::grpc::{Call, Grpc, is_grpc};
use super::mail::{Inbox, Port};
use super::messages::message_in;
use super::sealing::Way;
use super::{Handle, outgoing};

/// Channels that are kept. With more targets, the one that was called longest ago is let go; its
/// sessions end when its calls have.
const CHANNELS_MAX: usize = 1024;
/// Services that are bound to one channel, with those that it has let go of: it keeps a few words
/// of each. After that, the target gets another one.
const CLIENTS_MAX: usize = 4096;

/// So long after a server has taken no images, none is offered to the others of the target either.
const NATIVE_AGAIN: Duration = Duration::from_secs(1);

/// Places for what was called last.
const RECENT: usize = 64;

/// A channel to one target.
struct Kept {
    channel: Channel,
    way: Way,
    used_at: Rc<Cell<Time>>,
    /// By the address of the binding.
    clients: HashMap<usize, Client>,
    /// How many there were.
    clients_ever: usize,
}

/// A service that an application calls.
struct Bound {
    /// While this is there, nothing else has its address.
    binding: Weak<Binding>,
    service: Service,
    /// Targets of the channels that have it. Some may be kept no more.
    targets: HashSet<Arc<str>>,
}

/// A service of a channel.
#[derive(Clone)]
struct Client {
    service: ServiceClient,
    /// Until when requests are sent as protobuf, since a server has taken no images.
    protobuf_until: Rc<Cell<Time>>,
}

/// A service that was called by a name, and how. The name is the very text of the application's,
/// and the binding is there while the weak reference is: so both are told by their addresses.
struct Recent {
    name: Arc<str>,
    binding: Weak<Binding>,
    client: Client,
    way: Way,
    used_at: Rc<Cell<Time>>,
}

/// Channels by their targets, made when they are first called.
pub struct Channels {
    kept: HashMap<Arc<str>, Kept>,
    /// By the address of the binding, which may have gone.
    bound: HashMap<usize, Bound>,
    /// Bindings may have gone since the last look.
    has_changed: bool,
    peers: HashMap<String, Arc<str>>,
    /// Of those that share a place, the last one is known. None of a channel that is not kept.
    recent: Vec<Option<Recent>>,
    /// Whether other services are told which application calls.
    vouches: bool,
    /// Whether packets are encrypted.
    is_secured: bool,
}

impl Channels {
    /// None yet; these names stand for targets.
    ///
    /// # Errors
    /// A text that says which of them is no target, or comes twice.
    pub fn new(
        peers: &[(String, String)],
        (vouches, is_secured): (bool, bool),
        grpc: &Grpc,
    ) -> Result<Channels, String> {
        let peers = known(peers, grpc)?;
        let (kept, bound, recent) = (HashMap::new(), HashMap::new(), no_recent());
        Ok(Channels { kept, bound, has_changed: false, peers, recent, vouches, is_secured })
    }

    /// Checks names for targets. [`Channels::set_peers`] puts them in place then.
    ///
    /// # Errors
    /// As [`Channels::new`].
    pub fn check_peers(peers: &[(String, String)], grpc: &Grpc) -> Result<KnownPeers, String> {
        known(peers, grpc).map(KnownPeers)
    }

    /// These names stand for targets now, and no others. Calls that are under way go on.
    pub fn set_peers(&mut self, KnownPeers(peers): KnownPeers) {
        self.peers = peers;
        // What was called by a name is known by it.
        self.recent = no_recent();
    }

    /// Begins a call: over datagrams, a unary one without a future.
    ///
    /// # Errors
    /// Nothing was sent, and why.
    pub fn begin(
        &mut self,
        mut call: Outgoing,
        (event_loop, grpc): (&Loop, &Grpc),
        inbox: &Arc<Inbox>,
        now: Time,
    ) -> Result<Handle, Status> {
        let timeout = time_left(&call, now)?;
        if call.is_proved && self.vouches {
            let told = call.metadata.append(CALLER_KEY, &call.caller);
            told.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        }
        let Recent { client, way, .. } = self.client(&call, grpc, now)?;
        if call.is_sealed && !way.is_sealed {
            return Err(not_sealed());
        }
        let Client { service: client, protobuf_until } = client;
        if way.is_grpc {
            return grpc.begin(Call { outgoing: call, timeout }, client);
        }
        if let Some(message) = call.message.take() {
            let is_native = now >= protobuf_until.get();
            let (encoding, message) = message_in(message, is_native)?;
            let (method, metadata) = (call.method, &call.metadata);
            let relayed = RelayedCall { method, encoding, message, metadata, timeout };
            return event_loop.relay(client, relayed, call.call.to_number()).map(Handle::Call);
        }
        let port = Port::new(Some(call.call));
        let opening = client.bidirectional::<Payload, Payload>(call.method);
        let opening = opening.with_all_metadata(call.metadata);
        let opening = match timeout {
            Some(timeout) => opening.with_timeout(timeout),
            None => opening,
        };
        drop(event_loop.spawn(outgoing::streams(port.clone(), inbox.clone(), opening)));
        Ok(Handle::Future(port))
    }

    /// Begins a call again whose server took no image: as protobuf, like those after it.
    ///
    /// # Errors
    /// Nothing was sent, and why.
    pub fn begin_again(
        &mut self,
        call: Outgoing,
        (event_loop, grpc): (&Loop, &Grpc),
        inbox: &Arc<Inbox>,
        now: Time,
    ) -> Result<Handle, Status> {
        self.client(&call, grpc, now)?.client.protobuf_until.set(now + NATIVE_AGAIN);
        self.begin(call, (event_loop, grpc), inbox, now)
    }

    /// The service that a call is for.
    fn client(&mut self, call: &Outgoing, grpc: &Grpc, now: Time) -> Result<&Recent, Status> {
        let (name, binding) = (&call.target, &call.binding);
        let place = (name.as_ptr().addr() ^ Arc::as_ptr(binding).addr()) / 16 % RECENT;
        let is_it = |recent: &Recent| {
            let is_binding = std::ptr::eq(recent.binding.as_ptr(), Arc::as_ptr(binding));
            Arc::ptr_eq(&recent.name, name) && is_binding
        };
        if !self.recent[place].as_ref().is_some_and(is_it) {
            let target = self.target(name, grpc)?;
            let (client, way, used_at) = self.made(binding, target, grpc, now)?;
            let (name, binding) = (name.clone(), Arc::downgrade(binding));
            self.recent[place] = Some(Recent { name, binding, client, way, used_at });
        }
        let recent = self.recent[place].as_ref().expect("it was just put there");
        recent.used_at.set(now);
        Ok(recent)
    }

    /// The service of a binding at a target: its client, how calls get there, and when the target
    /// was used.
    fn made(
        &mut self,
        binding: &Arc<Binding>,
        target: Arc<str>,
        grpc: &Grpc,
        now: Time,
    ) -> Result<(Client, Way, Rc<Cell<Time>>), Status> {
        let service = self.bind(binding, &target)?;
        let kept = self.channel(&target, grpc, now)?;
        let client = kept.client(Arc::as_ptr(binding).addr(), &service);
        Ok((client, kept.way, kept.used_at.clone()))
    }

    /// What a name stands for.
    fn target(&self, name: &Arc<str>, grpc: &Grpc) -> Result<Arc<str>, Status> {
        if let Some(target) = self.peers.get(&**name) {
            return Ok(target.clone());
        }
        match name.contains("://") {
            true => check(name, grpc).map(|()| name.clone()),
            false => Err(Status::unavailable(format!("no application serves `{name}`"))),
        }
    }

    /// The service that an application calls at a target, by its schema.
    fn bind(&mut self, binding: &Arc<Binding>, target: &Arc<str>) -> Result<Service, Status> {
        let key = Arc::as_ptr(binding).addr();
        // If there is one at its address, it is this binding's.
        if !self.bound.contains_key(&key) {
            // First of all, so that there is room for it.
            self.let_go();
            let service = Service::with_images(binding.types.schema(), &binding.service);
            let service = service.map_err(|error| Status::resource_exhausted(error.to_string()))?;
            let (binding, targets) = (Arc::downgrade(binding), HashSet::new());
            self.bound.insert(key, Bound { binding, service, targets });
        }
        let Channels { bound, kept, .. } = self;
        let Bound { service, targets, .. } = bound.get_mut(&key).expect("it is there now");
        if !targets.contains(target) {
            if targets.len() >= 2 * CHANNELS_MAX {
                targets.retain(|target| kept.contains_key(target));
            }
            targets.insert(target.clone());
        }
        Ok(service.clone())
    }

    /// Lets go of the services whose bindings have gone.
    fn let_go(&mut self) {
        let Channels { bound, kept, .. } = self;
        bound.retain(|key, bound| {
            if bound.binding.strong_count() > 0 {
                return true;
            }
            for target in &bound.targets {
                if let Some(kept) = kept.get_mut(target) {
                    kept.let_go(*key, &bound.service);
                }
            }
            false
        });
    }

    /// An application may have gone, and its bindings with it.
    pub fn note_change(&mut self) {
        self.let_go();
        self.has_changed = true;
    }

    /// Lets go of what has gone a little after the change that was noted: a call that it had, or
    /// another thread, may have kept a binding.
    pub fn let_go_of_changed(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            self.let_go();
        }
    }

    fn channel(&mut self, target: &Arc<str>, grpc: &Grpc, now: Time) -> Result<&mut Kept, Status> {
        if self.kept.get(target).is_some_and(|kept| kept.clients_ever >= CLIENTS_MAX) {
            self.kept.remove(target);
            self.recent = no_recent();
        }
        if !self.kept.contains_key(target) && self.kept.len() >= CHANNELS_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used_at.get());
            let oldest = oldest.map(|(target, _)| target.clone()).expect("there are some");
            self.kept.remove(&oldest);
            self.recent = no_recent();
        }
        if !self.kept.contains_key(target) {
            let way = Way::to(target, self.is_secured);
            let channel = match way.is_grpc {
                true => grpc.channel(target)?,
                false => {
                    let channel = Channel::builder(target).connect_lazily();
                    channel.map_err(|error| Status::invalid_argument(error.to_string()))?
                }
            };
            let used_at = Rc::new(Cell::new(now));
            let (clients, clients_ever) = Default::default();
            let kept = Kept { channel, way, used_at, clients, clients_ever };
            self.kept.insert(target.clone(), kept);
        }
        let kept = self.kept.get_mut(target).expect("it is there now");
        kept.used_at.set(now);
        Ok(kept)
    }
}

impl Kept {
    /// The client of a service, by the address of its binding.
    fn client(&mut self, key: usize, service: &Service) -> Client {
        let client = self.clients.entry(key).or_insert_with(|| {
            self.clients_ever += 1;
            Client { service: self.channel.bind(service.info()), protobuf_until: Rc::default() }
        });
        client.clone()
    }

    /// Lets go of the service of a binding that has gone.
    fn let_go(&mut self, key: usize, service: &Service) {
        if self.clients.remove(&key).is_some() {
            self.channel.let_go(service.info());
        }
    }
}

/// How long a call may still take.
fn time_left(call: &Outgoing, now: Time) -> Result<Option<Duration>, Status> {
    let left = (call.deadline != Time::NEVER).then(|| call.deadline - now);
    match left.is_some_and(|left| left.is_zero()) {
        true => Err(Status::deadline_exceeded("the deadline has passed")),
        false => Ok(left),
    }
}

/// Targets by the names that stand for them, checked.
pub struct KnownPeers(HashMap<String, Arc<str>>);

fn known(peers: &[(String, String)], grpc: &Grpc) -> Result<HashMap<String, Arc<str>>, String> {
    let mut known = HashMap::new();
    for (name, target) in peers {
        check(target, grpc).map_err(|status| format!("peer `{name}`: {}", status.message()))?;
        if known.insert(name.clone(), target.as_str().into()).is_some() {
            return Err(format!("the peer `{name}` is given twice"));
        }
    }
    Ok(known)
}

fn no_recent() -> Vec<Option<Recent>> {
    (0..RECENT).map(|_| None).collect()
}

/// Whether calls can go to a target.
fn check(target: &str, grpc: &Grpc) -> Result<(), Status> {
    if is_grpc(target) {
        return grpc.check(target);
    }
    let is_datagrams = target.starts_with("petasos://");
    let wrong = || {
        let wrong = format!("`{target}` is neither petasos://HOST:PORT nor grpc://HOST:PORT");
        Status::invalid_argument(wrong)
    };
    is_datagrams.then_some(()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use petasos::{LoopConfig, Security};
    use petasos_service::{ListenerId, RemoteLimits, SchemaLimits};

    use super::super::tests::{NOW, SCHEMAS, TestHub, attach, long_schema};
    use super::*;

    /// And no certificates.
    const VOUCHES: (bool, bool) = (true, false);

    fn without_a_port() -> (Loop, Grpc) {
        let event_loop = Loop::new(LoopConfig::default()).expect("loopback has ports");
        let grpc = Grpc::new(&Security::Loopback, None, &event_loop);
        (event_loop, grpc.expect("there is nothing to open"))
    }

    #[test]
    fn channels_are_bounded_and_the_one_called_longest_ago_goes() {
        let (_loop, grpc) = without_a_port();
        let mut channels = Channels::new(&[], VOUCHES, &grpc).expect("there is nothing wrong");
        let target = |number: usize| {
            let scheme = if number.is_multiple_of(2) { "petasos" } else { "grpc" };
            Arc::from(format!("{scheme}://127.0.0.1:{}", number + 1))
        };
        for number in 0..CHANNELS_MAX + 10 {
            let now = Time::from_nanos(number as u64);
            channels.channel(&target(number), &grpc, now).expect("it is a target");
            channels.channel(&target(0), &grpc, now).expect("it is a target");
        }
        assert_eq!(channels.kept.len(), CHANNELS_MAX);
        let is_kept = |number| channels.kept.contains_key(&target(number));
        assert!(is_kept(0) && !is_kept(1) && is_kept(CHANNELS_MAX + 9));
    }

    #[test]
    fn what_is_remembered_of_an_application_that_calls_ever_new_targets_is_bounded() {
        let (_loop, grpc) = without_a_port();
        let mut channels = Channels::new(&[], VOUCHES, &grpc).expect("there is nothing wrong");
        let mut hub = TestHub::new(SchemaLimits::default());
        hub.allow_remote(RemoteLimits::default());
        let (schema, service) = long_schema(0);
        attach(&mut hub, (&schema, &service), "caller");
        let its = binding(&hub, &service);
        for number in 0..3 * CHANNELS_MAX {
            let now = Time::from_nanos(number as u64);
            let target = format!("petasos://127.0.0.1:{}", number + 1);
            let made = channels.made(&its, target.into(), &grpc, now);
            made.map(|_| ()).expect("it is a target");
        }
        let (_, bound) = channels.bound.iter().next().expect("it has called");
        assert!(bound.targets.len() <= 2 * CHANNELS_MAX);
        assert!(channels.kept.keys().all(|target| bound.targets.contains(target)));
    }

    fn binding(hub: &TestHub, service: &str) -> Arc<Binding> {
        let mut exports = hub.exports(ListenerId::default()).into_iter();
        exports.find(|binding| &*binding.service == service).expect("it is served")
    }

    #[test]
    fn an_application_that_calls_with_ever_new_schemas_leaves_no_descriptors_when_it_has_gone() {
        let (_loop, grpc) = without_a_port();
        let mut channels = Channels::new(&[], VOUCHES, &grpc).expect("there is nothing wrong");
        let mut hub = TestHub::new(SchemaLimits::default());
        hub.allow_remote(RemoteLimits::default());
        let targets = ["petasos://127.0.0.1:1", "grpc://127.0.0.1:1"].map(Arc::<str>::from);
        let (schema, service) = long_schema(0);
        attach(&mut hub, (&schema, &service), "stays");
        let stays = binding(&hub, &service);
        for number in 1..SCHEMAS {
            let (schema, service) = long_schema(number);
            let application = attach(&mut hub, (&schema, &service), "churn");
            let goes = binding(&hub, &service);
            for (target, binding) in
                targets.iter().flat_map(|target| [(target, &stays), (target, &goes)])
            {
                let made = channels.made(binding, target.clone(), &grpc, NOW);
                made.map(|_| ()).expect("there is room");
            }
            assert_eq!(channels.bound.len(), 2);
            hub.remove(application, NOW);
            channels.note_change();
            assert_eq!(channels.bound.len(), 2, "a call of its is under way");
            drop(goes);
            channels.let_go_of_changed();
            assert_eq!(channels.bound.len(), 1);
        }
        for target in &targets {
            let kept = &channels.kept[target];
            assert_eq!((kept.clients.len(), kept.clients_ever), (1, SCHEMAS));
        }
        // Those of other tests are in there, too.
        assert!(Service::alive().bytes < 32 << 20, "{:?}", Service::alive());
    }

    #[test]
    fn a_target_gets_another_channel_when_one_has_had_many_services() {
        let (_loop, grpc) = without_a_port();
        let mut channels = Channels::new(&[], VOUCHES, &grpc).expect("there is nothing wrong");
        let target = Arc::from("petasos://127.0.0.1:1");
        let kept = channels.channel(&target, &grpc, NOW).expect("it is a target");
        kept.clients_ever = CLIENTS_MAX - 1;
        let kept = channels.channel(&target, &grpc, NOW).expect("it is a target");
        assert_eq!(std::mem::replace(&mut kept.clients_ever, CLIENTS_MAX), CLIENTS_MAX - 1);
        let kept = channels.channel(&target, &grpc, NOW).expect("it is a target");
        assert_eq!(kept.clients_ever, 0);
    }

    #[test]
    fn what_is_no_target_is_told() {
        let (_loop, grpc) = without_a_port();
        let peers = |list: &[(&str, &str)]| {
            let list = list.iter().map(|(name, target)| ((*name).into(), (*target).into()));
            Channels::new(&list.collect::<Vec<_>>(), VOUCHES, &grpc).err()
        };
        assert_eq!(peers(&[("a", "petasos://h:1"), ("b", "grpc://h:1,h:2")]), None);
        for (target, why) in [
            ("http://h:1", "is neither petasos://HOST:PORT nor grpc://HOST:PORT"),
            ("grpc://h", "is not grpc://HOST:PORT"),
            ("grpcs://h:0", "is not grpcs://HOST:PORT"),
            ("grpcs://h:1", "takes certificates of the service (--tls-cert)"),
        ] {
            let wrong = peers(&[("a", target)]).expect("it is wrong");
            assert_eq!(wrong, format!("peer `a`: `{target}` {why}"));
        }
        let twice = peers(&[("a", "petasos://h:1"), ("a", "petasos://h:2")]);
        assert_eq!(twice.expect("it is wrong"), "the peer `a` is given twice");
        let channels = Channels::new(&[], VOUCHES, &grpc).expect("there is nothing wrong");
        let target = |name: &str| channels.target(&name.into(), &grpc);
        let code = |name: &str| target(name).map_err(|status| status.code());
        assert_eq!(code("nobody"), Err(petasos::Code::Unavailable));
        assert_eq!(code("http://h"), Err(petasos::Code::InvalidArgument));
    }
}
