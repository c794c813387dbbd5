//! Sockets: one that listens, and those that dial from the same address (W33).
//!
//! The listening socket is bound alone, so that an address in use is noticed. Then it shares its
//! port (`SO_REUSEPORT`, which the kernel allows only to processes of the same user), so that the
//! dialling sockets can use the port as well. Between two ports there is then at most one
//! connection, which the addresses of both ends identify. If both ends dial at once, TCP makes one
//! connection of the two attempts.

use core::time::Duration;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_netio::SetupError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;

/// The socket that listens, and what others need to dial from its address.
pub(crate) struct Listener {
    listener: TcpListener,
    local: SocketAddr,
    dual_stack: bool,
    /// How long the system tries to deliver bytes before it ends a connection.
    patience: Duration,
}

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: SocketAddr,
}

impl Listener {
    pub(crate) fn bind(
        address: SocketAddr,
        dual_stack: bool,
        patience: Duration,
    ) -> Result<Listener, SetupError> {
        let dual_stack = dual_stack && address.is_ipv6();
        let socket = open(address, dual_stack).map_err(|error| failed("open a socket", error))?;
        // Connections of a process that had the address before may not be gone yet.
        sockopt::set_socket_reuseaddr(&socket, true)
            .map_err(|error| failed("set the socket's options", error))?;
        rustix::net::bind(&socket, &address).map_err(|error| match error {
            Errno::ADDRINUSE => SetupError::AddressInUse(address),
            Errno::ADDRNOTAVAIL => SetupError::AddressNotLocal(address),
            error => failed("bind the socket", error),
        })?;
        sockopt::set_socket_reuseport(&socket, true)
            .map_err(|error| failed("share the socket's port", error))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| match error {
            Errno::ADDRINUSE => SetupError::AddressInUse(address),
            error => failed("listen", error),
        })?;
        let listener = TcpListener::from(socket);
        let local = listener.local_addr();
        let failed = |error| SetupError::System { attempt: "read the local address", error };
        Ok(Listener { local: local.map_err(failed)?, listener, dual_stack, patience })
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn is_dual_stack(&self) -> bool {
        self.dual_stack
    }

    /// The next connection that waits.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        let (stream, peer) = self.listener.accept()?;
        let socket = OwnedFd::from(stream);
        self.prepare(&socket)?;
        Ok(Accepted { socket, peer: canonical(peer) })
    }

    /// Begins to connect to `peer` from the listening socket's address.
    pub(crate) fn dial(&self, peer: SocketAddr) -> Result<OwnedFd, Errno> {
        let socket = open(self.local, self.dual_stack)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        self.prepare(&socket)?;
        rustix::net::bind(&socket, &self.local)?;
        match rustix::net::connect(&socket, &self.name_of(peer)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    /// Sets what holds for all connections.
    fn prepare(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let patience_ms = u32::try_from(self.patience.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, patience_ms)?;
        // The loop decides what is sent together.
        sockopt::set_tcp_nodelay(socket, true)
    }

    /// The address by which the socket knows `peer`.
    fn name_of(&self, peer: SocketAddr) -> SocketAddr {
        match peer {
            SocketAddr::V4(v4) if self.dual_stack => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            peer => peer,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The form in which addresses are compared: without flow labels, and IPv4 as such.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V6(v6) = address else { return address };
    let ip: Ipv6Addr = *v6.ip();
    match ip.to_ipv4_mapped() {
        Some(ip) => SocketAddr::new(ip.into(), v6.port()),
        None => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
    }
}

/// How an attempt to connect stands: still under way, done, or failed.
pub(crate) fn dialled(socket: &OwnedFd) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
        return Ok(false);
    }
    sockopt::socket_error(socket)??;
    Ok(true)
}

/// Ends a connection at once, without the minute in which the system would otherwise keep the
/// addresses of its ends from being used again.
pub(crate) fn reset(socket: OwnedFd) {
    let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
}

fn open(address: SocketAddr, dual_stack: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !dual_stack)?;
    }
    Ok(socket)
}

fn failed(attempt: &'static str, error: Errno) -> SetupError {
    SetupError::System { attempt, error: error.into() }
}
