//! Interfaces, addresses, routes and neighbours of the kernel (rtnetlink), and an address that
//! moves from host to host.
//!
//! [`Netlink`]: one socket is for queries. They are answered before the call returns, because the
//! kernel answers during the send. A second socket receives changes of neighbours. Both belong to
//! the network namespace in which they were opened, whatever thread uses them. They are only used
//! for set-up and for upkeep once a second, never for a packet.
//!
//! [`VirtualAddress`]: an address that one of several hosts has at a time, and announces.
//!
//! Boundary rule: knows no packets but announcements, and not why an address moves.

#![forbid(unsafe_code)]

mod message;
mod parse;
mod virtual_address;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};

use message::{Message, Messages, Request};
pub use parse::{Interface, Neighbour, NeighbourState, RouteInfo};
pub use virtual_address::{AddressError, VirtualAddress};

/// Asks, and hears of changes to neighbours.
pub struct Netlink {
    questions: OwnedFd,
    changes: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens both sockets in the thread's network namespace.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn open() -> io::Result<Netlink> {
        let questions = new_socket(0)?;
        // The kernel answers at once; this is a watchdog against one that does not.
        sockopt::set_socket_timeout(&questions, sockopt::Timeout::Recv, Some(ANSWER_MAX))?;
        let changes = new_socket(RTMGRP_NEIGH)?;
        Ok(Netlink { questions, changes, sequence: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let mut found = Vec::new();
        let fixed = [0; parse::LINK_BYTES];
        self.ask(RTM_GETLINK, NLM_F_DUMP, &fixed, &[], |message| {
            found.extend(parse::interface(message));
        })?;
        Ok(found)
    }

    /// The interface with this index, if it exists.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn interface_by_index(&mut self, index: u32) -> io::Result<Option<Interface>> {
        let mut fixed = [0; parse::LINK_BYTES];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut found = None;
        let asked = self.ask(RTM_GETLINK, NLM_F_ACK, &fixed, &[], |message| {
            found = found.take().or(parse::interface(message));
        });
        match asked {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            other => other.map(|()| found),
        }
    }

    /// All addresses, each with the index of its interface.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr)>> {
        let mut found = Vec::new();
        self.ask(RTM_GETADDR, NLM_F_DUMP, &[0; parse::ADDRESS_BYTES], &[], |message| {
            found.extend(parse::address(message));
        })?;
        Ok(found)
    }

    /// How the kernel would reach `peer` from `source`. A peer's link-local address means the one
    /// on `interface`.
    ///
    /// # Errors
    /// There is no route, or the kernel does not answer.
    pub fn route(&mut self, peer: IpAddr, source: IpAddr, interface: u32) -> io::Result<RouteInfo> {
        let link_local = matches!(peer, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let (bits, peer) = (if peer.is_ipv4() { 32 } else { 128 }, octets(peer));
        let mut fixed = [0; parse::ROUTE_BYTES];
        fixed[0] = family(peer.len());
        (fixed[1], fixed[2]) = (bits, bits);
        let source = octets(source);
        let interface = interface.to_ne_bytes();
        let attributes = [(RTA_DST, &peer[..]), (RTA_SRC, &source[..]), (RTA_OIF, &interface[..])];
        let attributes = &attributes[..if link_local { 3 } else { 2 }];
        let mut found = None;
        self.ask(RTM_GETROUTE, NLM_F_ACK, &fixed, attributes, |message| {
            found = found.take().or(parse::route(message));
        })?;
        found.ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
    }

    /// What the kernel knows of a neighbour; `None` if nothing.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn neighbour(&mut self, interface: u32, address: IpAddr) -> io::Result<Option<Neighbour>> {
        let mut found = None;
        let address = octets(address);
        let fixed = parse::neighbour_fixed(family(address.len()), interface, 0, 0);
        let attributes = [(NDA_DST, &address[..])];
        let asked = self.ask(RTM_GETNEIGH, NLM_F_ACK, &fixed, &attributes, |message| {
            found = found.take().or(parse::neighbour(message));
        });
        match asked {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            other => other.map(|()| found),
        }
    }

    /// Makes the kernel find the neighbour, or make sure that it is still there, as sending a
    /// packet would. Returns at once; [`Netlink::changes`] tells the outcome.
    ///
    /// # Errors
    /// The kernel refuses, as it does without a right to.
    pub fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        let address = octets(address);
        let fixed = parse::neighbour_fixed(family(address.len()), interface, 0, NTF_USE);
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(RTM_NEWNEIGH, flags, &fixed, &[(NDA_DST, &address[..])], |_| {})
    }

    /// The changes of neighbours that have happened since the last call, without waiting. `false`
    /// if some were lost because there were too many.
    pub fn changes(&mut self, mut each: impl FnMut(Neighbour)) -> bool {
        loop {
            match recv(&self.changes, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => {
                    let messages = Messages::new(&self.buffer[..len]);
                    messages.filter_map(|message| parse::neighbour(&message)).for_each(&mut each);
                }
                Err(error) => return error != rustix::io::Errno::NOBUFS,
            }
        }
    }

    /// Sleeps until a neighbour has changed, or until `timeout` has passed.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait_for_change(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.changes, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&timeout))? > 0)
    }

    /// Sends a request and shows all answers to `each`, up to the acknowledgement, which a dump
    /// has of itself.
    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, &[u8])],
        mut each: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let request = Request::new(kind, flags, sequence, fixed);
        let request = attributes
            .iter()
            .fold(request, |request, (kind, value)| request.attribute(*kind, value));
        send(&self.questions, &request.finish(), SendFlags::empty())?;
        loop {
            let (len, _) = recv(&self.questions, &mut self.buffer[..], RecvFlags::empty())?;
            let own = |message: &Message<'_>| message.sequence == sequence;
            for message in Messages::new(&self.buffer[..len]).filter(own) {
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return parse::acknowledgement(&message),
                    _ => each(&message),
                }
            }
        }
    }
}

fn new_socket(groups: u32) -> io::Result<OwnedFd> {
    // Without a protocol: NETLINK_ROUTE is number 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family(address_bytes: usize) -> u8 {
    (if address_bytes == 4 { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// Holds the largest datagram of a dump (the kernel's limit is 32 KiB).
const BUFFER_BYTES: usize = 1 << 16;
const ANSWER_MAX: Duration = Duration::from_secs(1);
const RTMGRP_NEIGH: u32 = 4;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const NDA_DST: u16 = 1;
/// Resolve as if a packet had been sent (linux/neighbour.h).
const NTF_USE: u8 = 1;
