//! Why the backend could not be opened, and what to do about it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use petasos_netio::SetupError;

use crate::holder::Holder;

/// Why an [`XdpIo`](crate::XdpIo) could not be opened. Nothing is left behind, so a retry is safe;
/// but without the change that the message advises, it fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// Another socket has the UDP port. Choose another port.
    #[error("{0} is already in use")]
    AddressInUse(SocketAddr),
    /// The caller's address is not one of this host's.
    #[error("{0} is not an address of this host")]
    AddressNotLocal(SocketAddr),
    /// The caller's address cannot belong to one interface.
    #[error("{0} belongs to no single interface: name the address of the one to use")]
    AddressUnspecific(IpAddr),
    /// The caller named an interface that does not exist.
    #[error("there is no interface {0}: `ip link` lists those of this network namespace")]
    InterfaceMissing(String),
    /// The address is not one of the interface that was named.
    #[error("interface {name} does not have the address {address}: `ip addr show dev {name}`")]
    AddressElsewhere {
        /// The interface.
        name: String,
        /// The address asked for.
        address: IpAddr,
    },
    /// The interface exists and is down.
    #[error("interface {0} is down: `ip link set {0} up`")]
    InterfaceDown(String),
    /// The interface cannot carry Ethernet frames to other hosts.
    #[error("interface {name} is not Ethernet ({kind}): use the udp backend there")]
    InterfaceUnsuitable {
        /// Its name.
        name: String,
        /// What it is instead.
        kind: &'static str,
    },
    /// The interface's frames do not fit a frame of the UMEM.
    #[error(
        "interface {name} has an MTU of {mtu} bytes, of which a frame holds {mtu_max}: \
         `ip link set {name} mtu {mtu_max}` or larger frames"
    )]
    MtuTooLarge {
        /// Its name.
        name: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The largest MTU that works with the configured frames.
        mtu_max: u32,
    },
    /// The interface has no queue of this number.
    #[error("the interface has no queue {queue} for both directions (`ethtool -l` counts them)")]
    QueueMissing {
        /// The number asked for.
        queue: u32,
    },
    /// Another AF_XDP socket, of this process or another, is bound to the queue.
    #[error("queue {queue} has an AF_XDP socket already: use another queue, or end its owner")]
    QueueBusy {
        /// The number asked for.
        queue: u32,
    },
    /// Another XDP program is attached to the interface. An interface can have one program, so only
    /// one process can have Petasos endpoints on it.
    #[error("interface {name} has XDP program {program_id} already, {}", Holder::list(holders))]
    ProgramHeld {
        /// The interface.
        name: String,
        /// The kernel's number of the program; 0 if it went away meanwhile.
        program_id: u32,
        /// The processes that hold it. Empty if it was attached without an owner (`ip link`), or if
        /// the caller may not see them.
        holders: Vec<Holder>,
    },
    /// This process has attached its program in the other mode.
    #[error("this process has attached its program to {name} in the other mode already")]
    ModeConflict {
        /// The interface.
        name: String,
    },
    /// Neither the driver nor the kernel's generic mode accepts XDP programs on this interface.
    #[error("interface {name} takes no XDP program: {error}")]
    DriverLacksXdp {
        /// The interface.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// The process may not do this.
    #[error("no permission to {attempt}: run as root, or grant {needs} (`setcap`)")]
    Privilege {
        /// What was attempted.
        attempt: &'static str,
        /// The capabilities that allow it.
        needs: &'static str,
    },
    /// The kernel lacks a feature that later versions have.
    #[error("the kernel has no {lacks}: version {since} or later has, if configured")]
    KernelTooOld {
        /// What is missing.
        lacks: &'static str,
        /// The version that introduced it.
        since: &'static str,
    },
    /// The process may not lock as much memory as the frames need.
    #[error(
        "{bytes} bytes of frames exceed the limit of locked memory, {}: raise it (`ulimit -l`, \
         LimitMEMLOCK=), grant CAP_IPC_LOCK, or use fewer frames",
        limit_text(*limit_bytes)
    )]
    LockedMemory {
        /// Bytes of all frames.
        bytes: u64,
        /// The process's limit, in bytes.
        limit_bytes: Option<u64>,
    },
    /// The steering table of this process is full: no more of its endpoints can use the interface.
    #[error("the interface's steering table is full: {max} endpoints")]
    TooManyEndpoints {
        /// The table's size.
        max: u32,
    },
    /// The caller's configuration contradicts itself.
    #[error("not a possible configuration: {0}")]
    Config(&'static str),
    /// The operating system refused for another reason.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl From<XdpError> for SetupError {
    fn from(error: XdpError) -> SetupError {
        match error {
            XdpError::AddressInUse(address) => SetupError::AddressInUse(address),
            XdpError::AddressNotLocal(address) => SetupError::AddressNotLocal(address),
            XdpError::System { attempt, error } => SetupError::System { attempt, error },
            other => SetupError::System { attempt: "open AF_XDP", error: io::Error::other(other) },
        }
    }
}

/// The capabilities that this backend needs.
pub(crate) const PRIVILEGES: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";

pub(crate) fn system(attempt: &'static str, error: io::Error) -> XdpError {
    XdpError::System { attempt, error }
}

pub(crate) fn kernel_lacks(lacks: &'static str, since: &'static str) -> XdpError {
    XdpError::KernelTooOld { lacks, since }
}

fn limit_text(limit_bytes: Option<u64>) -> String {
    limit_bytes.map_or("which is unknown".to_owned(), |bytes| format!("{bytes} bytes"))
}
