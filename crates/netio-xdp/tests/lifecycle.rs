//! Events other than traffic: owners that die, interfaces that fail, requests that cannot work.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use petasos_netio::{PacketIo, Route, RouteError, SetupError, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_xdp::{AttachMode, XdpConfig, XdpError, XdpIo, XdpMode, probe};

mod rig;
use rig::{Namespace, Pair};

const ADDRESS_VARIABLE: &str = "PETASOS_XDP_TEST_ADDRESS";

fn config() -> XdpConfig {
    XdpConfig { resolve_wait_ms: 10_000, ..XdpConfig::default() }
}

fn try_bind(host: &Namespace, number: u8, config: &XdpConfig) -> Result<XdpIo, XdpError> {
    host.run(|| XdpIo::bind(rig::any_port(rig::v4(number)), config))
}

fn bind(host: &Namespace, number: u8, config: &XdpConfig) -> XdpIo {
    try_bind(host, number, config).expect("a fresh interface is free")
}

fn refusal(host: &Namespace, number: u8, config: &XdpConfig) -> XdpError {
    try_bind(host, number, config).err().expect("it cannot work")
}

fn send(io: &mut XdpIo, route: Route, bytes: &[u8]) {
    assert_eq!(io.transmit(&[TxPacket { route, head: bytes, body: &[] }]), 1);
}

/// Sends until something arrives.
fn exchange(from: &mut XdpIo, route: Route, to: &mut XdpIo) {
    let arrived = turns().any(|turn| {
        if turn % 1000 == 0 {
            send(from, route, b"hello");
        }
        std::thread::yield_now();
        to.receive().frames().any(|frame| frame.bytes == b"hello")
    });
    assert!(arrived, "nothing arrived: {:?} {:?}", from.stats(), to.stats());
}

/// Run as a test of its own this does nothing; [`child`] runs it in another process.
#[test]
fn hold_an_interface_for_another_test() {
    let Ok(address) = std::env::var(ADDRESS_VARIABLE) else { return };
    let address: SocketAddr = address.parse().expect("the parent wrote it");
    let mut out = std::io::stdout();
    match XdpIo::bind(address, &XdpConfig::default()) {
        Ok(io) => {
            writeln!(out, "holds {}", io.local_address()).expect("the parent listens");
            // Until the parent is done, or kills us.
            let _ = std::io::stdin().lines().next();
        }
        Err(error) => writeln!(out, "refused {error}").expect("the parent listens"),
    }
}

/// Another process.
struct Other {
    process: Child,
    /// Kept open, because a test that cannot print fails.
    _output: BufReader<ChildStdout>,
}

/// Another process that opens a backend in `host`, and what it prints about that.
fn child(host: &Namespace, number: u8, user: u32) -> (Other, String) {
    let spawn = || {
        let mut command = Command::new(std::env::current_exe().expect("a test has a program"));
        command.args(["--exact", "hold_an_interface_for_another_test", "--nocapture"]);
        command.env(ADDRESS_VARIABLE, rig::any_port(rig::v4(number)).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(user);
        command.spawn()
    };
    let mut process = host.run(spawn).expect("the test's own program starts");
    let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
    let said = output.by_ref().lines().map_while(Result::ok).find_map(|line| {
        let at = line.find("holds ").or(line.find("refused "))?;
        Some(line[at..].to_owned())
    });
    let said = said.expect("the child says how it went");
    (Other { process, _output: output }, said)
}

#[test]
fn the_kernel_cleans_up_behind_a_killed_owner() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (mut owner, said) = child(&pair.right, 2, 0);
    assert!(said.starts_with("holds"), "{said}");
    assert!(pair.right.has_program("v1"));
    // A second process is told which process holds the program.
    let error = refusal(&pair.right, 2, &config());
    let XdpError::ProgramHeld { name, holders, program_id } = &error else { panic!("{error}") };
    assert!(name == "v1" && *program_id > 0);
    assert_eq!(holders.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [owner.process.id()]);
    let found = pair.right.run(probe).interfaces.expect("netlink answers");
    let found = found.into_iter().find(|each| each.name == "v1").expect("it exists");
    assert!(matches!(found.usable, Err(XdpError::ProgramHeld { .. })));

    owner.process.kill().expect("it is ours");
    owner.process.wait().expect("it is ours");
    let gone = (0..1000).any(|_| !pair.right.has_program("v1"));
    assert!(gone, "the program outlived its owner");
    let server = pair.right.run(|| UdpSocket::bind(rig::any_port(rig::v4(2)))).expect("free");
    let client = pair.left.run(|| UdpSocket::bind(rig::any_port(rig::v4(1)))).expect("free");
    client.send_to(b"hi", server.local_addr().expect("bound")).expect("on the link");
    let mut buffer = [0; 8];
    assert_eq!(server.recv(&mut buffer).expect("it arrives"), 2);
    // The queue is free again as well, perhaps after a while.
    let (mut left, mut right) = (bind(&pair.left, 1, &config()), bind(&pair.right, 2, &config()));
    let route = left.route(right.local_address()).expect("on the link");
    exchange(&mut left, route, &mut right);
}

#[test]
fn without_privileges_the_error_names_them() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (mut nobody, said) = child(&pair.right, 2, 65534);
    assert!(said.contains("no permission") && said.contains("CAP_NET_ADMIN"), "{said}");
    nobody.process.wait().expect("it is ours");
    assert!(!pair.right.has_program("v1"));
}

#[test]
fn the_program_goes_with_the_last_endpoint() {
    if !rig::available() {
        return;
    }
    let pair = Pair::with(2, 1500);
    let on = |queue| XdpConfig { queue, ..config() };
    let first = bind(&pair.right, 2, &on(0));
    let second = bind(&pair.right, 2, &on(1));
    assert_eq!(first.mode(), XdpMode::Native);
    drop(first);
    assert!(pair.right.has_program("v1"));
    drop(second);
    assert!(!pair.right.has_program("v1"));
    drop(bind(&pair.right, 2, &on(0)));
}

#[test]
fn queues_have_an_endpoint_each_and_keep_apart() {
    if !rig::available() {
        return;
    }
    let pair = Pair::with(2, 1500);
    let on = |queue| XdpConfig { queue, ..config() };
    let open = |host, number| [0, 1].map(|queue| bind(host, number, &on(queue)));
    let (mut left, mut right) = (open(&pair.left, 1), open(&pair.right, 2));
    for queue in [0, 1] {
        let route = left[queue].route(right[queue].local_address()).expect("on the link");
        exchange(&mut left[queue], route, &mut right[queue]);
    }
    // A veth pair keeps the queue, so that this arrives where the endpoint is not.
    let route = left[0].route(right[1].local_address()).expect("on the link");
    send(&mut left[0], route, b"stray");
    let diverted = turns().any(|_| right[1].xdp_stats().rx_diverted == 1);
    assert!(diverted, "{:?}", right[1].xdp_stats());
    assert_eq!(right[1].receive().frames().count(), 0);
    assert!(matches!(refusal(&pair.right, 2, &on(0)), XdpError::QueueBusy { queue: 0 }));
    assert!(matches!(refusal(&pair.right, 2, &on(2)), XdpError::QueueMissing { queue: 2 }));
    let generic = XdpConfig { attach: AttachMode::Generic, ..config() };
    assert!(matches!(refusal(&pair.right, 2, &generic), XdpError::ModeConflict { .. }));
}

#[test]
fn an_interface_that_goes_down_loses_packets_and_recovers() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (mut left, mut right) = (bind(&pair.left, 1, &config()), bind(&pair.right, 2, &config()));
    let route = left.route(right.local_address()).expect("on the link");
    exchange(&mut left, route, &mut right);
    pair.left.ip("link set v0 down");
    let before = left.stats();
    for _ in 0..5000 {
        send(&mut left, route, b"lost");
        left.receive();
    }
    assert!(!left.is_up());
    let lost = left.stats().tx_errors - before.tx_errors;
    assert!(lost >= 5000 - 1024 && left.xdp_stats().tx_down == lost, "{lost}");
    pair.left.ip("link set v0 up");
    exchange(&mut left, route, &mut right);
    assert!(left.is_up());

    // The other end down: the carrier is gone, and the driver drops.
    pair.right.ip("link set v1 down");
    let before = left.stats();
    (0..100).for_each(|_| send(&mut left, route, b"lost"));
    assert!(left.stats().tx_errors - before.tx_errors >= 90, "{:?}", left.stats());
    pair.right.ip("link set v1 up");
    exchange(&mut left, route, &mut right);

    // Gone for good: still no hang.
    pair.left.ip("link del v0");
    for _ in 0..100 {
        send(&mut left, route, b"lost");
        assert_eq!(left.receive().frames().count(), 0);
    }
    assert!(!left.is_up());
}

#[test]
fn a_neighbour_that_moves_is_followed() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (mut left, mut right) = (bind(&pair.left, 1, &config()), bind(&pair.right, 2, &config()));
    let route = left.route(right.local_address()).expect("on the link");
    exchange(&mut left, route, &mut right);
    pair.left.ip("neigh replace 10.77.0.2 lladdr 02:00:00:00:00:77 dev v0");
    let noticed = turns().any(|_| {
        left.receive();
        left.xdp_stats().neighbour_changes > 0
    });
    assert!(noticed, "the change was not noticed");
}

#[test]
fn ways_that_do_not_exist_are_refused_in_time() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    pair.left.ip("link add v8 type veth peer name v9");
    pair.left.ip("addr add 10.88.0.1/24 dev v8");
    pair.left.ip("link set v9 up");
    pair.left.ip("link set v8 up");
    let mut left = bind(&pair.left, 1, &XdpConfig { resolve_wait_ms: 50, ..config() });
    let mut refused = |ip: [u8; 4], port: u16| match left.route(SocketAddr::from((ip, port))) {
        Err(RouteError::Unreachable(error)) => error,
        other => panic!("{other:?}"),
    };
    let silent = refused([10, 77, 0, 99], 9).kind();
    assert_eq!(silent, std::io::ErrorKind::TimedOut, "a neighbour that does not answer");
    assert_eq!(refused([192, 0, 2, 1], 9).kind(), std::io::ErrorKind::NetworkUnreachable);
    assert!(refused([10, 88, 0, 2], 9).to_string().contains("does not lead over v0"));
    assert!(refused([10, 77, 0, 1], 9).to_string().contains("this host's own"));
    assert_eq!(refused([10, 77, 0, 2], 0).kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn requests_that_cannot_work_say_why() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let host = &pair.left;
    let bind_at = |address: &str, config: &XdpConfig| {
        let address: SocketAddr = address.parse().expect("an address");
        host.run(|| XdpIo::bind(address, config)).err().expect("it cannot work")
    };
    assert!(matches!(bind_at("0.0.0.0:0", &config()), XdpError::AddressUnspecific(_)));
    assert!(matches!(bind_at("10.99.0.1:0", &config()), XdpError::AddressNotLocal(_)));
    let loopback = bind_at("127.0.0.1:0", &config());
    assert!(matches!(loopback, XdpError::InterfaceUnsuitable { kind: "loopback", .. }));
    let named = |name: &str| XdpConfig { interface: Some(name.to_owned()), ..config() };
    assert!(matches!(refusal(host, 1, &named("v7")), XdpError::InterfaceMissing(_)));
    assert!(matches!(refusal(host, 1, &named("lo")), XdpError::AddressElsewhere { .. }));
    let odd = XdpConfig { rx_frames: 100, ..config() };
    assert!(matches!(refusal(host, 1, &odd), XdpError::Config(_)));
    let socket = host.run(|| UdpSocket::bind(rig::any_port(rig::v4(1)))).expect("free");
    let taken = socket.local_addr().expect("bound").to_string();
    assert!(matches!(bind_at(&taken, &config()), XdpError::AddressInUse(_)));
    host.ip("link set v0 mtu 9000");
    let large = SetupError::from(refusal(host, 1, &config())).to_string();
    assert!(large.contains("MTU of 9000 bytes") && large.contains("mtu 3826"), "{large}");
    host.ip("link set v0 mtu 1500 down");
    assert!(matches!(refusal(host, 1, &config()), XdpError::InterfaceDown(name) if name == "v0"));
    assert!(!host.has_program("v0"), "nothing is left behind");
    host.ip("link set v0 up");
    bind(host, 1, &XdpConfig { huge_pages: true, ..named("v0") });
}

#[test]
fn no_frame_is_lost_when_packets_are_refused() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let few = XdpConfig { tx_frames: 64, rx_frames: 256, ..config() };
    let (mut left, mut right) = (bind(&pair.left, 1, &few), bind(&pair.right, 2, &few));
    let route = left.route(right.local_address()).expect("on the link");
    let long = vec![1; left.datagram_bytes_max(route) + 1];
    let packets =
        [&long[..], &[], b"x", &long[1..]].map(|head| TxPacket { route, head, body: &[] });
    let mut arrived = 0;
    for _ in 0..1000 {
        assert_eq!(left.transmit(&packets), 4);
        arrived += right.receive().frames().count();
    }
    arrived += (0..1000).map(|_| right.receive().frames().count()).sum::<usize>();
    assert_eq!(arrived, 2000);
    assert_eq!((left.stats().tx_errors, left.stats().tx_frames), (2000, 2000));
    assert_eq!((right.stats().rx_overflows, right.stats().rx_errors), (0, 0));
}

#[test]
fn a_receiver_that_does_not_look_loses_and_counts() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let few = XdpConfig { rx_frames: 64, ..config() };
    let (mut left, mut right) = (bind(&pair.left, 1, &config()), bind(&pair.right, 2, &few));
    let route = left.route(right.local_address()).expect("on the link");
    (0..100).for_each(|_| send(&mut left, route, b"too many"));
    let counted = turns().any(|_| right.stats().rx_overflows == 36);
    assert!(counted, "{:?}", right.xdp_stats());
    let arrived: usize = (0..100).map(|_| right.receive().frames().count()).sum();
    assert_eq!(arrived, 64);
    exchange(&mut left, route, &mut right);
}
