//! A UDP socket that sends and receives trains of datagrams.
//!
//! It keeps no buffers and no tables. The backend is built on it, and measurements use it alone as
//! the kernel's floor.

use core::ffi::c_int;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use arrayvec::ArrayVec;
use petasos_netio::{Ecn, SetupError};

use crate::path::mtu_towards;
use crate::segment::Segment;
use crate::sys::{self, Arrival, Message, RECEIVE_MESSAGES_MAX, SocketAddress};

/// A path with a smaller MTU could not carry the smallest session, whatever an ICMP message says.
const MTU_MIN: usize = 1280;

/// The number of the loopback interface in every network namespace.
const LOOPBACK_INDEX: c_int = 1;

/// A nonblocking UDP socket with segmentation (GSO) and coalescing (GRO).
///
/// A datagram longer than the path's MTU is fragmented on its way. (With IPv6 only this host
/// fragments, so only if its own interface has the small MTU.) ICMP messages about the MTU are
/// ignored. A train of such datagrams, or a datagram too long for an IP packet, fails with
/// `EMSGSIZE`.
#[derive(Debug)]
pub struct GsoSocket {
    socket: UdpSocket,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    gso_supported: bool,
    gro: bool,
    segment: Segment,
}

/// A received datagram, or a train of equally sized ones of which the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// Bytes of each datagram, except that the last may be shorter; at least 1, and `len` for a
    /// single one.
    pub segment_bytes: usize,
    /// ECN bits of the IP header.
    pub ecn: Ecn,
    /// The sender's address.
    pub source: SocketAddr,
    /// Whether the buffer was too short, so that bytes are missing at the end.
    pub truncated: bool,
}

/// What to do with ICMP messages about the MTU of IPv6 paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// Ignore them: datagrams go unfragmented wherever the interface allows.
    Off,
    /// Record them, without an effect on what is sent.
    Learns,
    /// Record them, and fragment datagrams accordingly.
    Cuts,
}

impl GsoSocket {
    /// Opens a socket at `address`; with port 0 the system chooses the port. GRO is on if the
    /// kernel has it. The socket asks for `receive_buffer_bytes` in both directions; the system may
    /// grant less. An IPv6 socket accepts IPv6 only.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind(address: SocketAddr, receive_buffer_bytes: usize) -> Result<GsoSocket, SetupError> {
        GsoSocket::open(address, receive_buffer_bytes, false)
    }

    /// Like [`GsoSocket::bind`], but an IPv6 socket accepts IPv4 as well, with IPv4-mapped IPv6
    /// addresses (RFC 4291, 2.5.5.2). For IPv4 packets, ECN bits are neither sent nor reported.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind_dual(
        address: SocketAddr,
        receive_buffer_bytes: usize,
    ) -> Result<GsoSocket, SetupError> {
        GsoSocket::open(address, receive_buffer_bytes, true)
    }

    fn open(
        address: SocketAddr,
        receive_buffer_bytes: usize,
        dual: bool,
    ) -> Result<GsoSocket, SetupError> {
        let (family, _) = family_of(address);
        let fd = sys::open(family).map_err(|error| failed("open a UDP socket", error))?;
        configure(fd.as_fd(), address, dual)?;
        set_buffer_sizes(fd.as_fd(), receive_buffer_bytes);
        sys::bind(fd.as_fd(), &SocketAddress::new(address))
            .map_err(|error| bind_error(address, error))?;
        let socket = UdpSocket::from(fd);
        let local = socket.local_addr().map_err(|error| failed("read the local address", error))?;
        let gso_supported =
            sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let (peer, gro, segment) = (None, false, Segment::default());
        let mut socket = GsoSocket { socket, local, peer, gso_supported, gro, segment };
        // Without support every datagram arrives by itself, which callers handle anyway.
        let _ = socket.set_gro(true);
        Ok(socket)
    }

    /// From now on, sends to `peer` and receives from it only.
    ///
    /// # Errors
    /// The system's: no route to the peer, or another address family.
    pub fn connect(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer)?;
        self.peer = Some(peer);
        Ok(())
    }

    /// From now on, sends and receives over the loopback interface only.
    ///
    /// # Errors
    /// The system's, such as from a kernel that allows this only to the superuser.
    pub(crate) fn stay_on_loopback(&self) -> io::Result<()> {
        sys::set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, LOOPBACK_INDEX)
    }

    /// Turns coalescing of received datagrams on or off.
    ///
    /// # Errors
    /// The system's, if the kernel has no support for it.
    pub fn set_gro(&mut self, on: bool) -> io::Result<()> {
        sys::set_option(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, c_int::from(on))?;
        self.gro = on;
        Ok(())
    }

    /// Sets the ECN bits of the datagrams sent from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn set_ecn(&mut self, ecn: Ecn) -> io::Result<()> {
        let (level, name) = match self.local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        sys::set_option(self.as_fd(), level, name, c_int::from(ecn as u8))
    }

    /// Sets whether received datagrams report their ECN bits. On at first; if nobody reads the
    /// bits, turning this off saves a control message per receive.
    ///
    /// # Errors
    /// The system's.
    pub fn report_ecn(&mut self, on: bool) -> io::Result<()> {
        let (level, name) = match self.local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVTOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        };
        sys::set_option(self.as_fd(), level, name, c_int::from(on))
    }

    /// Sets what to do with ICMP messages about the MTU of IPv6 paths. Those about IPv4 are always
    /// ignored.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn set_discovery(&self, discovery: Discovery) -> io::Result<()> {
        if self.local.is_ipv4() {
            return Ok(());
        }
        let mode = match discovery {
            Discovery::Off => libc::IPV6_PMTUDISC_OMIT,
            Discovery::Learns => libc::IPV6_PMTUDISC_PROBE,
            Discovery::Cuts => libc::IPV6_PMTUDISC_WANT,
        };
        sys::set_option(self.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, mode)
    }

    /// Bytes that can wait in the socket, including the kernel's own overhead.
    pub fn receive_buffer_bytes(&self) -> usize {
        let granted = sys::option(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF);
        granted.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }

    /// Whether the kernel splits trains into datagrams.
    pub fn gso_supported(&self) -> bool {
        self.gso_supported
    }

    /// Whether received datagrams are coalesced.
    pub fn gro(&self) -> bool {
        self.gro
    }

    /// Sends `pieces`, one after another, as one datagram, or as several of `segment_bytes` each
    /// (the last may be shorter). Without a connected socket, a destination is required. Returns
    /// the number of bytes sent, which is all of them.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if the send queue is full.
    #[inline]
    pub fn send(
        &self,
        destination: Option<SocketAddr>,
        pieces: &[IoSlice<'_>],
        segment_bytes: Option<u16>,
    ) -> io::Result<usize> {
        let destination = destination.map(SocketAddress::new);
        let message = Message { destination: destination.as_ref(), pieces, segment_bytes };
        sys::send_one(self.as_fd(), &message, self.segment.set())
    }

    /// Receives one datagram or train into `buffer`. 64 KiB are enough for the longest. `None`
    /// means that nothing has arrived.
    ///
    /// # Errors
    /// The system's, such as a connected peer's refusal reported by ICMP.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let arrival = match sys::receive_one(self.as_fd(), buffer, self.peer.is_none()) {
            Ok(arrival) => arrival,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let source = self.peer.or_else(|| arrival.source.decode());
        Ok(Some(Received {
            len: arrival.len,
            segment_bytes: segment_bytes(&arrival),
            ecn: arrival.control.ecn,
            source: source.expect("the kernel names the source of a UDP datagram"),
            truncated: arrival.truncated,
        }))
    }

    /// The MTU of this host's route to `peer`, in bytes, including the IP header. It is what the
    /// administrator has set, not what ICMP messages have reported.
    ///
    /// # Errors
    /// The system's, if there is no route to the peer.
    pub fn path_mtu(&self, peer: SocketAddr) -> io::Result<usize> {
        let probe = UdpSocket::bind((self.local.ip(), 0))?;
        probe.connect(peer)?;
        if let Ok(mtu) = mtu_towards(peer.ip().to_canonical()) {
            return Ok(mtu);
        }
        // In a sandbox without netlink, or if routes depend on more than the destination.
        let (level, name) = match self.local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        let mtu = sys::option(probe.as_fd(), level, name)?;
        usize::try_from(mtu)
            .map(|mtu| mtu.max(MTU_MIN))
            .map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The address that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Sends a prefix of `messages` and returns its length, at least 1.
    #[inline]
    pub(crate) fn send_messages(&mut self, messages: &[Message<'_>]) -> io::Result<usize> {
        if let [message] = messages
            && let Some(size) = self.segment.note(message)
        {
            self.set_segment(size);
        }
        match self.try_messages(messages) {
            Err(error) if self.segment.set() != 0 && !is_full(&error) => {
                // Perhaps this path cannot carry segmented datagrams; then only trains should fail.
                self.set_segment(0);
                self.try_messages(messages)
            }
            result => result,
        }
    }

    #[inline]
    fn try_messages(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        let set = self.segment.set();
        match messages {
            [message] => sys::send_one(self.as_fd(), message, set).map(|_| 1),
            messages => sys::send_many(self.as_fd(), messages, set),
        }
    }

    /// Makes the socket split what is sent without a control message into `size` bytes; 0 for no
    /// splitting.
    #[cold]
    fn set_segment(&mut self, size: u16) {
        let done =
            sys::set_option(self.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, c_int::from(size));
        // A refusal is harmless, and the option is tried again after a while.
        self.segment.change(if done.is_ok() { size } else { self.segment.set() });
    }

    /// Receives up to `count` messages, each into its own `stride` bytes of `memory`.
    #[inline]
    pub(crate) fn receive_messages(
        &self,
        memory: &mut [u8],
        stride: usize,
        count: usize,
        arrivals: &mut ArrayVec<Arrival, RECEIVE_MESSAGES_MAX>,
    ) -> io::Result<()> {
        if count > 1 {
            return sys::receive_many(self.as_fd(), memory, stride, count, arrivals);
        }
        arrivals.clear();
        arrivals.push(sys::receive_one(self.as_fd(), &mut memory[..stride], true)?);
        Ok(())
    }
}

impl AsFd for GsoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Bytes of each datagram in what has arrived: at least 1, and at most its length unless that is 0.
#[inline]
pub(crate) fn segment_bytes(arrival: &Arrival) -> usize {
    let whole = arrival.len.max(1);
    arrival.control.segment_bytes.map_or(whole, |size| whole.min(size as usize))
}

/// Whether a send was refused because the send queue is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}

/// The address family, and the protocol level of its socket options.
fn family_of(address: SocketAddr) -> (c_int, c_int) {
    match address.ip() {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_IP),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_IPV6),
    }
}

fn configure(fd: BorrowedFd<'_>, address: SocketAddr, dual: bool) -> Result<(), SetupError> {
    let (_, level) = family_of(address);
    let (discovery, no_discovery, traffic_class) = if address.is_ipv4() {
        (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT, libc::IP_RECVTOS)
    } else {
        sys::set_option(fd, level, libc::IPV6_V6ONLY, c_int::from(!dual))
            .map_err(|error| failed("restrict the socket to IPv6", error))?;
        if dual {
            let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            sys::set_option(fd, level, name, libc::IP_PMTUDISC_OMIT)
                .map_err(|error| failed("allow fragmentation", error))?;
        }
        (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT, libc::IPV6_RECVTCLASS)
    };
    sys::set_option(fd, level, discovery, no_discovery)
        .map_err(|error| failed("allow fragmentation", error))?;
    // Without these two options, ECN bits read as "not capable" and drops are not counted. That is
    // no reason to fail.
    let _ = sys::set_option(fd, level, traffic_class, 1);
    let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    Ok(())
}

/// Best effort: a privileged process gets what it asks for, others at most the system's limit.
fn set_buffer_sizes(fd: BorrowedFd<'_>, bytes: usize) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    for (force, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if sys::set_option(fd, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = sys::set_option(fd, libc::SOL_SOCKET, plain, bytes);
        }
    }
}

fn failed(attempt: &'static str, error: io::Error) -> SetupError {
    SetupError::System { attempt, error }
}

fn bind_error(address: SocketAddr, error: io::Error) -> SetupError {
    match error.kind() {
        io::ErrorKind::AddrInUse => SetupError::AddressInUse(address),
        io::ErrorKind::AddrNotAvailable => SetupError::AddressNotLocal(address),
        _ => failed("bind the UDP socket", error),
    }
}
