//! One end of a measurement: a socket, and the address of the other end.
//!
//! A floor knows the length of every datagram, so it needs no control messages for it. They would
//! slow down a ping-pong by 8 % and a flood of trains by 10 % on the machine where this was
//! measured. Segmentation and coalescing are set on the socket instead, and all calls are the plain
//! ones.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use petasos_netio_udp::GsoSocket;
use rustix::net::sockopt::{set_ip_recvtos, set_ipv6_recvtclass};

use crate::FloorError;
use crate::limits::DATAGRAM_BYTES_MAX;

/// Whether the socket is connected to its peer, or every call names the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// The kernel looks up the route once and filters what others send.
    Connected,
    /// The destination is passed in every call.
    Unconnected,
}

/// One end: a spinning socket, bound, and joined to its peer.
///
/// Both ends are bound before either is joined, because each needs the other's port.
#[derive(Debug)]
pub struct Link {
    options: GsoSocket,
    /// The same socket, for the plain calls.
    calls: UdpSocket,
    path: Path,
    connected: bool,
    /// `None` until joined, and when connected.
    destination: Option<SocketAddr>,
    tag: u8,
}

/// How a turn sends and receives its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Each by its own call.
    Singles,
    /// Segmented when sent and coalesced when received.
    Trains {
        /// Bytes of each datagram, except perhaps the last of a train.
        datagram_bytes: usize,
    },
}

/// The result of one receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Bytes of all datagrams.
    pub(crate) len: usize,
    /// Bytes of each datagram except perhaps the last; at least 1.
    segment_bytes: usize,
    /// Where they came from; `None` on connected sockets.
    source: Option<SocketAddr>,
}

impl Arrival {
    /// The number of datagrams.
    pub(crate) fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment_bytes)
    }
}

impl Link {
    /// Opens the socket at `local` (port 0 for any), with a receive buffer of about that size.
    ///
    /// # Errors
    /// [`FloorError::Setup`].
    pub fn bind(local: SocketAddr, receive_buffer_bytes: usize) -> Result<Link, FloorError> {
        let options = GsoSocket::bind(local, receive_buffer_bytes)?;
        ignore_traffic_class(&options)?;
        let calls = UdpSocket::from(options.as_fd().try_clone_to_owned()?);
        calls.set_nonblocking(true)?;
        let path = Path::Singles;
        Ok(Link { options, calls, path, connected: false, destination: None, tag: 0 })
    }

    /// The address that the peer must join.
    pub fn local_address(&self) -> SocketAddr {
        self.options.local_address()
    }

    /// Sets the peer. An [`echo`](crate::echo) answers whoever sends and need not be joined.
    ///
    /// # Errors
    /// [`FloorError::Socket`] if the system has no route to `peer`.
    pub fn join(&mut self, peer: SocketAddr, state: SocketState) -> Result<(), FloorError> {
        match state {
            SocketState::Connected => {
                self.options.connect(peer)?;
                (self.connected, self.destination) = (true, None);
            }
            SocketState::Unconnected => self.destination = Some(peer),
        }
        Ok(())
    }

    /// Prepares for a turn: sets the path, and discards what is left over from earlier turns.
    pub(crate) fn prepare(&mut self, path: Path, buffer: &mut [u8]) -> Result<(), FloorError> {
        let segment_bytes = match path {
            Path::Singles => 0,
            Path::Trains { datagram_bytes } => {
                check_datagram_bytes(datagram_bytes)?;
                datagram_bytes as i32
            }
        };
        setsockopt(&self.options, UdpGsoSegment, &segment_bytes).map_err(io::Error::from)?;
        if self.options.gro() != (segment_bytes != 0) {
            self.options.set_gro(segment_bytes != 0)?;
        }
        self.path = path;
        while self.receive(buffer)?.is_some() {}
        Ok(())
    }

    /// A tag that differs from the last 255.
    pub(crate) fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Sends `bytes` as one datagram or, on the path of trains, as a train. Returns false if the
    /// system would not take them now.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<bool> {
        self.send_to(self.destination, bytes)
    }

    /// Sends back what arrived, to where it came from.
    #[inline]
    pub(crate) fn send_back(&self, bytes: &[u8], arrival: &Arrival) -> io::Result<bool> {
        self.send_to(arrival.source, bytes)
    }

    /// Receives a datagram or a train; `None` if nothing is there. `buffer` should hold
    /// [`RECEIVE_BYTES_MAX`].
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        let received = if self.connected {
            self.calls.recv(buffer).map(|len| (len, None))
        } else {
            self.calls.recv_from(buffer).map(|(len, source)| (len, Some(source)))
        };
        match received {
            Ok((len, source)) => {
                let segment_bytes = match self.path {
                    Path::Singles => len.max(1),
                    Path::Trains { datagram_bytes } => datagram_bytes,
                };
                Ok(Some(Arrival { len, segment_bytes, source }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn send_to(&self, destination: Option<SocketAddr>, bytes: &[u8]) -> io::Result<bool> {
        let sent = match destination {
            None => self.calls.send(bytes),
            Some(destination) => self.calls.send_to(bytes, destination),
        };
        match sent {
            Ok(_) => Ok(true),
            Err(error) if is_transient(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A floor has no use for congestion marks, so it does not ask the kernel for them.
fn ignore_traffic_class(socket: &GsoSocket) -> io::Result<()> {
    match socket.local_address() {
        SocketAddr::V4(_) => set_ip_recvtos(socket, false)?,
        SocketAddr::V6(_) => set_ipv6_recvtclass(socket, false)?,
    }
    Ok(())
}

/// Whether a queue in or below the socket was full; it drains by itself.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    const NO_BUFFER_SPACE: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(NO_BUFFER_SPACE)
}

pub(crate) fn check_datagram_bytes(asked: usize) -> Result<(), FloorError> {
    let possible = (1..=DATAGRAM_BYTES_MAX).contains(&asked);
    if possible { Ok(()) } else { Err(FloorError::DatagramBytes { asked }) }
}
