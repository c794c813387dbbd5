//! Routers and workers that are processes, and are killed.

mod support;

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use petasos_endpoint::{
    CallError, CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, GroupConfig,
    GroupId, Node, NodeConfig, Payload, Request, Routing, ServeConfig,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use support::{Process, router};

const ECHO: u16 = 1;
const PATIENCE: Duration = Duration::from_secs(30);
/// Set in a worker's process: the addresses of its routers.
const ROUTERS: &str = "PETASOS_TEST_ROUTERS";
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Default)]
struct Calls {
    answered: u64,
    errors: Vec<CallError>,
}

fn count(calls: &mut Calls, cx: &mut Context<Calls>, done: Completion<'_>) {
    match done.result {
        Ok(response) => {
            assert_eq!(response.as_slice(), done.request.as_slice());
            calls.answered += 1;
            if let Payload::Buffer(buf) = response {
                cx.free(buf);
            }
        }
        Err(error) => calls.errors.push(error),
    }
    cx.free(done.request);
}

fn echo(_: &mut Calls, cx: &mut Context<Calls>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

fn endpoint(node: &Node) -> Endpoint<Calls> {
    let io = UdpIo::bind(SocketAddr::new(LOCALHOST, 0), UdpConfig::default());
    let io = io.expect("loopback has ports");
    let config = EndpointConfig::default();
    let mut endpoint = Endpoint::new(config, io, Clock::system(), Calls::default());
    endpoint.register(ECHO, echo);
    endpoint.attach(node).expect("the node runs");
    endpoint
}

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    let Ok(routers) = std::env::var(ROUTERS) else { return };
    let routers = routers.split(',').map(|it| it.parse().expect("an address")).collect();
    let node = Node::start(NodeConfig::default()).expect("threads are to be had");
    let mut worker = endpoint(&node);
    let config = ServeConfig { routers, bound: 8, ..ServeConfig::default() };
    let group = worker.serve_group(&config).expect("the node runs");
    worker.run_for(PATIENCE, |_, cx| cx.served_routers(group).iter().any(|at| at.is_member));
    println!("worker: ready");
    // It ends when its parent has, or after a while.
    worker.run_for(Duration::from_secs(120), |_, _| false);
}

fn worker(routers: &[SocketAddr]) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    let routers: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    command.args(["child_worker", "--exact", "--nocapture"]).env(ROUTERS, routers.join(","));
    Process::start(command, "worker: ready")
}

struct Client {
    endpoint: Endpoint<Calls>,
    group: GroupId,
    made: u64,
    _node: Node,
}

impl Client {
    fn new(routers: &[SocketAddr]) -> Client {
        let node = Node::start(NodeConfig::default()).expect("threads are to be had");
        let mut endpoint = endpoint(&node);
        let config = GroupConfig { routers: routers.to_vec(), ..GroupConfig::default() };
        let group = endpoint.open_group(&config).expect("the node runs");
        Client { endpoint, group, made: 0, _node: node }
    }

    /// Until a router knows so many workers.
    fn until_workers(&mut self, count: usize) {
        let group = self.group;
        let is_so = |_: &mut Calls, cx: &mut Context<Calls>| {
            cx.group_routers(group).iter().any(|at| at.is_member && at.peers == count)
        };
        assert!(self.endpoint.run_for(PATIENCE, is_so), "{count} workers");
    }

    fn call(&mut self, is_idempotent: bool) {
        let cx = self.endpoint.context();
        let Some(session) = cx.group_session(self.group) else { return };
        let mut request = cx.alloc(64).expect("the pool has room");
        request.fill(7);
        let routing = Routing { is_idempotent, ..Routing::default() };
        let settings = CallSettings::default();
        let call = cx.enqueue_routed(session, ECHO, request, count, 0, &settings, routing);
        self.made += u64::from(call.is_ok());
    }

    /// Makes calls, some at a time, until so many have ended; `midway` once half were made.
    fn calls(&mut self, count: u64, is_idempotent: bool, midway: impl FnOnce()) {
        let (begun, ended) = (self.made, self.ended());
        let mut midway = Some(midway);
        let clock = Clock::system();
        let end = clock.now() + PATIENCE;
        while self.ended() - ended < count {
            assert!(clock.now() < end, "{} of {count} have ended", self.ended() - ended);
            if self.made - begun < count && self.made - self.ended() < 32 {
                self.call(is_idempotent);
            }
            if self.made - begun >= count / 2
                && let Some(midway) = midway.take()
            {
                midway();
            }
            self.endpoint.run_once();
        }
    }

    /// Calls that may have run or not.
    fn uncertain(&self) -> usize {
        let errors = self.endpoint.state().errors.iter();
        errors.filter(|error| !error.retry_is_safe()).count()
    }

    fn ended(&self) -> u64 {
        let calls = self.endpoint.state();
        calls.answered + calls.errors.len() as u64
    }
}

#[test]
fn a_killed_worker_costs_the_calls_that_it_had_and_others_go_on() {
    let (_router, address) = router(&["--listen", "127.0.0.1:0"]);
    let mut workers = [worker(&[address]), worker(&[address])];
    let mut client = Client::new(&[address]);
    client.until_workers(2);
    client.calls(500, false, || {});
    assert_eq!(client.uncertain(), 0);
    client.calls(2000, false, || workers[0].kill());
    // A worker has three at a time (jbsq3): what those do, only it knew. All others have run once,
    // or have certainly not run.
    let lost = client.uncertain();
    assert!(lost <= 3, "{lost}: {:?}", client.endpoint.state().errors);
    client.until_workers(1);
    let answered = client.endpoint.state().answered;
    client.calls(500, false, || {});
    assert_eq!(client.uncertain(), lost);
    assert!(client.endpoint.state().answered > answered);
}

#[test]
fn rt38_a_killed_router_costs_no_call_that_may_run_twice() {
    let (mut first, one) = router(&["--listen", "127.0.0.1:0"]);
    let (_second, other) = router(&["--listen", "127.0.0.1:0", "--standby"]);
    let _workers = [worker(&[one, other]), worker(&[one, other])];
    let mut client = Client::new(&[one, other]);
    client.until_workers(2);
    let both = |_: &mut Calls, cx: &mut Context<Calls>, group| {
        cx.group_routers(group).iter().all(|at| at.peers == 2)
    };
    let group = client.group;
    assert!(client.endpoint.run_for(PATIENCE, |calls, cx| both(calls, cx, group)));
    client.calls(4000, true, || first.kill());
    assert_eq!(client.endpoint.state().errors, []);
}

#[test]
fn rt35_a_router_that_comes_back_at_its_address_is_joined_anew() {
    let (mut router_process, address) = router(&["--listen", "127.0.0.1:0"]);
    let _worker = worker(&[address]);
    let mut client = Client::new(&[address]);
    client.until_workers(1);
    client.calls(200, true, || {});
    router_process.kill();
    let listen = address.to_string();
    let (_again, same) = router(&["--listen", &listen]);
    assert_eq!(same, address);
    let group = client.group;
    let is_back = |_: &mut Calls, cx: &mut Context<Calls>| {
        let at = cx.group_routers(group);
        at[0].is_member && at[0].failure.is_none() && at[0].peers == 1
    };
    assert!(client.endpoint.run_for(PATIENCE, is_back), "it is known there again");
    // What asked by the first attachment has ended by now, or is asked again.
    client.endpoint.run_for(Duration::from_secs(3), |_, _| false);
    client.endpoint.state_mut().errors.clear();
    client.made = client.endpoint.state().answered;
    client.calls(200, true, || {});
    assert_eq!(client.endpoint.state().errors, []);
}

#[test]
fn sigterm_lets_members_go_elsewhere_before_the_process_ends() {
    let (mut first, one) = router(&["--listen", "127.0.0.1:0", "--drain-s", "1"]);
    let (_second, other) = router(&["--listen", "127.0.0.1:0", "--standby"]);
    let _worker = worker(&[one, other]);
    let mut client = Client::new(&[one, other]);
    let group = client.group;
    let both = |_: &mut Calls, cx: &mut Context<Calls>| {
        cx.group_routers(group).iter().all(|at| at.peers == 1)
    };
    assert!(client.endpoint.run_for(PATIENCE, both));
    let pid = rustix::process::Pid::from_child(&first.child);
    client.calls(2000, false, || {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our child");
    });
    client.endpoint.run_for(Duration::from_millis(1500), |_, _| false);
    client.calls(500, false, || {});
    let errors = &client.endpoint.state().errors;
    assert!(errors.iter().all(|error| error.retry_is_safe()), "{errors:?}");
    assert!(first.child.wait().expect("it is our child").success());
}

#[test]
fn rt31_a_router_with_services_says_where_binds_come_and_asks_workers_to_listen() {
    let of_two = ["--listen", "127.0.0.1:0", "--service", "shop.Cart", "--service", "shop.Stock"];
    let (process, address) = router(&of_two);
    let binds = process.ready.split("binds at udp ").nth(1).expect("it says where");
    let binds: SocketAddr = binds.trim().parse().expect("an address");
    assert!(binds.ip() == LOCALHOST && binds.port() != 0);
    let (without, _) = router(&["--listen", "127.0.0.1:0"]);
    assert!(!without.ready.contains("binds"), "{}", without.ready);
    let node = Node::start(NodeConfig::default()).expect("threads are to be had");
    let mut worker = endpoint(&node);
    let config = ServeConfig { routers: vec![address], ..ServeConfig::default() };
    let group = worker.serve_group(&config).expect("the node runs");
    let is_refused = |_: &mut Calls, cx: &mut Context<Calls>| {
        let at = cx.served_routers(group);
        at[0].failure.as_ref().is_some_and(|failure| failure.detail.contains("dial port"))
    };
    assert!(worker.run_for(PATIENCE, is_refused), "it has no dial port");
}

#[test]
fn rt39_packets_of_strangers_are_said() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (tell, told) = channel();
    // It ends with the process.
    let reader = std::thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| drop(tell.send(line)));
    });
    let data = told.recv_timeout(PATIENCE).expect("it is ready");
    let data: SocketAddr = data.rsplit(' ').next().expect("it is last").parse().expect("it is one");
    let stranger = UdpSocket::bind((LOCALHOST, 0)).expect("loopback has ports");
    stranger.send_to(&[7; 100], data).expect("loopback takes it");
    let line = told.recv_timeout(PATIENCE).expect("it is said");
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
    reader.join().expect("it does not panic");
    assert!(line.ends_with(": dropped as malformed 1"), "{line}");
}

fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    let output = command.args(arguments).output().expect("it starts");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("it is text")
}

#[test]
fn what_is_wrong_is_said() {
    let path = std::env::temp_dir().join(format!("petasos-router-{}.toml", std::process::id()));
    let file = |text: &str| {
        std::fs::write(&path, text).expect("there is room");
        path.to_str().expect("it is text").to_owned()
    };
    let of_file = |text: &str| refused(&["--config", &file(text), "--check"]);
    let cases = [
        (refused(&["--policy", "best", "--listen", "127.0.0.1:0"]), "policy"),
        (refused(&["--payload-bytes", "10", "--listen", "127.0.0.1:0"]), "1024 to 65,000"),
        (refused(&["--listen", "0.0.0.0:0"]), "TLS"),
        (refused(&["--data", "0.0.0.0:0", "--listen", "127.0.0.1:0"]), "tls_cert"),
        (refused(&["--listen", "192.0.2.1:0", "--plaintext"]), "not an address of this host"),
        (refused(&["--config", "/nowhere/at/all"]), "/nowhere/at/all"),
        (of_file("group = []"), "no [[group]]"),
        (of_file(""), "no [[group]]"),
        (refused(&["--config", "a", "--standby"]), "--standby"),
        (refused(&["--routers", "127.0.0.1:0", "--listen", "127.0.0.1:0"]), "routers"),
        (of_file("[[group]]\nlisten = \"127.0.0.1:0\"\npolice = \"jsq\""), "police"),
        (of_file("[[group]]\npolicy = \"jsq\""), "listen"),
        (refused(&["--service", "", "--listen", "127.0.0.1:0", "--check"]), "services: ``"),
        (refused(&["--service", "a.B", "--service", "a.B", "--listen", "127.0.0.1:0"]), "twice"),
        (refused(&["--binds", "127.0.0.1:0", "--listen", "127.0.0.1:0"]), "no services"),
        (
            refused(&["--service", "a.B", "--binds", "0.0.0.0:0", "--listen", "127.0.0.1:0"]),
            "binds at 0.0.0.0:0 would be in plaintext",
        ),
        (refused(&["--config", "a", "--service", "a.B"]), "--service"),
        (of_file("[[group]]\nlisten = \"127.0.0.1:0\"\nservices = [\"/a\"]"), "`/a`"),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "{said:?} has no {wanted:?}");
    }
    let right = file("[[group]]\nlisten = \"127.0.0.1:0\"\n[[group]]\nlisten = \"127.0.0.1:0\"\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    let output = command.args(["--config", &right, "--check"]).output().expect("it starts");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 groups"));
    std::fs::remove_file(&path).expect("it was written");
    let (_first, address) = router(&["--listen", "127.0.0.1:0"]);
    let said = refused(&["--listen", &address.to_string()]);
    assert!(said.contains("in use"), "{said}");
}
