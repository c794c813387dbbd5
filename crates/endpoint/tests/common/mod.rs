//! What the tests with real sockets share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{
    Backend, Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Node, NodeConfig,
    Notifier, Request, SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

/// Returns the request's bytes.
pub const ECHO: u16 = 1;
/// Has no handler anywhere.
pub const UNKNOWN: u16 = 9;
/// Longer than anything in these tests takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Ends the process if it is not dropped in time, so that a hang is a failure with a name.
pub struct Watchdog {
    _cancel: mpsc::Sender<()>,
}

pub fn watchdog(what: &'static str) -> Watchdog {
    let (cancel, cancelled) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if cancelled.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what} hangs");
            std::process::abort();
        }
    });
    Watchdog { _cancel: cancel }
}

pub fn localhost() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// IPv6 loopback, if this host has it.
pub fn localhost6() -> Option<IpAddr> {
    let ip = IpAddr::from(Ipv6Addr::LOCALHOST);
    let there = std::net::UdpSocket::bind((ip, 0)).is_ok();
    if !there {
        petasos_skips::skip("ipv6", "this host has no ::1");
    }
    there.then_some(ip)
}

pub fn node(listen: Option<IpAddr>) -> Node {
    let listen = listen.map(|ip| SocketAddr::new(ip, 0));
    let name = "test".to_owned();
    Node::start(NodeConfig { listen, name, ..NodeConfig::default() }).expect("loopback has ports")
}

pub fn endpoint_at<S>(ip: IpAddr, config: EndpointConfig, state: S) -> Endpoint<S> {
    let io = UdpIo::bind(SocketAddr::new(ip, 0), UdpConfig::default());
    Endpoint::new(config, io.expect("loopback has ports"), Clock::system(), state)
}

/// A client endpoint that collects the outcomes of its calls.
pub fn client(node: &Node, ip: IpAddr) -> Endpoint<Outcomes> {
    let mut endpoint = endpoint_at(ip, EndpointConfig::default(), Outcomes::default());
    endpoint.attach(node).expect("the node runs");
    endpoint
}

pub type Outcome = Result<Vec<u8>, petasos_endpoint::CallError>;

#[derive(Default)]
pub struct Outcomes {
    pub list: Vec<(u64, Outcome)>,
}

pub fn collect(state: &mut Outcomes, cx: &mut Context<Outcomes>, done: Completion<'_>) {
    let outcome = done.result.map(|payload| payload.to_vec());
    state.list.push((done.tag, outcome));
    cx.free(done.request);
}

/// Starts a call whose outcome is collected under `tag`.
pub fn start(client: &mut Endpoint<Outcomes>, session: SessionId, method: u16, tag: u64) {
    let request = MsgBuf::from_slice(&tag.to_le_bytes());
    let context = client.context();
    context.enqueue_request(session, method, request, collect, tag).expect("there is room");
}

/// One call, waited for.
pub fn call(client: &mut Endpoint<Outcomes>, session: SessionId, method: u16) -> Outcome {
    start(client, session, method, 7);
    assert!(client.run_for(PATIENCE, |state, _| !state.list.is_empty()), "the call ends");
    client.state_mut().list.pop().expect("the call has ended").1
}

/// One echo, checked.
pub fn echoes(client: &mut Endpoint<Outcomes>, session: SessionId) {
    assert_eq!(call(client, session, ECHO), Ok(7u64.to_le_bytes().to_vec()));
}

pub fn echo<S>(_: &mut S, cx: &mut Context<S>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

/// A server endpoint on a thread of its own.
pub struct Server {
    stop: std::sync::Arc<AtomicBool>,
    notifier: Notifier,
    thread: Option<JoinHandle<usize>>,
}

impl Server {
    pub fn start(node: &Node, ip: IpAddr) -> Server {
        Server::start_with(node, ip, |_| {})
    }

    /// A server of the echo and of what `prepare` registers; counts the requests.
    pub fn start_with(
        node: &Node,
        ip: IpAddr,
        prepare: impl FnOnce(&mut Endpoint<usize>) + Send + 'static,
    ) -> Server {
        let udp = move || {
            let io = UdpIo::bind(SocketAddr::new(ip, 0), UdpConfig::default());
            io.expect("loopback has ports").into()
        };
        Server::start_over(node, udp, EndpointConfig::default(), prepare)
    }

    /// The same over any packet I/O.
    pub fn start_over(
        node: &Node,
        io: impl FnOnce() -> Backend + Send + 'static,
        config: EndpointConfig,
        prepare: impl FnOnce(&mut Endpoint<usize>) + Send + 'static,
    ) -> Server {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let (stopped, node) = (stop.clone(), node.clone());
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut endpoint = Endpoint::new(config, io(), Clock::system(), 0usize);
            endpoint.register(ECHO, |count, cx, request| {
                *count += 1;
                echo(count, cx, request);
            });
            prepare(&mut endpoint);
            endpoint.attach(&node).expect("the node runs");
            drop(node);
            ready.send(endpoint.notifier().expect("descriptors")).expect("the test waits");
            endpoint.run(|_, _| stopped.load(Ordering::Acquire));
            *endpoint.state()
        });
        let notifier = is_ready.recv().expect("the server starts");
        Server { stop, notifier, thread: Some(thread) }
    }

    fn tell(&self) {
        self.stop.store(true, Ordering::Release);
        self.notifier.notify();
    }

    /// Ends the thread: how many echoes it served.
    pub fn stop(mut self) -> usize {
        self.tell();
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the server does not panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tell();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server, a client of it, and the session between them.
pub struct Connected {
    pub client: Endpoint<Outcomes>,
    pub session: SessionId,
    _server: Server,
    _nodes: [Node; 2],
}

/// With a server of the echo and of what `prepare` registers.
pub fn connected(prepare: impl FnOnce(&mut Endpoint<usize>) + Send + 'static) -> Connected {
    let server_node = node(Some(localhost()));
    let server = Server::start_with(&server_node, localhost(), prepare);
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    Connected { client, session, _server: server, _nodes: [server_node, client_node] }
}

/// Another run of this program, of one of its tests alone.
pub fn this_program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args([test, "--exact", "--nocapture"]);
    command
}

/// A server in a process of its own.
pub struct ServerProcess {
    pub child: Child,
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Runs `command`, in which [`tell_parent`] is called.
    pub fn start(mut command: Command) -> io::Result<ServerProcess> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map(|line| line.expect("the child writes text"));
        let address = lines.find_map(|line| line.strip_prefix("listens at ")?.parse().ok());
        Ok(ServerProcess { child, address: address.expect("the child tells its address") })
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has been killed");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says where `node` listens, to whoever has started this process, and waits for its end.
pub fn tell_parent(node: &Node) {
    let address = node.local_address().expect("it listens");
    let mut out = io::stdout();
    writeln!(out, "\nlistens at {address}").expect("the parent reads");
    out.flush().expect("the parent reads");
    // Ends with the parent, if it is not killed before.
    let _ = io::stdin().read_line(&mut String::new());
}
