//! Rings that were granted but that the system denies: another user's, or for want of memory.

mod common;

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::*;
use petasos_endpoint::{
    Backend, Clock, Context, Endpoint, EndpointConfig, LocalConfig, LocalIo, Node, NodeConfig,
    SessionId, SessionState,
};
use petasos_netio_shm::ShmConfig;
use rustix::process::{Resource, Rlimit};

/// Set in a child process: which of the tests it runs a part of.
const PART: &str = "PETASOS_TEST_PART";
/// A user without rights.
const NOBODY: u32 = 65_534;

fn local(shm: ShmConfig) -> LocalIo {
    let config = LocalConfig { shm, ..LocalConfig::default() };
    LocalIo::bind(SocketAddr::new(localhost(), 0), &config).expect("loopback has ports")
}

fn client_over(node: &Node, io: LocalIo) -> Endpoint<Outcomes> {
    let config = EndpointConfig::default();
    let mut client = Endpoint::new(config, io, Clock::system(), Outcomes::default());
    client.attach(node).expect("the node runs");
    client
}

/// Links of `client`, and sessions that fell back to the network.
fn links_and_fallbacks(client: &Endpoint<Outcomes>) -> (usize, u64) {
    let Backend::Local(io) = client.io() else { unreachable!("it was given") };
    (io.links(), client.stats().event_loop.rings_unreachable)
}

fn connect(client: &mut Endpoint<Outcomes>, server: SocketAddr) -> SessionId {
    client.connect_and_wait(server, PATIENCE).expect("the server is up")
}

/// Runs `part` of this file in a process of its own.
fn in_a_child(part: &str) -> Command {
    let mut command = this_program(part);
    command.env(PART, part);
    command
}

fn is_child(part: &str) -> bool {
    std::env::var(PART).is_ok_and(|named| named == part)
}

/// Not a test of its own: a server that grants rings to other users as well.
#[test]
fn child_of_another_user() {
    if !is_child("child_of_another_user") {
        return;
    }
    let listen = Some(SocketAddr::new(localhost(), 0));
    let node = Node::start(NodeConfig { listen, ..NodeConfig::default() }).expect("a free port");
    let open = || local(ShmConfig { other_users: true, ..ShmConfig::default() }).into();
    let _server = Server::start_over(&node, open, EndpointConfig::default(), |_| {});
    tell_parent(&node);
}

/// A server that runs as [`NOBODY`]; `None` where that cannot be had.
fn server_of_another_user() -> Option<ServerProcess> {
    let mut command = in_a_child("child_of_another_user");
    command.uid(NOBODY).current_dir("/");
    ServerProcess::start(command)
        .map_err(|error| {
            petasos_skips::skip("root", format!("cannot run as another user: {error}"))
        })
        .ok()
}

#[test]
fn rings_of_another_user_are_replaced_by_the_network() {
    let _watchdog = watchdog("another user");
    let Some(server) = server_of_another_user() else { return };
    let node = node(None);
    let mut strict = client_over(&node, local(ShmConfig::default()));
    // It was for the client to allow: the same node has another endpoint that does.
    let mut open =
        client_over(&node, local(ShmConfig { other_users: true, ..ShmConfig::default() }));
    let session = strict.connect(server.address).expect("the node runs");
    let by_rings = connect(&mut open, server.address);
    // Sessions are granted in the order in which they were asked for, so the first one is by now,
    // with rings: the client's loop has stood still, and has not refused the server yet.
    let is_over = |cx: &Context<_>| cx.session_state(session) != SessionState::Connecting;
    assert!(strict.run_for(PATIENCE, |_, cx| is_over(cx)), "it is answered");
    assert_eq!(links_and_fallbacks(&strict), (0, 1));
    echoes(&mut strict, session);
    echoes(&mut open, by_rings);
    assert_eq!(links_and_fallbacks(&open), (1, 0));
}

/// A client that turns may refuse the server before it has greeted. Then the server grants the
/// network at once; otherwise the client falls back to it.
#[test]
fn whichever_end_sees_first_that_users_differ_there_is_the_network() {
    let _watchdog = watchdog("another user, seen by either end");
    let Some(server) = server_of_another_user() else { return };
    let node = node(None);
    let mut strict = client_over(&node, local(ShmConfig::default()));
    for _ in 0..3 {
        let session = connect(&mut strict, server.address);
        echoes(&mut strict, session);
        assert_eq!(links_and_fallbacks(&strict).0, 0);
    }
}

/// Bytes of address space that this process has.
fn address_space_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix("kB"));
    let size = size.and_then(|size| size.trim().parse::<u64>().ok());
    size.expect("Linux tells it in kilobytes") << 10
}

/// Not a test of its own: a client whose rings find no room in its address space.
#[test]
fn child_with_little_memory() {
    if !is_child("child_with_little_memory") {
        return;
    }
    const RINGS_BYTES: u64 = 16 << 20;
    let mut large = ShmConfig::default();
    large.rings.data_bytes = RINGS_BYTES as u32;
    let nodes = [node(Some(localhost())), node(None)];
    let (theirs, config) = (move || local(large).into(), EndpointConfig::default());
    let _server = Server::start_over(&nodes[0], theirs, config, |_| {});
    let address = nodes[0].local_address().expect("it listens");
    let mut client = client_over(&nodes[1], local(large));
    // Over the network. All threads have taken part in it, so none is about to take address space:
    // for its own part of the heap a thread maps much more than it keeps.
    connect(&mut common::client(&nodes[1], localhost()), address);
    // One side of a link fits, both do not: the server has its rings, the client gets none.
    let current = Some(address_space_bytes() + 3 * RINGS_BYTES);
    let limit = Rlimit { current, maximum: None };
    rustix::process::setrlimit(Resource::As, limit).expect("less is always possible");
    for _ in 0..3 {
        let session = connect(&mut client, address);
        echoes(&mut client, session);
    }
    assert_eq!(links_and_fallbacks(&client), (0, 1));
}

#[test]
fn rings_without_memory_for_them_are_replaced_by_the_network() {
    let _watchdog = watchdog("little memory");
    let output = in_a_child("child_with_little_memory").output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "the child runs its part");
}
