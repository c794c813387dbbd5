//! Four hosts: network namespaces at a bridge in this process's own, or only in name, on loopback.
//!
//! The namespaces have no names. They and their interfaces disappear with the processes.

use std::cell::Cell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use petasos_base::SystemClock;

use super::folder::Folder;
use super::launch::leave_network;
use super::process::{Process, Start};
use crate::error::Error;

/// How many hosts there are.
pub const HOSTS: usize = 4;
/// The guests' address, at the bridge.
const GUESTS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 254);
/// The first port that is given away in namespaces, where nobody else is.
const PORT_FIRST: u16 = 7000;
/// How long a namespace may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The hosts.
pub enum Network {
    Loopback,
    Namespaces(Namespaces),
}

/// Processes that keep namespaces alive.
pub struct Namespaces {
    keepers: Vec<Process>,
    next_port: Cell<u16>,
    _folder: Folder,
}

fn address_of(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, 0, host as u8 + 1)
}

impl Network {
    /// Hosts in name.
    pub fn loopback() -> Network {
        Network::Loopback
    }

    /// Makes the namespaces. This thread, on which guests run, moves to the bridge.
    ///
    /// # Errors
    /// That needs root and `ip`.
    pub fn namespaces() -> Result<Network, Error> {
        leave_network()?;
        ip("link set lo up")?;
        // Without forward delay and multicast snooping, the bridge forwards at once.
        ip("link add bridge0 type bridge forward_delay 0 mcast_snooping 0")?;
        ip(&format!("addr add {GUESTS}/24 dev bridge0"))?;
        ip("link set bridge0 up")?;
        let folder = Folder::new()?;
        let mut keepers = Vec::new();
        for host in 0..HOSTS {
            keepers.push(start_host(host, &folder)?);
        }
        let next_port = Cell::new(PORT_FIRST);
        Ok(Network::Namespaces(Namespaces { keepers, next_port, _folder: folder }))
    }

    /// Whether hosts reach each other on loopback.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Network::Loopback)
    }

    /// A host's address.
    pub fn address(&self, host: usize) -> IpAddr {
        match self {
            Network::Loopback => Ipv4Addr::LOCALHOST.into(),
            Network::Namespaces(_) => address_of(host).into(),
        }
    }

    /// An address of a host at which nobody listens now.
    ///
    /// # Errors
    /// The system has no port left.
    pub fn free_address(&self, host: usize) -> Result<SocketAddr, Error> {
        match self {
            Network::Loopback => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                let address = listener.and_then(|listener| listener.local_addr());
                address.map_err(|error| Error::internal(error.to_string()))
            }
            Network::Namespaces(namespaces) => {
                let port = namespaces.next_port.replace(namespaces.next_port.get() + 1);
                Ok(SocketAddr::new(self.address(host), port))
            }
        }
    }

    /// The process in whose namespace programs of a host run.
    pub fn namespace(&self, host: usize) -> Option<u32> {
        match self {
            Network::Loopback => None,
            Network::Namespaces(namespaces) => Some(namespaces.keepers[host].id()),
        }
    }
}

fn start_host(host: usize, folder: &Folder) -> Result<Process, Error> {
    let sleep = Start::of(Path::new("sleep"), ["infinity"]);
    let start = Start { own_network: true, ..sleep };
    let keeper = start.start(&format!("host-{host}"), folder.path())?;
    await_namespace(keeper.id())?;
    let (id, port) = (keeper.id(), format!("port{host}"));
    ip(&format!("link add {port} type veth peer name host0 netns {id}"))?;
    ip(&format!("link set {port} master bridge0 up"))?;
    let address = address_of(host);
    for words in
        ["link set lo up", &format!("addr add {address}/24 dev host0"), "link set host0 up"]
    {
        let start = Start::of(Path::new("ip"), words.split(' '));
        Start { network_of: Some(id), ..start }.run()?;
    }
    Ok(keeper)
}

/// Waits until a process has a namespace of its own.
fn await_namespace(process: u32) -> Result<(), Error> {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let failed = |error: std::io::Error| Error::internal(format!("a host has ended: {error}"));
    let own = of("thread-self").map_err(failed)?;
    let clock = SystemClock::default();
    let give_up_at = clock.now() + LIMIT;
    while of(&process.to_string()).map_err(failed)? == own {
        if clock.now() > give_up_at {
            return Err(Error::internal("a host's network namespace does not come"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) -> Result<(), Error> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| {
        Error::away(format!("cannot run `ip`, which makes networks ({error}): install iproute2"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::internal(format!("`ip {arguments}` failed: {}", said.trim_end())))
}
