//! A router's host: a network namespace of its own, and its link to that of clients and workers.
//!
//! The namespace has no name, and its interfaces go with it: whatever becomes of this process,
//! nothing is left behind. Several routers have a link each.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use nix::sched::{CloneFlags, setns, unshare};
use petasos_base::sync::{AtomicU64, Ordering};

use crate::error::BenchError;
use crate::network::ip;

/// The namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The router's end, in its namespace.
pub const INTERFACE: &str = "router";
/// Links are numbered, as each has addresses of its own.
const LINKS_MAX: u64 = 250;

/// Counts the links of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The link. Whoever measures has left the host's network before (`network::leave_host`).
#[derive(Debug)]
pub struct Link {
    namespace: File,
    number: u8,
}

impl Link {
    /// A new one, from this thread's namespace to a new one.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn new() -> Result<Link, BenchError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if number > LINKS_MAX {
            return Err("there are no addresses for more links".into());
        }
        // A thread of its own leaves, so that this one need not find back if that fails.
        let made = std::thread::spawn(|| -> Result<File, String> {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("{error}; run as root"))?;
            File::open(OWN_NAMESPACE).map_err(|error| error.to_string())
        });
        let made = made.join().map_err(|_| "the thread that makes a namespace has died")?;
        let namespace = made.map_err(|why| format!("cannot make a network namespace: {why}"))?;
        let link = Link { namespace, number: number as u8 };
        link.connect()?;
        Ok(link)
    }

    fn connect(&self) -> Result<(), BenchError> {
        let near = format!("bench{}", self.number);
        let there = format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd());
        ip(&format!("link add {near} type veth peer name {INTERFACE} netns {there}"))?;
        ip(&format!("addr add {}/24 dev {near}", self.near()))?;
        ip(&format!("link set {near} up"))?;
        self.at_router(|| {
            ip("link set lo up")?;
            ip(&format!("addr add {}/24 dev {INTERFACE}", self.far()))?;
            Ok(ip(&format!("link set {INTERFACE} up"))?)
        })
    }

    /// What leaves for the router crosses the link packet by packet, as it would cross a wire: a
    /// program there looks at single frames.
    ///
    /// # Errors
    /// The system's.
    pub fn cut_trains(&self) -> Result<(), BenchError> {
        Ok(ip(&format!("link set bench{} gso_max_segs 1", self.number))?)
    }

    /// The address of clients and workers.
    pub fn near(&self) -> IpAddr {
        self.address(1)
    }

    /// The router's.
    pub fn far(&self) -> IpAddr {
        self.address(2)
    }

    fn address(&self, host: u8) -> IpAddr {
        Ipv4Addr::new(10, 77, self.number, host).into()
    }

    /// Acts in the router's namespace: processes that are started there stay.
    ///
    /// # Errors
    /// What `act` could not do, or the system's.
    pub fn at_router<T>(
        &self,
        act: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let before = File::open(OWN_NAMESPACE)?;
        let enter = |namespace: &File| {
            setns(namespace, CloneFlags::CLONE_NEWNET)
                .map_err(|error| format!("cannot enter a network namespace: {error}"))
        };
        enter(&self.namespace)?;
        let done = act();
        enter(&before)?;
        done
    }
}
