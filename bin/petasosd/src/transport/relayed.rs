//! Unary calls between the hub and the loop: events, without futures.

use std::sync::Arc;

use petasos::relay::{
    Arrived, Encoding, Event, Outcome, Received, Reply, RequestName, ServerSessionId, read_request,
    read_response, read_returned,
};
use petasos::{Metadata, Peer, PeerTransport, Status};
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_message::recycle;
use petasos_service::{
    Binding, Encoded, Hash, Hub, ListenerId, Memory, RemoteCall, RemoteCaller, RemoteEnd,
    RemoteItem, RemoteOutcome, RouteIn,
};

use super::known::Known;
use super::messages::{failure, message_in};
use super::{Handle, Transport};
use crate::names::take_caller;

/// A method that is served for other hosts. Its place in the list is the token of its requests.
struct Method {
    service: Arc<str>,
    method: Arc<str>,
    /// The types of requests and responses of which other hosts were told: they may send and get
    /// images of them.
    told: [Hash; 2],
    /// Until exports change: a route keeps its application's schema.
    route: Option<Route>,
}

/// Where requests of a method go now.
#[derive(Clone)]
struct Route {
    to: RouteIn,
    /// Whether the serving application means the same by requests, and by responses, as other
    /// hosts were told.
    is_told: [bool; 2],
}

/// What is known of unary calls that come in.
#[derive(Default)]
pub struct Requests {
    methods: Vec<Method>,
    /// By the indexes of their names: calls of requests that have no answer yet, and whether the
    /// answer may be an image.
    calls: Vec<Option<(RemoteCall, bool)>>,
    /// By the places of their sessions: who has called.
    callers: Vec<Option<Callers>>,
    /// The names of services that are believed about who calls.
    believed: Vec<String>,
    /// Where they come in.
    listener: ListenerId,
}

/// The callers of a session.
struct Callers {
    session: ServerSessionId,
    caller: RemoteCaller,
    is_believed: bool,
    /// Applications of the peer's, if it is believed about them.
    applications: Vec<(String, RemoteCaller)>,
}

/// Applications that are known of a session; others are looked up for each call.
const APPLICATIONS_MAX: usize = 64;

/// A caller as policies see it.
pub struct Seen {
    /// Tells it from others.
    pub name: String,
    /// Its name, if it is proved.
    pub identity: Option<Arc<str>>,
}

impl Requests {
    /// None yet. These services are believed about who calls.
    pub fn believing(believed: Vec<String>, listener: ListenerId) -> Requests {
        Requests { believed, listener, ..Requests::default() }
    }

    /// These are believed now, and no others.
    pub fn believe(&mut self, believed: Vec<String>) {
        self.believed = believed;
        // Whether it is believed is known of each.
        self.callers.fill_with(|| None);
    }

    /// Whether a peer is believed about who calls.
    fn is_believed(&self, peer: &Caller) -> bool {
        peer.is_proved && self.believed.contains(&peer.name)
    }

    /// A caller, of which the peer has said that it is this application.
    pub fn seen(&self, caller: Caller, said: Option<String>) -> Seen {
        match said.filter(|_| self.is_believed(&caller)) {
            Some(application) => Seen {
                name: format!("{application} of {}", caller.name),
                identity: Some(application.into()),
            },
            None => {
                let identity = caller.is_proved.then(|| Arc::from(caller.name.as_str()));
                Seen { name: caller.name, identity }
            }
        }
    }

    /// The tokens for requests of a service's methods, by their indexes.
    pub fn tokens(&mut self, service: &Known, binding: &Binding) -> Vec<u64> {
        let first = self.methods.len() as u64;
        // The binding's methods are in the order of their names, too.
        for (method, bound) in service.methods().zip(&binding.methods) {
            let (service, method) = (service.name.clone(), method.clone());
            let told = binding.message_hashes(bound);
            self.methods.push(Method { service, method, told, route: None });
        }
        (first..self.methods.len() as u64).collect()
    }

    /// The last so many tokens are not used after all.
    pub fn forget_tokens(&mut self, count: usize) {
        self.methods.truncate(self.methods.len() - count);
    }

    /// Exports have changed.
    pub fn forget_routes(&mut self) {
        self.methods.iter_mut().for_each(|method| method.route = None);
    }

    /// Who serves the requests of a token.
    fn route<M: Memory>(&mut self, hub: &mut Hub<M>, token: u64) -> Result<Route, Status> {
        let Method { service, method, told, route } = &mut self.methods[token as usize];
        if let Some(route) = route {
            return Ok(route.clone());
        }
        let to = hub.route_in(self.listener, (&**service, &**method), false)?;
        let [request, response] = to.message_hashes();
        let is_told = [request == told[0], response == told[1]];
        Ok(route.insert(Route { to, is_told }).clone())
    }

    /// Who calls: the peer, or the application that it has named, if it is believed.
    fn caller<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        arrived: &Arrived,
        said: Option<String>,
    ) -> RemoteCaller {
        let place = arrived.session.place();
        if self.callers.len() <= place {
            self.callers.resize_with(place + 1, || None);
        }
        if self.callers[place].as_ref().is_none_or(|known| known.session != arrived.session) {
            let of = Caller::of(arrived.origin.peer());
            let is_believed = self.is_believed(&of);
            let caller = self.remote_caller(hub, of, None);
            let (session, applications) = (arrived.session, Vec::new());
            self.callers[place] = Some(Callers { session, caller, is_believed, applications });
        }
        let known = self.callers[place].as_ref().expect("it was just put there");
        match said {
            Some(application) if known.is_believed => {
                self.application_of(hub, arrived, place, application)
            }
            _ => known.caller.clone(),
        }
    }

    /// An application of a peer that is believed.
    fn application_of<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        arrived: &Arrived,
        place: usize,
        application: String,
    ) -> RemoteCaller {
        let known = self.callers[place].as_ref().expect("the caller has looked");
        let mut applications = known.applications.iter();
        if let Some((_, caller)) = applications.find(|(name, _)| *name == application) {
            return caller.clone();
        }
        let of = Caller::of(arrived.origin.peer());
        let caller = self.remote_caller(hub, of, Some(application.clone()));
        let known = self.callers[place].as_mut().expect("the caller has looked");
        if known.applications.len() < APPLICATIONS_MAX {
            known.applications.push((application, caller.clone()));
        }
        caller
    }

    fn remote_caller<M: Memory>(
        &self,
        hub: &mut Hub<M>,
        caller: Caller,
        said: Option<String>,
    ) -> RemoteCaller {
        let is_sealed = caller.is_sealed;
        let Seen { name, identity } = self.seen(caller, said);
        RemoteCaller { peer: hub.remote_peer(&name), identity, is_sealed }
    }

    fn set(&mut self, name: RequestName, call: RemoteCall, takes_image: bool) {
        if self.calls.len() <= name.index() {
            self.calls.resize(name.index() + 1, None);
        }
        self.calls[name.index()] = Some((call, takes_image));
    }

    fn take(&mut self, name: RequestName) -> Option<(RemoteCall, bool)> {
        self.calls.get_mut(name.index())?.take()
    }
}

/// A peer as policies know it.
pub struct Caller {
    /// A proved name, or an address.
    pub name: String,
    pub is_proved: bool,
    /// Its packets are encrypted.
    pub is_sealed: bool,
}

impl Caller {
    pub fn of(peer: Option<Peer>) -> Caller {
        let proved = peer.as_ref().and_then(|peer| peer.names().first());
        let is_proved = proved.is_some();
        let is_memory = |peer: &Peer| peer.transport() == PeerTransport::SharedMemory;
        let is_sealed = is_proved && !peer.as_ref().is_some_and(is_memory);
        let address = || peer.as_ref().map(|peer| peer.address().ip().to_string());
        let name = proved.cloned().or_else(address).unwrap_or_default();
        Caller { name, is_proved, is_sealed }
    }
}

impl Transport {
    /// Takes what has happened to relayed calls. Says whether there was anything.
    pub(super) fn hear_events<M: Memory>(&mut self, hub: &mut Hub<M>, now: Time) -> bool {
        let mut has_moved = false;
        while let Some(event) = self.event_loop.next_event() {
            has_moved = true;
            match event {
                Event::Arrived(arrived) => self.arrive(hub, arrived, now),
                Event::Left(name) => {
                    let Some((call, _)) = self.requests.take(name) else { continue };
                    if self.handles.remove(call).is_some() {
                        hub.remote_cancel(call, now);
                    }
                }
                Event::Returned { tag, request } => {
                    self.return_to_sender(hub, RemoteCall::from_number(tag), request, now);
                }
                Event::Done { tag, outcome } => {
                    let call = RemoteCall::from_number(tag);
                    if self.handles.remove(call).is_some() {
                        finish(hub, call, outcome, now);
                    } else {
                        outcome.into_iter().for_each(recycle);
                    }
                }
            }
        }
        has_moved
    }

    /// A request has come in.
    fn arrive<M: Memory>(&mut self, hub: &mut Hub<M>, arrived: Arrived, now: Time) {
        let name = arrived.name;
        match self.begin_request(hub, arrived, now) {
            Ok((call, takes_image)) => {
                self.requests.set(name, call, takes_image);
                self.handles.insert(call, Handle::Request(name));
            }
            Err(status) => self.event_loop.reply(name, refusal(status)),
        }
    }

    /// Gives a request to the application that serves it. Says whether the answer may be an image.
    fn begin_request<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        arrived: Arrived,
        now: Time,
    ) -> Result<(RemoteCall, bool), Status> {
        let Route { to, is_told } = self.requests.route(hub, arrived.token)?;
        let Received { encoding, body, mut metadata, .. } = read_request(&arrived)?;
        let said = take_caller(&mut metadata);
        let caller = self.requests.caller(hub, &arrived, said);
        let Arrived { bytes, deadline, head, .. } = arrived;
        let call = match encoding {
            Encoding::Native if is_told[0] => {
                let message = Encoded::Native(bytes, body);
                hub.begin_routed(&to, caller, (Some(message), metadata, deadline), now)?
            }
            // Its caller binds the new version when it calls again.
            Encoding::Native => return Err(Status::unavailable("another version is served now")),
            _ => {
                let message = Encoded::Protobuf(&bytes[body]);
                let call = hub.begin_routed(&to, caller, (Some(message), metadata, deadline), now);
                recycle(bytes);
                call?
            }
        };
        Ok((call, is_told[1] && head.answer.native))
    }

    /// Answers a request, if its answer is there.
    pub(super) fn answer<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        (call, name): (RemoteCall, RequestName),
    ) {
        // A unary call has nothing else.
        while let Some(item) = hub.next_remote_item(call) {
            let RemoteItem::End(end) = item else { continue };
            self.handles.remove(call);
            let takes_image = self.requests.take(name).is_some_and(|(_, takes_image)| takes_image);
            self.event_loop.reply(name, reply(end, takes_image));
        }
    }

    /// The server of a call takes no image of its request: it is sent as protobuf.
    #[cold]
    fn return_to_sender<M: Memory>(
        &mut self,
        hub: &mut Hub<M>,
        call: RemoteCall,
        request: MsgBuf,
        now: Time,
    ) {
        if self.handles.remove(call).is_none() {
            return recycle(request);
        }
        let mut request = request;
        request.flatten();
        let made = read_returned(&request).expect("this end made it");
        let Received { body, mut metadata, .. } = made;
        // It is told again.
        take_caller(&mut metadata);
        let returned = hub.remote_returned(call, &request[body], metadata);
        recycle(request);
        let begun = match returned {
            Some(again) => {
                let ends = (&self.event_loop, &self.grpc);
                self.channels.begin_again(*again, ends, &self.inbox, now)
            }
            // Nobody hears that of a call that is over at this host.
            None => Err(Status::cancelled("the call is over")),
        };
        self.begun(hub, call, begun, now);
    }
}

/// The outcome of a call that has left.
fn finish<M: Memory>(hub: &mut Hub<M>, call: RemoteCall, outcome: Outcome, now: Time) {
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(status) => return hub.remote_end(call, failure(status, false), now),
    };
    let Received { encoding, body, metadata, trailers } = match read_response(&bytes) {
        Ok(response) => response,
        Err(status) => {
            recycle(bytes);
            return hub.remote_end(call, failure(status, false), now);
        }
    };
    let succeeded = |message| RemoteOutcome {
        result: Ok(Some(message)),
        has_not_run: false,
        metadata,
        trailers,
    };
    if encoding == Encoding::Native {
        return hub.remote_end(call, succeeded(Encoded::Native(bytes, body)), now);
    }
    hub.remote_end(call, succeeded(Encoded::Protobuf(&bytes[body])), now);
    recycle(bytes);
}

fn reply(end: RemoteEnd, takes_image: bool) -> Reply {
    let RemoteEnd { status, message, metadata, .. } = end;
    let trailers = status.as_ref().map(|status| status.metadata().clone()).unwrap_or_default();
    let result = match (status, message) {
        (Some(status), _) if status.code() != petasos::Code::Ok => Err(status),
        (_, Some(message)) => message_in(message, takes_image),
        (_, None) => Err(Status::internal("there is no response")),
    };
    Reply { result, metadata, trailers }
}

/// The answer of a request that fails.
pub fn refusal(status: Status) -> Reply {
    let (metadata, trailers) = (Metadata::new(), Metadata::new());
    Reply { result: Err(status), metadata, trailers }
}

#[cfg(test)]
mod tests {
    use petasos::untyped::Service;
    use petasos_service::{Application, ApplicationLimits, RemoteLimits, SchemaLimits};
    use petasos_shm::{HeapKind, OwnedHeap};

    use super::*;

    type TestHub = Hub<(OwnedHeap, OwnedHeap)>;

    fn server(hub: &mut TestHub) -> petasos_engine::Application {
        let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
        let schema = petasos_schema::compile(["managed.proto"], [protos], &Default::default());
        let schema = schema.expect("the schema compiles").schema.encode();
        let heaps = [HeapKind::Send, HeapKind::Receive]
            .map(|kind| OwnedHeap::reserve(kind, 1 << 20).expect("there are addresses"));
        let number = hub.next_number();
        let limits = ApplicationLimits::default();
        hub.add(Application::new(number, "server", heaps.into(), limits, 1));
        hub.bind(number, &schema, "managed.Work", true).expect("the service is there");
        hub.serve(number, "work").expect("the name is free");
        number
    }

    #[test]
    fn what_other_hosts_were_told_of_keeps_no_schema_of_an_application_that_has_gone() {
        let mut hub = TestHub::new(SchemaLimits::default());
        hub.allow_remote(RemoteLimits::default());
        let number = server(&mut hub);
        let binding = hub.exports(ListenerId::default()).pop().expect("it serves one");
        let service = Service::with_images(binding.types.schema(), &binding.service);
        let mut requests = Requests::default();
        let service = Known::of(service.expect("it is there").info());
        let unused = requests.tokens(&service, &binding);
        requests.forget_tokens(unused.len());
        let tokens = requests.tokens(&service, &binding);
        assert_eq!(tokens, unused);
        let route = requests.route(&mut hub, tokens[2]).expect("it is served");
        assert_eq!(route.is_told, [true, true]);
        let weak = Arc::downgrade(&binding);
        drop((binding, route));
        hub.remove(number, Time::ZERO);
        requests.forget_routes();
        assert!(weak.upgrade().is_none());
        let gone = requests.route(&mut hub, tokens[2]).map(|_| ()).expect_err("nobody serves it");
        assert_eq!(gone.code(), petasos::Code::Unavailable);
    }
}
