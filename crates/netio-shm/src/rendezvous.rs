//! How two processes get to share a region.
//!
//! ```text
//! connecting side                               listening side
//! connect to the name, check who listens
//! make and seal a region
//! send greeting and descriptor    ----------->  accept, check who connects
//! use the rings                                 check greeting, seals and length; map
//!                                               use the rings
//! ```
//!
//! There is no reply: the connecting side uses its rings at once, and what it sends waits in them.
//! A listening side that refuses closes the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_netio::SetupError;
use petasos_shm::Ends;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, accept_with, recvmsg, sendmsg,
};

use crate::ShmConfig;
use crate::greeting::{GREETING_BYTES, Greeting};
use crate::name;
use crate::trust::is_trusted;

/// One process's end of a connection.
#[derive(Debug)]
pub struct Connection {
    /// The rings.
    pub ends: Ends,
    /// The socket. It is nonblocking.
    pub socket: OwnedFd,
    /// Where the peer can be reached, according to the peer.
    pub peer: SocketAddr,
    /// Largest datagram payload, in bytes, in both directions.
    pub datagram_bytes_max: usize,
}

/// Accepts connections from other processes.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    local: SocketAddr,
    other_users: bool,
}

/// A connection whose greeting has not arrived yet.
#[derive(Debug)]
pub struct Pending {
    socket: OwnedFd,
}

/// Why a connection was refused: always the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It runs as another user, in another mount or user namespace, or has ended.
    OtherUser,
    /// It closed the connection before its greeting.
    Gone,
    /// It sent no valid greeting: other bytes, impossible sizes, or no descriptor.
    Greeting,
    /// Its region has the wrong kind, seals or length.
    Region,
}

impl Listener {
    /// Listens at `address`; with port 0 the listener chooses one. Of `config`, only
    /// [`ShmConfig::other_users`] matters.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind(address: SocketAddr, config: &ShmConfig) -> Result<Listener, SetupError> {
        let (socket, local) = name::listen_at(address)?;
        Ok(Listener { socket, local, other_users: config.other_users })
    }

    /// The address at which it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The next connection, if one is waiting.
    ///
    /// # Errors
    /// The system's, such as a lack of descriptors.
    pub fn accept(&self) -> io::Result<Option<Result<Pending, Refusal>>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) if self.other_users || is_trusted(socket.as_fd())? => {
                Ok(Some(Ok(Pending { socket })))
            }
            Ok(_) => Ok(Some(Err(Refusal::OtherUser))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(rustix::io::Errno::CONNABORTED) => Ok(Some(Err(Refusal::Gone))),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for Pending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Pending {
    /// Returns the connection if its greeting has arrived, and `self` if it has not.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn greet(self) -> Result<Result<Connection, Pending>, Refusal> {
        let mut bytes = [0; GREETING_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        let len = match received {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(self)),
            Err(_) => return Err(Refusal::Gone),
        };
        if len == 0 {
            return Err(Refusal::Gone);
        }
        let region = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let greeting = bytes.get(..len).and_then(Greeting::decode).ok_or(Refusal::Greeting)?;
        let region = region.ok_or(Refusal::Greeting)?;
        let ends =
            petasos_shm::adopt(region.as_fd(), greeting.rings).map_err(|_| Refusal::Region)?;
        let Greeting { from: peer, datagram_bytes_max, .. } = greeting;
        Ok(Ok(Connection { ends, socket: self.socket, peer, datagram_bytes_max }))
    }
}

/// Connects `local` to the listener at `peer`, with the rings and the limit of `config`. Does not
/// wait.
///
/// # Errors
/// `ConnectionRefused` if nobody listens there, `WouldBlock` if too many others are connecting,
/// `PermissionDenied` if the listener belongs to another user or container, and the system's.
pub fn connect(local: SocketAddr, peer: SocketAddr, config: &ShmConfig) -> io::Result<Connection> {
    let socket = name::socket()?;
    rustix::net::connect(&socket, &name::unix_address(peer))?;
    if !config.other_users && !is_trusted(socket.as_fd())? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (ends, region) = petasos_shm::create(config.rings).map_err(io::Error::other)?;
    let ShmConfig { rings, datagram_bytes_max, .. } = *config;
    let greeting = Greeting { from: local, rings, datagram_bytes_max }.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [region.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is space for one");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(&socket, &[IoSlice::new(&greeting)], &mut control, flags)?;
    Ok(Connection { ends, socket, peer, datagram_bytes_max })
}
