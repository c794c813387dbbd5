//! One end of a measurement: a socket and the way to the other end.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use petasos_netio_udp::{GsoSocket, Received};

use crate::FloorError;

/// Whether the socket knows its peer, or every call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// The kernel looks up the route once and filters what others send.
    Connected,
    /// The destination is passed in every call.
    Unconnected,
}

/// One end: a spinning socket, bound, and joined to its peer.
///
/// Both ends are bound first and joined then, because each needs the other's port.
#[derive(Debug)]
pub struct Link {
    socket: GsoSocket,
    connected: bool,
    /// `None` until joined, and when connected.
    destination: Option<SocketAddr>,
    tag: u8,
}

impl Link {
    /// Opens the socket at `local` (port 0 for any), with a receive buffer of about that size.
    ///
    /// # Errors
    /// [`FloorError::Setup`].
    pub fn bind(local: SocketAddr, receive_buffer_bytes: usize) -> Result<Link, FloorError> {
        let socket = GsoSocket::bind(local, receive_buffer_bytes)?;
        Ok(Link { socket, connected: false, destination: None, tag: 0 })
    }

    /// The address that the peer must join.
    pub fn local_address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    /// Sets the peer. An [`echo`](crate::echo) answers whoever sends and need not be joined.
    ///
    /// # Errors
    /// [`FloorError::Socket`] if the system knows no way to `peer`.
    pub fn join(&mut self, peer: SocketAddr, state: SocketState) -> Result<(), FloorError> {
        match state {
            SocketState::Connected => {
                self.socket.connect(peer)?;
                (self.connected, self.destination) = (true, None);
            }
            SocketState::Unconnected => self.destination = Some(peer),
        }
        Ok(())
    }

    /// Prepares for a turn: coalescing on or off, and nothing left over from before.
    pub(crate) fn prepare(&mut self, coalesce: bool, buffer: &mut [u8]) -> io::Result<()> {
        if self.socket.gro() != coalesce {
            match self.socket.set_gro(coalesce) {
                // A kernel without coalescing has a lower floor, but a floor.
                Err(error) if !coalesce => return Err(error),
                _ => {}
            }
        }
        while self.socket.receive(buffer)?.is_some() {}
        Ok(())
    }

    /// A tag that differs from the last 255.
    pub(crate) fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Sends `bytes` as datagrams of `datagram_bytes`; false if the system would not take them now.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8], datagram_bytes: usize) -> io::Result<bool> {
        self.send_to(self.destination, bytes, datagram_bytes)
    }

    /// Sends back what was received, to its source.
    #[inline]
    pub(crate) fn send_back(&self, bytes: &[u8], received: &Received) -> io::Result<bool> {
        let source = (!self.connected).then_some(received.source);
        self.send_to(source, bytes, received.segment_bytes)
    }

    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.socket.receive(buffer)
    }

    #[inline]
    fn send_to(
        &self,
        destination: Option<SocketAddr>,
        bytes: &[u8],
        datagram_bytes: usize,
    ) -> io::Result<bool> {
        let segment_bytes = (bytes.len() > datagram_bytes).then_some(datagram_bytes as u16);
        match self.socket.send(destination, &[IoSlice::new(bytes)], segment_bytes) {
            Ok(_) => Ok(true),
            Err(error) if is_transient(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Full queues, in the socket or below it, empty themselves.
fn is_transient(error: &io::Error) -> bool {
    const NO_BUFFER_SPACE: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(NO_BUFFER_SPACE)
}

/// The longest UDP payload over IPv4, and the most that one segmented send may carry.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Holds whatever one call receives.
pub(crate) const RECEIVE_BYTES_MAX: usize = 65_536;
/// The most datagrams of one segmented send that every kernel takes.
pub(crate) const SEGMENTS_MAX: usize = 64;

pub(crate) fn check_datagram_bytes(asked: usize) -> Result<(), FloorError> {
    let possible = (1..=DATAGRAM_BYTES_MAX).contains(&asked);
    if possible { Ok(()) } else { Err(FloorError::DatagramBytes { asked }) }
}
