//! Hosts of a segment: namespaces without names that are joined by a bridge. Nothing is left behind
//! however a test ends, and nothing here reaches the host's own network.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace, which goes with its descriptor.
pub struct Namespace(File);

impl Namespace {
    fn new() -> nix::Result<Namespace> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(Namespace(File::open("/proc/thread-self/ns/net").expect("there is a /proc")))
        });
        made.join().expect("nothing there panics")
    }

    /// The same one.
    pub fn again(&self) -> Namespace {
        Namespace(self.0.try_clone().expect("descriptors"))
    }

    /// Runs `act` on a thread of this namespace.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root may");
            act()
        };
        let joined = std::thread::scope(|scope| scope.spawn(inside).join());
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, arguments: &str) -> String {
        let output = self.run(|| Command::new("ip").args(arguments.split(' ')).output());
        let output = output.expect("`ip` starts");
        assert!(output.status.success(), "ip {arguments}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Hosts around a bridge, each with the interface `v0`.
pub struct Segment {
    pub hosts: Vec<Namespace>,
    bridge: Namespace,
}

impl Segment {
    /// So many hosts. `None`, and recorded as skipped, where no namespace can be made.
    pub fn new(hosts: u8) -> Option<Segment> {
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
            let (pid, fd) = (std::process::id(), bridge.0.as_raw_fd());
            let to = format!("name port{number} netns /proc/{pid}/fd/{fd}");
            host.ip("link set lo up");
            host.ip(&format!("link add v0 type veth peer {to}"));
            bridge.ip(&format!("link set port{number} master bridge up"));
            host.ip(&format!("addr add {}/24 dev v0", v4(number)));
            host.ip(&format!("addr add fd78::{number}/64 dev v0 nodad"));
            host.ip("link set v0 up");
            host
        };
        let hosts = (1..=hosts).map(host).collect();
        Some(Segment { hosts, bridge })
    }

    /// Plugs a host in, or not: its own interface stays up.
    pub fn plug(&self, number: u8, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        self.bridge.ip(&format!("link set port{number} {state}"));
    }

    /// Hosts that are all apart reach each other no more, and the others still.
    pub fn set_apart(&self, number: u8, is_apart: bool) {
        let state = if is_apart { "on" } else { "off" };
        self.bridge.ip(&format!("link set port{number} type bridge_slave isolated {state}"));
    }
}

/// The IPv4 address of a host, counted from 1.
pub fn v4(number: u8) -> IpAddr {
    IpAddr::from([10, 78, 0, number])
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}
