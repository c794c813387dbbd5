//! Channels to other hosts, and how calls begin on them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use petasos::relay::RelayedCall;
use petasos::untyped::{Payload, Service};
use petasos::{Channel, Loop, ServiceClient, Status};
use petasos_base::Time;
use petasos_service::{Binding, CALLER_KEY, Outgoing};

use super::grpc::{Call, Grpc, is_grpc};
use super::mail::{Inbox, Port};
use super::messages::message_in;
use super::{Handle, outgoing};

/// Channels that are kept. With more targets, the one that was called longest ago is let go; its
/// sessions end when its calls have.
const CHANNELS_MAX: usize = 1024;
/// Services that are remembered of one channel.
const CLIENTS_MAX: usize = 1024;

/// So long after a server has taken no images, none is offered to the others of the target either.
const NATIVE_AGAIN: Duration = Duration::from_secs(1);

/// Places for what was called last.
const RECENT: usize = 64;

/// A channel to one target.
struct Kept {
    channel: Channel,
    is_grpc: bool,
    used_at: Rc<Cell<Time>>,
    /// By the address of the binding, which may have gone.
    clients: HashMap<usize, (Weak<Binding>, Client)>,
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
    is_grpc: bool,
    used_at: Rc<Cell<Time>>,
}

/// Channels by their targets, made when they are first called.
pub struct Channels {
    kept: HashMap<Arc<str>, Kept>,
    peers: HashMap<String, Arc<str>>,
    /// Of those that share a place, the last one is known. None of a channel that is not kept.
    recent: Vec<Option<Recent>>,
    /// Whether other services are told which application calls.
    vouches: bool,
}

impl Channels {
    /// None yet; these names stand for targets.
    ///
    /// # Errors
    /// A text that says which of them is no target, or comes twice.
    pub fn new(peers: &[(String, String)], vouches: bool, grpc: &Grpc) -> Result<Channels, String> {
        let peers = known(peers, grpc)?;
        Ok(Channels { kept: HashMap::new(), peers, recent: no_recent(), vouches })
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
        let Recent { client, is_grpc, .. } = self.client(&call, grpc, now)?;
        let Client { service: client, protobuf_until } = client;
        if *is_grpc {
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
            let kept = self.channel(&target, grpc, now)?;
            let (client, used_at) = (kept.client(binding)?.clone(), kept.used_at.clone());
            let (name, binding, is_grpc) = (name.clone(), Arc::downgrade(binding), kept.is_grpc);
            self.recent[place] = Some(Recent { name, binding, client, is_grpc, used_at });
        }
        let recent = self.recent[place].as_ref().expect("it was just put there");
        recent.used_at.set(now);
        Ok(recent)
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

    fn channel(&mut self, target: &Arc<str>, grpc: &Grpc, now: Time) -> Result<&mut Kept, Status> {
        if !self.kept.contains_key(target) && self.kept.len() >= CHANNELS_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used_at.get());
            let oldest = oldest.map(|(target, _)| target.clone()).expect("there are some");
            self.kept.remove(&oldest);
            self.recent = no_recent();
        }
        if !self.kept.contains_key(target) {
            let is_grpc = is_grpc(target);
            let channel = match is_grpc {
                true => grpc.channel(target)?,
                false => {
                    let channel = Channel::builder(target).connect_lazily();
                    channel.map_err(|error| Status::invalid_argument(error.to_string()))?
                }
            };
            let used_at = Rc::new(Cell::new(now));
            let kept = Kept { channel, is_grpc, used_at, clients: HashMap::new() };
            self.kept.insert(target.clone(), kept);
        }
        let kept = self.kept.get_mut(target).expect("it is there now");
        kept.used_at.set(now);
        Ok(kept)
    }
}

impl Kept {
    /// A service by the caller's schema.
    fn client(&mut self, binding: &Arc<Binding>) -> Result<&Client, Status> {
        let key = Arc::as_ptr(binding).addr();
        let known = self.clients.get(&key);
        // While a weak reference is there, nothing else has its address.
        if known.is_none_or(|(known, _)| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(binding))) {
            if self.clients.len() >= CLIENTS_MAX {
                self.clients.retain(|_, (known, _)| known.strong_count() > 0);
            }
            if self.clients.len() >= CLIENTS_MAX {
                self.clients.clear();
            }
            let service = Service::with_images(binding.types.schema(), &binding.service);
            let service = service.map_err(|error| Status::resource_exhausted(error.to_string()))?;
            let service = self.channel.bind(service.info());
            let client = Client { service, protobuf_until: Rc::default() };
            self.clients.insert(key, (Arc::downgrade(binding), client));
        }
        Ok(&self.clients[&key].1)
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

    use super::*;

    fn without_a_port() -> (Loop, Grpc) {
        let event_loop = Loop::new(LoopConfig::default()).expect("loopback has ports");
        let grpc = Grpc::new(&Security::Loopback, None, &event_loop);
        (event_loop, grpc.expect("there is nothing to open"))
    }

    #[test]
    fn channels_are_bounded_and_the_one_called_longest_ago_goes() {
        let (_loop, grpc) = without_a_port();
        let mut channels = Channels::new(&[], true, &grpc).expect("there is nothing wrong");
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
    fn what_is_no_target_is_told() {
        let (_loop, grpc) = without_a_port();
        let peers = |list: &[(&str, &str)]| {
            let list = list.iter().map(|(name, target)| ((*name).into(), (*target).into()));
            Channels::new(&list.collect::<Vec<_>>(), true, &grpc).err()
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
        let channels = Channels::new(&[], true, &grpc).expect("there is nothing wrong");
        let target = |name: &str| channels.target(&name.into(), &grpc);
        let code = |name: &str| target(name).map_err(|status| status.code());
        assert_eq!(code("nobody"), Err(petasos::Code::Unavailable));
        assert_eq!(code("http://h"), Err(petasos::Code::InvalidArgument));
    }
}
