//! A router, clients and workers, each with a node of its own.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos_endpoint::{
    CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, GroupConfig, GroupId, Node,
    NodeConfig, Payload, Request, RoutePolicy, Routing, ServeConfig, ServedGroupId, SessionError,
    SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_control::{GroupSettings, RouterService};

use crate::certificates::{Authority, secured_node};

pub const BIND: u16 = 0;
pub const ECHO: u16 = 1;
pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A node with a certificate of this name.
pub fn secured(authority: &Authority, name: &str, listens: bool) -> Node {
    secured_node(listens, authority.pem(name), None)
}

pub fn node(listens: bool) -> Node {
    let listen = listens.then_some(SocketAddr::new(LOCALHOST, 0));
    Node::start(NodeConfig { listen, ..NodeConfig::default() }).expect("loopback has ports")
}

pub fn socket() -> UdpIo {
    let socket = UdpIo::bind(SocketAddr::new(LOCALHOST, 0), UdpConfig::default());
    socket.expect("loopback has ports")
}

pub struct Router {
    _node: Node,
    pub service: RouterService,
    pub address: SocketAddr,
}

impl Router {
    pub fn start(settings: GroupSettings) -> Router {
        Router::start_at(node(true), settings)
    }

    /// With a thread of its own for feedback.
    pub fn start_split(settings: GroupSettings) -> Router {
        let node = node(true);
        let service = RouterService::start_split(&node, socket(), socket(), None, settings);
        let address = node.local_address().expect("it listens");
        Router { _node: node, service: service.expect("they are right"), address }
    }

    pub fn start_at(node: Node, settings: GroupSettings) -> Router {
        let service = match settings.services.is_empty() {
            true => RouterService::start(&node, socket(), settings),
            false => RouterService::start_with_table(&node, socket(), socket(), settings),
        };
        let service = service.expect("they are right");
        let address = node.local_address().expect("it listens");
        Router { _node: node, service, address }
    }
}

/// Settings with which workers whose connections break stay members, also if their loops do not
/// run for a while: pairs that are bound to a worker fail when it leaves the roster (RT14).
pub fn patient() -> GroupSettings {
    let mut settings = GroupSettings::default();
    let liveness = settings.plane.core.liveness.as_mut().expect("there is one by default");
    liveness.lease = Duration::from_secs(8);
    settings
}

/// What a worker answers to binds; `None`: nothing, ever.
pub type Binds = Box<dyn Fn(&[u8]) -> Option<Vec<u8>>>;

/// What a client or worker keeps.
#[derive(Default)]
pub struct State {
    binds: Option<Binds>,
    /// Binds that have arrived.
    pub bound: u64,
    pub answered: u64,
    pub handled: u64,
    /// The names of callers, as often as there are others.
    pub callers: Vec<Vec<String>>,
    pub errors: Vec<petasos_endpoint::CallError>,
}

fn count(state: &mut State, cx: &mut Context<State>, done: Completion<'_>) {
    match done.result {
        Ok(response) => {
            assert_eq!(response.as_slice(), done.request.as_slice());
            state.answered += 1;
            if let Payload::Buffer(buf) = response {
                cx.free(buf);
            }
        }
        Err(error) => state.errors.push(error),
    }
    cx.free(done.request);
}

fn echo(state: &mut State, cx: &mut Context<State>, request: Request<'_>) {
    state.handled += 1;
    let names = cx.peer(&request.handle).map(|identity| identity.names.clone());
    if let Some(names) = names.filter(|names| !state.callers.contains(names)) {
        state.callers.push(names);
    }
    cx.respond_with(request.handle, &request.payload);
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

fn bind(state: &mut State, cx: &mut Context<State>, request: Request<'_>) {
    state.bound += 1;
    let answer = state.binds.as_ref().and_then(|binds| binds(&request.payload));
    if let Some(answer) = answer {
        cx.respond_with(request.handle, &answer);
    }
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

pub struct Member<Id> {
    pub endpoint: Endpoint<State>,
    pub group: Id,
    pub made: u64,
    pub node: Node,
}

fn endpoint(node: &Node) -> Endpoint<State> {
    let config = EndpointConfig::default();
    let mut endpoint = Endpoint::new(config, socket(), Clock::system(), State::default());
    endpoint.register(ECHO, echo);
    endpoint.attach(node).expect("the node runs");
    endpoint
}

pub fn client(routers: &[SocketAddr]) -> Member<GroupId> {
    client_at(node(false), routers)
}

pub fn client_at(node: Node, routers: &[SocketAddr]) -> Member<GroupId> {
    open(node, &GroupConfig { routers: routers.to_vec(), ..GroupConfig::default() })
}

pub fn client_with(config: &GroupConfig) -> Member<GroupId> {
    open(node(false), config)
}

fn open(node: Node, config: &GroupConfig) -> Member<GroupId> {
    let mut endpoint = endpoint(&node);
    let group = endpoint.open_group(config).expect("it is attached to its node");
    Member { endpoint, group, made: 0, node }
}

pub fn worker(routers: &[SocketAddr]) -> Member<ServedGroupId> {
    worker_that(routers, |_| {})
}

pub fn worker_that(
    routers: &[SocketAddr],
    change: impl FnOnce(&mut ServeConfig),
) -> Member<ServedGroupId> {
    worker_at(node(false), routers, change)
}

pub fn worker_at(
    node: Node,
    routers: &[SocketAddr],
    change: impl FnOnce(&mut ServeConfig),
) -> Member<ServedGroupId> {
    let mut endpoint = endpoint(&node);
    let mut config = ServeConfig { routers: routers.to_vec(), bound: 8, ..ServeConfig::default() };
    change(&mut config);
    let group = endpoint.serve_group(&config).expect("it is attached to its node");
    Member { endpoint, group, made: 0, node }
}

/// A worker that listens and answers binds.
pub fn worker_that_binds(
    routers: &[SocketAddr],
    binds: Binds,
    change: impl FnOnce(&mut ServeConfig),
) -> Member<ServedGroupId> {
    worker_on(node(true), binds, routers, change)
}

/// A worker at a node that listens, which may have others. The router binds at any of them.
pub fn worker_on(
    node: Node,
    binds: Binds,
    routers: &[SocketAddr],
    change: impl FnOnce(&mut ServeConfig),
) -> Member<ServedGroupId> {
    let state = State { binds: Some(binds), ..State::default() };
    let mut endpoint = Endpoint::new(EndpointConfig::default(), socket(), Clock::system(), state);
    endpoint.register(BIND, bind);
    endpoint.register(ECHO, echo);
    endpoint.attach(&node).expect("the node runs");
    let dial_port = node.local_address().map(|address| address.port());
    let (routers, bound) = (routers.to_vec(), 8);
    let mut config = ServeConfig { routers, bound, dial_port, ..ServeConfig::default() };
    change(&mut config);
    let group = endpoint.serve_group(&config).expect("it is attached to its node");
    Member { endpoint, group, made: 0, node }
}

impl Member<GroupId> {
    /// A call, if there is an attachment.
    pub fn call(&mut self, bytes: usize, is_idempotent: bool) -> bool {
        self.call_routed(bytes, Routing { is_idempotent, ..Routing::default() })
    }

    pub fn call_by(&mut self, policy: RoutePolicy) -> bool {
        self.call_routed(8, Routing { policy, ..Routing::default() })
    }

    fn call_routed(&mut self, bytes: usize, routing: Routing) -> bool {
        let cx = self.endpoint.context();
        let Some(session) = cx.group_session(self.group) else { return false };
        let mut request = cx.alloc(bytes).expect("the pool has room");
        request.fill(7);
        let settings = CallSettings::default();
        cx.enqueue_routed(session, ECHO, request, count, 0, &settings, routing).is_ok()
    }

    /// The attachment that calls go by.
    pub fn session(&mut self) -> Option<SessionId> {
        self.endpoint.context().group_session(self.group)
    }

    pub fn peers(&mut self) -> usize {
        self.endpoint
            .context()
            .group_routers(self.group)
            .iter()
            .map(|at| at.peers)
            .max()
            .unwrap_or(0)
    }
}

impl Member<ServedGroupId> {
    /// Why it is no member of its only router's group.
    pub fn failure(&mut self) -> Option<(SessionError, String)> {
        let at = self.endpoint.context().served_routers(self.group);
        at[0].failure.as_ref().map(|failure| (failure.error.clone(), failure.detail.clone()))
    }

    pub fn is_member(&mut self) -> bool {
        let at = self.endpoint.context().served_routers(self.group);
        at.iter().all(|at| at.is_member && at.failure.is_none())
    }
}

/// Turns all of them until something holds.
pub fn until(
    clients: &mut [Member<GroupId>],
    workers: &mut [Member<ServedGroupId>],
    mut holds: impl FnMut(&mut [Member<GroupId>], &mut [Member<ServedGroupId>]) -> bool,
) {
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    while !holds(clients, workers) {
        let mut is_busy = false;
        clients.iter_mut().for_each(|it| is_busy |= it.endpoint.run_once());
        workers.iter_mut().for_each(|it| is_busy |= it.endpoint.run_once());
        if !is_busy {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(clock.now() < end, "it holds in the end");
    }
}

/// Between members and a router's control address: it can be cut.
pub struct Wire {
    pub address: SocketAddr,
    /// Where new connections lead.
    server: Arc<Mutex<SocketAddr>>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// What the router has said on all connections.
    said: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    pub fn to(server: SocketAddr) -> Wire {
        let listener = TcpListener::bind((LOCALHOST, 0)).expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let streams = Arc::new(Mutex::new(Vec::new()));
        let shared = streams.clone();
        let server = Arc::new(Mutex::new(server));
        let to = server.clone();
        let said = Arc::new(Mutex::new(Vec::new()));
        let record = said.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let server = *to.lock().expect("nothing panics under it");
                let Ok(far) = TcpStream::connect(server) else { continue };
                let clone = |it: &TcpStream| it.try_clone().expect("descriptors");
                let (from, to, record) = (clone(&far), clone(&near), record.clone());
                std::thread::spawn(move || carry(from, to, Some(&record)));
                let (from, to) = (clone(&near), clone(&far));
                std::thread::spawn(move || carry(from, to, None));
                shared.lock().expect("nothing panics under it").extend([near, far]);
            }
        });
        Wire { address, server, streams, said }
    }

    /// Ends all connections that stand. New ones lead to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.server.lock().expect("nothing panics under it") = server;
        self.cut();
    }

    /// What the router has said so far, of which there was one connection.
    pub fn said(&self) -> Vec<u8> {
        self.said.lock().expect("nothing panics under it").clone()
    }

    /// Ends all connections that stand.
    pub fn cut(&self) {
        for stream in self.streams.lock().expect("nothing panics under it").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, record: Option<&Mutex<Vec<u8>>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(record) = record {
            record.lock().expect("nothing panics under it").extend(&bytes[..count]);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
