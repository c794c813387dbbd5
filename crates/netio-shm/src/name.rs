//! Addresses as names of abstract Unix sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use petasos_base::{Rng, random_seed};
use petasos_netio::SetupError;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// How many connections may wait to be accepted.
pub(crate) const BACKLOG: i32 = 128;
/// How many ports are tried before giving up. Far more than needed unless nearly all are in use.
const PORTS_TRIED_MAX: usize = 1000;

/// A nonblocking socket that keeps message boundaries.
pub(crate) fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The Unix address that `address` stands for.
pub(crate) fn unix_address(address: SocketAddr) -> SocketAddrUnix {
    // The scope and the flow of an IPv6 address are left out: they do not identify anyone.
    let name = format!("petasos-shm/{}", SocketAddr::new(address.ip(), address.port()));
    SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("an address makes a short name")
}

/// Listens at `address`; port 0 means any free port. Returns the address with its port.
pub(crate) fn listen_at(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), SetupError> {
    let listener = socket().map_err(|error| failed("open a Unix socket", error))?;
    let mut rng = Rng::new(random_seed());
    for _ in 0..PORTS_TRIED_MAX {
        let port = match address.port() {
            0 => 1 + rng.below(u64::from(u16::MAX)) as u16,
            port => port,
        };
        let local = SocketAddr::new(address.ip(), port);
        match bind(&listener, &unix_address(local)) {
            Ok(()) => {
                listen(&listener, BACKLOG)
                    .map_err(|error| failed("listen on a Unix socket", error))?;
                return Ok((listener, local));
            }
            Err(rustix::io::Errno::ADDRINUSE) if address.port() == 0 => {}
            Err(rustix::io::Errno::ADDRINUSE) => break,
            Err(error) => return Err(failed("bind a Unix socket", error)),
        }
    }
    Err(SetupError::AddressInUse(address))
}

pub(crate) fn failed(attempt: &'static str, error: impl Into<io::Error>) -> SetupError {
    SetupError::System { attempt, error: error.into() }
}
