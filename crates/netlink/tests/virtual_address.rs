//! An address that moves between hosts: namespaces that are joined by a bridge, with the kernel's
//! own tables of neighbours as the witness.

use std::fs::File;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use petasos_netlink::{AddressError, VirtualAddress};

const LONG: Duration = Duration::from_secs(600);

/// A network namespace, which goes with its descriptor.
struct Namespace(File);

impl Namespace {
    fn new() -> nix::Result<Namespace> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(Namespace(File::open("/proc/thread-self/ns/net").expect("there is a /proc")))
        });
        made.join().expect("nothing there panics")
    }

    /// Runs `act` on a thread of this namespace.
    fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = || {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root may");
                act()
            };
            scope.spawn(inside).join().expect("it does not panic")
        })
    }

    fn ip(&self, arguments: &str) -> String {
        let output = self.run(|| Command::new("ip").args(arguments.split(' ')).output());
        let output = output.expect("`ip` starts");
        assert!(output.status.success(), "ip {arguments}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Three hosts around a bridge, each with `v0`.
struct Segment {
    hosts: Vec<Namespace>,
    _bridge: Namespace,
}

/// `None`, and recorded as skipped, where no namespace can be made.
fn segment() -> Option<Segment> {
    let bridge = match Namespace::new() {
        Ok(bridge) => bridge,
        Err(error) => {
            petasos_skips::skip("root", format!("cannot make a network namespace: {error}"));
            return None;
        }
    };
    bridge.ip("link add bridge type bridge forward_delay 0 mcast_snooping 0");
    bridge.ip("link set bridge up");
    let host = |number: u8| {
        let host = Namespace::new().expect("the first one was made");
        let (pid, fd) = (std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&bridge.0));
        let to = format!("name port{number} netns /proc/{pid}/fd/{fd}");
        host.ip(&format!("link add v0 type veth peer {to}"));
        bridge.ip(&format!("link set port{number} master bridge up"));
        host.ip(&format!("addr add 10.78.0.{number}/24 dev v0"));
        host.ip(&format!("addr add fd78::{number}/64 dev v0 nodad"));
        host.ip("link set v0 up");
        host
    };
    let hosts = (1..=3).map(host).collect();
    Some(Segment { hosts, _bridge: bridge })
}

fn mac(host: &Namespace) -> String {
    let link = host.ip("-o link show dev v0");
    link.split("link/ether ").nth(1).expect("it is Ethernet")[..17].to_owned()
}

/// What `host` believes about where `address` is.
fn believes(host: &Namespace, address: IpAddr) -> String {
    host.ip(&format!("neigh show {address} dev v0"))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

fn moves(address: &str) {
    let Some(segment) = segment() else { return };
    let [first, second, third] = &segment.hosts[..] else { panic!("there are three") };
    let address: IpAddr = address.parse().expect("an address");
    let bits = if address.is_ipv4() { 24 } else { 64 };
    let shared = VirtualAddress::new("v0", address, bits).expect("it is right");
    first.run(|| shared.take(LONG)).expect("root may");
    // The third host asks for it, since it sends something there.
    let ask = || {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = std::net::UdpSocket::bind(any).expect("there are ports");
        let _ = socket.send_to(&[0], (address, 9));
    };
    until("it is found", || {
        third.run(ask);
        believes(third, address).contains(&mac(first))
    });
    // Both have it, as when the first one's process was killed: who has announced it last counts.
    second.run(|| shared.take(LONG)).expect("root may");
    second.run(|| shared.announce()).expect("root may");
    until("the announcement is believed", || believes(third, address).contains(&mac(second)));
    assert!(first.run(|| shared.give_up()).expect("root may"));
    assert!(!first.run(|| shared.give_up()).expect("root may"), "it is not there any more");
    assert!(second.ip("addr show dev v0").contains(&format!("{address}/")));
    // It is taken again before its time is over, and then not any more.
    second.run(|| shared.take(Duration::from_secs(1))).expect("root may");
    until("it goes by itself", || !second.ip("addr show dev v0").contains(&format!("{address}/")));
}

#[test]
fn an_ipv4_address_moves_by_an_announcement_and_goes_by_itself() {
    moves("10.78.0.100");
}

#[test]
fn an_ipv6_address_moves_by_an_announcement_and_goes_by_itself() {
    moves("fd78::100");
}

#[test]
fn a_host_does_not_begin_connections_at_an_address_that_moves() {
    let Some(segment) = segment() else { return };
    for (address, peer) in [("10.78.0.100", "10.78.0.3:9"), ("fd78::100", "[fd78::3]:9")] {
        let address: IpAddr = address.parse().expect("an address");
        let bits = if address.is_ipv4() { 24 } else { 64 };
        let shared = VirtualAddress::new("v0", address, bits).expect("it is right");
        let from = segment.hosts[0].run(|| {
            shared.take(LONG).expect("root may");
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = std::net::UdpSocket::bind(any).expect("there are ports");
            socket.connect(peer).expect("there is a route");
            socket.local_addr().expect("it is connected").ip()
        });
        assert_ne!(from, address);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let address = IpAddr::from([10, 78, 0, 100]);
    let long = VirtualAddress::new("v0", address, 33);
    assert!(matches!(long, Err(AddressError::Prefix(33))));
    let nowhere = VirtualAddress::new("there-is-none", address, 24).expect("it is right");
    for error in [nowhere.take(LONG).err(), nowhere.announce().err()] {
        let text = error.expect("there is no such interface").to_string();
        assert!(text.contains("no Ethernet interface there-is-none"), "{text}");
    }
    // Loopback is none that can be announced at.
    let local = VirtualAddress::new("lo", address, 32).expect("it is right");
    assert!(matches!(local.take(LONG), Err(AddressError::NoInterface(_))));
}
