//! A network namespace without a name: it lives as long as its descriptor, a socket or a process in
//! it, so nothing is left behind however a test ends.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{self, Command};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// Whether the kernel has it.
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A network namespace.
pub struct Namespace {
    descriptor: File,
}

impl Namespace {
    /// A new one, with its loopback interface up, that forwards packets.
    pub fn new() -> nix::Result<Namespace> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(File::open("/proc/thread-self/ns/net").expect("there is a /proc"))
        });
        let descriptor = made.join().expect("nothing there panics")?;
        let namespace = Namespace { descriptor };
        namespace.ip("link set lo up");
        namespace.run(|| {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
            if has_ipv6() {
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("root may");
            }
        });
        Ok(namespace)
    }

    /// Runs `act` on this thread, which is in the namespace meanwhile.
    pub fn run<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = File::open("/proc/thread-self/ns/net").expect("there is a /proc");
        setns(&self.descriptor, CloneFlags::CLONE_NEWNET).expect("root may");
        let result = act();
        setns(&before, CloneFlags::CLONE_NEWNET).expect("it may return");
        result
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, arguments: &str) -> String {
        let family = if arguments.contains("::") { "-6" } else { "-4" };
        let mut command = Command::new("ip");
        command.arg(family).args(arguments.split(' '));
        let output = self.run(|| command.output()).expect("`ip` starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {arguments}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Neighbours that do not answer are asked again soon, and for long: the first questions are
    /// lost while an interface comes up, and answers may be late on a busy machine.
    pub fn ask_neighbours_often(&self, interface: &str) {
        let settings =
            [("retrans_time_ms", "20"), ("mcast_solicit", "1000"), ("ucast_solicit", "1000")];
        for family in ["ipv4", "ipv6"].into_iter().filter(|name| *name == "ipv4" || has_ipv6()) {
            for (setting, value) in settings {
                let path = format!("/proc/sys/net/{family}/neigh/{interface}/{setting}");
                self.run(|| fs::write(path, value)).expect("the interface exists");
            }
        }
    }

    /// How other processes can name it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.descriptor.as_raw_fd())
    }

    /// Packets of both families that were cut into fragments.
    pub fn fragments(&self) -> u64 {
        let read = |file| self.run(|| fs::read_to_string(format!("/proc/thread-self/net/{file}")));
        let text = read("snmp").expect("there is a /proc");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut pairs = names.split(' ').zip(values.split(' '));
        let v4 = pairs.find_map(|(name, value)| (name == "FragCreates").then(|| value.to_owned()));
        let text = read("snmp6").unwrap_or_default();
        let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6FragCreates"));
        let count = |text: &str| text.trim().parse::<u64>().expect("a number");
        count(&v4.expect("the kernel counts")) + v6.map_or(0, count)
    }
}
