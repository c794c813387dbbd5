//! Routers on hosts 1 and 2, workers on 3 and 4, callers on 5, and a stranger on 6.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::Duration;

use petasos::Security;
use rustix::process::{Pid, Signal, kill_process};

use crate::segment::{Segment, until, v4};
use crate::support::{Process, router};
use crate::typed::{Calling, LISTEN, SERVICE, Seen, call_with, worker_with};

pub const VIRTUAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 100));
const METRICS: &str = "127.0.0.1:9465";

/// The hosts, and the routers' processes.
pub struct Site {
    pub segment: Segment,
    routers: [Option<Process>; 2],
}

impl Site {
    /// Both routers run, and one is active. `None` where no namespaces can be made.
    pub fn new() -> Option<Site> {
        let mut site = Site::without_routers()?;
        site.start(1);
        site.start(2);
        until("one is active", || site.is_active(1) || site.is_active(2));
        Some(site)
    }

    /// The hosts only.
    pub fn without_routers() -> Option<Site> {
        Some(Site { segment: Segment::new(6)?, routers: [None, None] })
    }

    pub fn start(&mut self, number: u8) {
        self.start_with(number, &["--plaintext"]);
    }

    /// A router with these options for its security.
    pub fn start_with(&mut self, number: u8, security: &[&str]) {
        let (own, peer) = (v4(number), v4(self.other(number)));
        let arguments = format!(
            "--listen 0.0.0.0:7000 --data {own}:7001 --binds {own}:7002 \
             --virtual-address {VIRTUAL}/24 --interface v0 --peer {peer}:7000 \
             --routers {own}:7000,{peer}:7000 --metrics {METRICS} --drain-s 1"
        );
        let arguments = arguments.split_whitespace().chain(SERVICE);
        let arguments: Vec<_> = arguments.chain(security.iter().copied()).collect();
        let host = &self.segment.hosts[usize::from(number) - 1];
        let (process, _) = host.run(|| router(&arguments));
        self.routers[usize::from(number) - 1] = Some(process);
    }

    pub fn other(&self, number: u8) -> u8 {
        3 - number
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: u8) {
        self.routers[usize::from(number) - 1].take().expect("it runs").kill();
    }

    /// SIGTERM, until the process has ended.
    pub fn terminate(&mut self, number: u8) {
        let mut process = self.routers[usize::from(number) - 1].take().expect("it runs");
        let pid = Pid::from_child(&process.child);
        kill_process(pid, Signal::TERM).expect("it is our child");
        assert!(process.child.wait().expect("it is our child").success());
        assert!(!self.has_address(number), "it was given up");
    }

    /// The active router that has the address.
    pub fn active(&self) -> u8 {
        let mut active = None;
        until("one is active, and has the address", || {
            active = [1, 2].into_iter().find(|it| self.is_active(*it) && self.has_address(*it));
            active.is_some()
        });
        active.expect("it was waited for")
    }

    /// One is active and has the address, and the other one neither. Which, is not sure on a busy
    /// host: one that is not heard for a moment is replaced.
    pub fn until_one_has_the_address(&self) {
        until("one has the address, and is the active one", || {
            let [first, second] = [1, 2].map(|it| (self.is_active(it), self.has_address(it)));
            let (all, none) = ((true, true), (false, false));
            (first, second) == (all, none) || (first, second) == (none, all)
        });
    }

    pub fn has_address(&self, number: u8) -> bool {
        let host = &self.segment.hosts[usize::from(number) - 1];
        host.ip("addr show dev v0").contains(&format!("{VIRTUAL}/"))
    }

    pub fn is_active(&self, number: u8) -> bool {
        self.metric(number, "active") == Some(1.0)
    }

    /// Both routers know so many workers, and have connections of these, of the callers, and of
    /// each other. (They count clients whose connections are gone as well, for a while.)
    pub fn until_both_know(&self, workers: usize) {
        let mut seen = [(0.0, 0.0); 2];
        for _ in 0..6000 {
            seen = [1, 2].map(|router| {
                let of = |name| self.metric(router, name).unwrap_or_default();
                (of("workers"), of("connections"))
            });
            let workers = workers as f64;
            if seen.iter().all(|it| it.0 == workers && it.1 >= workers + 2.0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the routers have these workers and connections: {seen:?}");
    }

    /// Whether the other router watches this one.
    pub fn knows_the_other(&self, number: u8) -> bool {
        self.metric(number, "clients") >= Some(1.0)
    }

    /// A metric of a router; `None` while it does not answer.
    fn metric(&self, number: u8, name: &str) -> Option<f64> {
        let host = &self.segment.hosts[usize::from(number) - 1];
        let page = host.run(|| {
            let mut stream = TcpStream::connect(METRICS).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
            let mut page = String::new();
            stream.read_to_string(&mut page).ok()?;
            Some(page)
        })?;
        let start = format!("petasos_router_{name}{{");
        let line = page.lines().find(|line| line.starts_with(&start))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Two workers, which know the virtual address only.
    pub fn workers(&self) -> Vec<Process> {
        vec![self.worker(3), self.worker(4)]
    }

    pub fn worker(&self, host: u8) -> Process {
        let listen = format!("{}:0", v4(host));
        self.segment.hosts[usize::from(host) - 1].run(|| {
            worker_with(&group(), |command| {
                command.env(LISTEN, listen);
            })
        })
    }

    /// Calls from host 5 as long as something happens.
    pub fn call_while(&mut self, happens: impl FnOnce(&Calling<'_>, &mut Site) + Send) -> Seen {
        let host = self.segment.hosts[4].again();
        host.run(|| call_with(&group(), Security::Plaintext, |calls| happens(calls, self)))
    }
}

fn group() -> String {
    format!("router://{VIRTUAL}:7000")
}
