//! A switch port for experiments: a bounded queue that marks and loses packets, in front of the
//! interface's traffic shaper.
//!
//! Two eBPF classifiers share a map of counters. The *entrance* runs on the way into an interface,
//! and decides about each packet before the interface's queueing discipline sees it. The *exit*
//! runs where the packet arrives at the interface's peer, and reports what has left. The difference
//! is exactly what is queued between the two, whatever drains the queue: for example a token bucket
//! (`tc qdisc … tbf`) that is never full itself. IPv4 packets count, except TCP's: these belong to
//! control connections, which are not measured, and their segments may be split on the way.
//!
//! The programs are attached with BPF links, which are file descriptors of this process: however it
//! ends, the kernel detaches them. Kernel 6.6 or later is needed (TCX links).
//!
//! Used only by experiments and tests; no production packet passes through it.

mod program;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use petasos_netlink::Netlink;

use crate::sys::bpf::{self, AttachPoint, MapKind, ProgramKind};
use program::Counter;

/// The behaviour of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpairConfig {
    /// Bytes that may be queued, link-layer headers included; what would exceed them is dropped.
    pub queue_bytes_max: u32,
    /// Packets that understand marks get one (CE) if they make the queue longer than this many
    /// bytes; `None` marks nothing.
    pub mark_above_bytes: Option<u32>,
    /// Probability of losing each packet (0 to 1), in steps of 2^-31.
    pub loss: f64,
}

petasos_base::counters! {
    /// What a port did, in packets unless noted.
    pub struct ImpairStats {
        /// Packets that arrived at the entrance.
        offered,
        /// Of these, packets lost at random.
        lost,
        /// Of these, packets dropped because the queue was full.
        overflowed,
        /// Of these, packets put into the queue.
        entered,
        /// Their bytes.
        entered_bytes,
        /// Of those that entered, packets that were marked.
        marked,
        /// Packets that came out of the exit.
        left,
        /// Their bytes.
        left_bytes,
    }
}

impl ImpairStats {
    /// Bytes in the queue.
    pub fn queued_bytes(&self) -> u64 {
        // The two counters are read one after the other, while packets move.
        self.entered_bytes.saturating_sub(self.left_bytes)
    }
}

/// Why a port could not be made. Nothing is left behind, so that a retry is safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImpairError {
    /// The caller's process may not do this.
    #[error("no permission to {attempt}: run as root, or grant CAP_NET_ADMIN and CAP_BPF")]
    Privilege {
        /// What was attempted.
        attempt: &'static str,
    },
    /// The caller named an interface that does not exist in the thread's network namespace.
    #[error("there is no interface {0}")]
    InterfaceMissing(String),
    /// The operating system refused for another reason: a kernel before 6.6, mostly.
    #[error("cannot {attempt} ({error}): kernel 6.6 or later can, if configured")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// An impaired port. Dropping it detaches both programs.
#[derive(Debug)]
pub struct Impair {
    counters: OwnedFd,
    links: Vec<OwnedFd>,
}

impl Impair {
    /// Puts the entrance before the queueing discipline of `interface`, in the thread's network
    /// namespace. Until there is an exit, nothing counts as having left.
    ///
    /// # Errors
    /// See [`ImpairError`].
    pub fn new(interface: &str, config: &ImpairConfig) -> Result<Impair, ImpairError> {
        let bytes = (Counter::COUNT * 8) as u32;
        let counters = bpf::map_create(MapKind::Array, 4, bytes, 1, "petasos_port")
            .map_err(|error| refused("create a BPF map", error))?;
        let code = program::entrance(counters.as_raw_fd(), config);
        let link = attach(interface, &code, AttachPoint::Egress)?;
        Ok(Impair { counters, links: vec![link] })
    }

    /// Puts the exit where packets arrive at `interface`, the peer of the entrance's, in the
    /// thread's network namespace, which may be another than the entrance's.
    ///
    /// # Errors
    /// See [`ImpairError`].
    pub fn add_exit(&mut self, interface: &str) -> Result<(), ImpairError> {
        let code = program::exit(self.counters.as_raw_fd());
        self.links.push(attach(interface, &code, AttachPoint::Ingress)?);
        Ok(())
    }

    /// What the port has done since it was made.
    ///
    /// # Errors
    /// If the kernel does not say: see [`ImpairError`].
    pub fn stats(&self) -> Result<ImpairStats, ImpairError> {
        let words: [u64; Counter::COUNT] = bpf::map_lookup(self.counters.as_fd(), &0u32)
            .map_err(|error| refused("read a BPF map", error))?;
        let word = |counter: Counter| words[counter as usize];
        Ok(ImpairStats {
            offered: word(Counter::Offered),
            lost: word(Counter::Lost),
            overflowed: word(Counter::Overflowed),
            entered: word(Counter::Entered),
            entered_bytes: word(Counter::EnteredBytes),
            marked: word(Counter::Marked),
            left: word(Counter::Left),
            left_bytes: word(Counter::LeftBytes),
        })
    }
}

impl Drop for Impair {
    fn drop(&mut self) {
        for link in &self.links {
            // Closing alone would not suffice while a child process between fork and exec has a
            // copy. If detaching fails, the interface is gone.
            let _ = bpf::link_detach(link.as_fd());
        }
    }
}

fn attach(interface: &str, code: &[u64], point: AttachPoint) -> Result<OwnedFd, ImpairError> {
    let program = bpf::program_load(ProgramKind::Classifier, code, "petasos_port").map_err(
        |(error, said)| match error.raw_os_error() {
            Some(libc::EPERM) => refused("load a classifier", error),
            _ => refused("load a classifier", io::Error::other(format!("{error}; {said}"))),
        },
    )?;
    bpf::link_create(program.as_fd(), index_of(interface)?, point, 0)
        .map_err(|error| refused("attach a classifier to an interface", error))
}

fn index_of(interface: &str) -> Result<u32, ImpairError> {
    let list = |error| refused("list the interfaces", error);
    let interfaces = Netlink::open().and_then(|mut netlink| netlink.interfaces()).map_err(list)?;
    let found = interfaces.iter().find(|each| each.name == interface);
    Ok(found.ok_or_else(|| ImpairError::InterfaceMissing(interface.to_owned()))?.index)
}

fn refused(attempt: &'static str, error: io::Error) -> ImpairError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ImpairError::Privilege { attempt },
        _ => ImpairError::System { attempt, error },
    }
}
