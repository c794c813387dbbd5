//! The process as its peers see it: one control thread, one TCP port, many endpoints.
//!
//! A [`Node`] owns a thread that runs the control protocol (`docs/spec/control.md`) over TCP. It
//! has one connection to each process where this process has sessions, shared by all endpoints and
//! sessions, and one from each process that has sessions here. Endpoints attach to the node. The
//! two sides exchange messages through mailboxes, and share nothing else except the list of
//! members.
//!
//! Who may touch what: the control thread owns sockets, connections and attempts; an endpoint's
//! thread owns its sessions. A session depends on one control connection, and fails with it unless
//! another connection replaces it in time (`lost`).
//!
//! How it ends: dropping the last clone of the node stops the thread. The thread says goodbye on
//! every connection, waits a moment for that to arrive, and tells every endpoint that the node is
//! gone. An endpoint does not keep its node alive.
//!
//! Nothing here names an endpoint; an endpoint's side is in `attach`, `incoming` and `outside`.

mod control;
mod guard;
mod host;
mod link;
mod lost;
mod quota;
mod succession;
mod tls;
mod without_rings;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;

use core::time::Duration;

use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_control::{Capabilities, Config, Hello, SUPPORTED, Text};

use crate::enrolment::EnrolmentId;
use crate::error::{AttachError, NodeError};
use crate::group_router::GroupRouter;
use crate::mail::{Command, GroupCommand, Mail};
use crate::mailbox::Mailbox;
use control::Control;
use guard::Guard;
pub use guard::{Credentials, TlsConfig};
pub use quota::NodeStats;

/// The most endpoints of one node, which is also the number that its hello announces.
const ENDPOINTS_MAX: u16 = 1024;

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The address at which other processes reach this one; `None` if they need not. With port 0
    /// the system chooses the port.
    pub listen: Option<SocketAddr>,
    /// After this much silence, a peer is asked for a sign of life.
    pub heartbeat: Duration,
    /// After this much silence, a peer counts as failed; longer than `heartbeat`. A peer also has
    /// this long to introduce itself.
    pub failure_timeout: Duration,
    /// How long to wait for a TCP connection, and for the answer of a live peer.
    pub connect_timeout: Duration,
    /// The most connections from other processes at a time; more are closed at once.
    pub connections_max: usize,
    /// The most of these from one address (for IPv6, one /64), so that one host leaves room for
    /// others. A process has one connection to another. Over TLS this limit applies until the peer
    /// has proved its name.
    pub connections_per_address_max: usize,
    /// Over TLS, the most connections of one name (the first in the certificate), from any address.
    pub connections_per_name_max: usize,
    /// How many connections one address may begin per second, which is also the most at once. Over
    /// TLS each costs a handshake. A handshake that proves a name counts for that name instead, as
    /// long as the name has some left.
    pub handshakes_per_second: u32,
    /// How long sessions outlive a control connection that broke, so that another one can replace
    /// it. Meanwhile calls continue, and new sessions with the same peer wait. With 0, sessions end
    /// with the connection. A connection whose peer is silent, or where nothing listens any more,
    /// has failed at once.
    pub resume_grace: Duration,
    /// TLS on every control connection, and sealed packets: see [`TlsConfig`]. The peers' nodes
    /// must have it as well.
    pub tls: Option<TlsConfig>,
    /// Whether a node without TLS may listen at, and connect to, addresses beyond this host. Anyone
    /// on the network can then listen, make calls and forge packets.
    pub plaintext: bool,
    /// The process's name, for messages to people.
    pub name: String,
    /// The seed of the incarnation number; `None` takes one from the system. Two processes, or two
    /// starts of one process, must not share it.
    pub seed: Option<u64>,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        let control = Config::default();
        NodeConfig {
            listen: None,
            heartbeat: control.heartbeat_interval,
            failure_timeout: control.failure_timeout,
            connect_timeout: control.connect_timeout,
            connections_max: 1024,
            connections_per_address_max: 256,
            connections_per_name_max: 512,
            handshakes_per_second: 256,
            resume_grace: Duration::from_secs(1),
            tls: None,
            plaintext: false,
            name: String::new(),
            seed: None,
        }
    }
}

/// A process among its peers. See the module's documentation. Clones are the same node.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

/// Where a node's listener comes from.
enum Listening {
    /// The node binds the address of its configuration, if there is one.
    Bind,
    /// Another process has had it, and may accept at it still.
    Adopted(TcpListener),
}

struct Inner {
    shared: Arc<Shared>,
    local: Option<SocketAddr>,
    /// The control thread's, so that another process can get it.
    listener: Weak<TcpListener>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the node, its thread and its endpoints share.
pub(crate) struct Shared {
    pub(crate) commands: Mailbox<Command>,
    pub(crate) guard: Guard,
    /// Counters of refusals.
    refused: quota::Counters,
    members: Mutex<Members>,
    has_router: AtomicBool,
    /// Counts from a random start, so that an endpoint that moves to another node does not mistake
    /// late mail of the first node for mail of the second.
    enrolments: AtomicU64,
}

/// The attached endpoints by index.
#[derive(Default)]
pub(crate) struct Members {
    list: Vec<Option<Member>>,
    /// Whether the node has ended: nobody can join any more.
    closed: bool,
}

/// One attached endpoint.
pub(crate) struct Member {
    pub(crate) mailbox: Arc<Mailbox<Mail>>,
    /// Whether it has handlers, so that sessions can be opened to it.
    pub(crate) serves: bool,
}

impl Shared {
    fn new(guard: Guard) -> io::Result<Shared> {
        Ok(Shared {
            commands: Mailbox::new()?,
            guard,
            refused: quota::Counters::default(),
            members: Mutex::default(),
            has_router: AtomicBool::new(false),
            enrolments: AtomicU64::new(petasos_base::random_seed()),
        })
    }

    /// That of a node without a thread, which is played by hand, on loopback.
    pub(crate) fn by_hand() -> io::Result<Shared> {
        Shared::new(Guard::default())
    }
}

impl Node {
    /// Starts a node with its own thread.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn start(config: NodeConfig) -> Result<Node, NodeError> {
        Node::start_with(config, Listening::Bind)
    }

    fn start_with(config: NodeConfig, listening: Listening) -> Result<Node, NodeError> {
        let control = Config {
            heartbeat_interval: config.heartbeat,
            failure_timeout: config.failure_timeout,
            connect_timeout: config.connect_timeout,
            ..Config::default()
        };
        control.validate().map_err(NodeError::Config)?;
        let guard = Guard::new(&config).map_err(NodeError::Credentials)?;
        if let Some(address) = config.listen.filter(|address| guard.forbids(address.ip())) {
            return Err(NodeError::Plaintext(address));
        }
        let accepts = matches!(listening, Listening::Bind);
        let listener = match listening {
            Listening::Bind => config.listen.map(listen).transpose()?,
            Listening::Adopted(listener) => Some(listener),
        };
        let local = listener.as_ref().map(TcpListener::local_addr).transpose();
        let local = local.map_err(|error| failed("read the local address", error))?;
        let shared = Shared::new(guard).map_err(|error| failed("open an eventfd", error))?;
        let shared = Arc::new(shared);
        let hello = hello(&config, listener.is_some());
        let listener = listener.map(Arc::new);
        let shared_listener = listener.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let thread = {
            let shared = shared.clone();
            let run = move || {
                let clock = Clock::system();
                let control = Control::new(shared, listener, control, hello, &config, clock);
                if accepts { control.run() } else { control.without_accepting().run() }
            };
            std::thread::Builder::new().name("petasos-control".into()).spawn(run)
        };
        let thread = thread.map_err(|error| failed("start the control thread", error))?;
        let thread = Mutex::new(Some(thread));
        let inner = Inner { shared, local, listener: shared_listener, thread };
        Ok(Node { inner: Arc::new(inner) })
    }

    /// The address at which other processes reach this one; `None` if the node does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.inner.local
    }

    /// Whether its control connections are over TLS.
    pub fn is_secured(&self) -> bool {
        self.inner.shared.guard.is_secured()
    }

    /// What the node has refused so far, and what it has resumed.
    pub fn stats(&self) -> NodeStats {
        self.inner.shared.refused.read()
    }

    /// Begins a graceful shutdown: peers are told, new sessions are refused, and every endpoint
    /// rejects new requests while it finishes its present ones (see
    /// [`crate::Endpoint::shut_down`]).
    pub fn drain(&self) {
        // If the thread is gone there is nothing left to drain.
        let _ = self.inner.shared.commands.post(Command::Drain);
    }

    /// Makes this process the router of a group: `router` answers the clients and workers that dial
    /// the node's address. Without a router, they are refused.
    ///
    /// # Errors
    /// The node has a router already: what that has granted is not known to another.
    pub fn set_router(&self, router: Box<dyn GroupRouter>) -> Result<(), HasRouter> {
        if self.inner.shared.has_router.swap(true, Ordering::Relaxed) {
            return Err(HasRouter);
        }
        // If the thread is gone there is nobody to answer.
        let _ = self.inner.shared.commands.post(Command::Group(GroupCommand::SetRouter(router)));
        Ok(())
    }

    /// Lets the router do what is due: see [`GroupRouter::turn`].
    pub fn turn_router(&self) {
        self.router_waker().wake();
    }

    /// Does the same from other threads, which do not keep the node alive by that.
    pub fn router_waker(&self) -> RouterWaker {
        RouterWaker(Arc::downgrade(&self.inner.shared))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}

/// Why a node is not given a router: it has one. The caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasRouter;

impl core::fmt::Display for HasRouter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the node has a router")
    }
}

impl std::error::Error for HasRouter {}

/// Wakes the router of a node: see [`Node::turn_router`].
#[derive(Clone)]
pub struct RouterWaker(Weak<Shared>);

impl RouterWaker {
    /// Lets the router do what is due. Nothing happens if the node has ended.
    pub fn wake(&self) {
        if let Some(shared) = self.0.upgrade() {
            // If the thread is gone there is nothing to do.
            let _ = shared.commands.post(Command::Group(GroupCommand::TurnRouter));
        }
    }
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node").field("local", &self.inner.local).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A thread that is already gone need not be told.
        let _ = self.shared.commands.post(Command::Stop);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            // If the thread panicked, its unwinding has told the endpoints; a drop must not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// A name for another enrolment.
    pub(crate) fn next_enrolment(&self) -> EnrolmentId {
        self.enrolments.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().expect("nothing panics under the lock")
    }
}

impl Members {
    /// Adds a member at the lowest free index.
    pub(crate) fn join(&mut self, member: Member) -> Result<u16, AttachError> {
        if self.closed {
            return Err(AttachError::NodeEnded);
        }
        let free = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        if free >= usize::from(ENDPOINTS_MAX) {
            return Err(AttachError::TooManyEndpoints);
        }
        if free == self.list.len() {
            self.list.push(None);
        }
        self.list[free] = Some(member);
        Ok(free as u16)
    }

    pub(crate) fn leave(&mut self, index: u16) {
        self.list[usize::from(index)] = None;
    }

    /// Notes that the member has handlers from now on.
    pub(crate) fn serve(&mut self, index: u16) {
        if let Some(Some(member)) = self.list.get_mut(usize::from(index)) {
            member.serves = true;
        }
    }

    fn get(&self, index: u16) -> Option<&Member> {
        self.list.get(usize::from(index))?.as_ref()
    }

    /// The first serving member from index `from` on, wrapping around.
    fn next_serving(&self, from: usize) -> Option<u16> {
        let count = self.list.len();
        let mut circle = (0..count).map(|step| (from + step) % count);
        let serves = |at: &usize| self.list[*at].as_ref().is_some_and(|member| member.serves);
        circle.find(serves).map(|at| at as u16)
    }
}

fn hello(config: &NodeConfig, listens: bool) -> Hello {
    let capabilities = Capabilities::CLIENT.with(Capabilities::LOCAL);
    let capabilities = capabilities.with(Capabilities::TCP).with(Capabilities::FABRIC);
    let capabilities = capabilities.with(Capabilities::GROUPS);
    Hello {
        versions: SUPPORTED,
        incarnation: config.seed.unwrap_or_else(petasos_base::random_seed),
        // The limit, not the present number: endpoints come and go while a connection lives.
        endpoints: ENDPOINTS_MAX,
        capabilities: match listens {
            true => capabilities.with(Capabilities::SERVER),
            false => capabilities,
        },
        name: Text::new(&config.name),
        place: host::place(),
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, NodeError> {
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => NodeError::AddressInUse(address),
        io::ErrorKind::AddrNotAvailable => NodeError::AddressNotLocal(address),
        _ => failed("listen", error),
    })?;
    unblock(&listener)?;
    Ok(listener)
}

fn unblock(listener: &TcpListener) -> Result<(), NodeError> {
    let unblocked = listener.set_nonblocking(true);
    unblocked.map_err(|error| failed("make the listener nonblocking", error))
}

fn failed(attempt: &'static str, error: io::Error) -> NodeError {
    NodeError::System { attempt, error }
}
