//! An address that one of several hosts has at a time.
//!
//! Threat model: hosts of one segment believe what is announced, and any of them can announce any
//! address; nothing here changes that. What is read from the kernel is parsed totally.
//!
//! An address is taken for a while only, and taken again before that is over: so the kernel takes
//! it away from a process that was killed, and two hosts do not go on to answer for it. It is
//! deprecated from the beginning, so that no connection of the host itself begins at it; and no
//! duplicate is looked for (IPv6), since the one before may be there.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{LinkAddr, MsgFlags, sendto};
use petasos_netio_frame::{Mac, NeighbourFrame};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, Netlink, family, octets};

/// Why an address was not taken, given up or announced.
#[derive(Debug)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no Ethernet interface of this name.
    NoInterface(String),
    /// More bits than an address has.
    Prefix(u8),
    /// The process may not: it needs the capability that is named.
    NotAllowed(&'static str),
    /// The system refuses otherwise.
    System(io::Error),
}

impl core::fmt::Display for AddressError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            AddressError::NoInterface(name) => {
                write!(f, "there is no Ethernet interface {name} here")
            }
            AddressError::Prefix(bits) => write!(f, "a prefix of {bits} bits is too long"),
            AddressError::NotAllowed(needed) => {
                write!(f, "the process may not: it needs the capability {needed}")
            }
            AddressError::System(error) => write!(f, "the system refuses: {error}"),
        }
    }
}

impl std::error::Error for AddressError {}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct VirtualAddress {
    interface: String,
    address: IpAddr,
    prefix_bits: u8,
}

impl VirtualAddress {
    /// An address on an interface; nothing happens yet.
    ///
    /// # Errors
    /// [`AddressError::Prefix`].
    pub fn new(
        interface: &str,
        address: IpAddr,
        prefix_bits: u8,
    ) -> Result<VirtualAddress, AddressError> {
        if usize::from(prefix_bits) > 8 * octets(address).len() {
            return Err(AddressError::Prefix(prefix_bits));
        }
        Ok(VirtualAddress { interface: interface.to_owned(), address, prefix_bits })
    }

    /// The address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Gives the interface the address for `lifetime`, in whole seconds and at least one, from now
    /// on; also if it has it already.
    ///
    /// # Errors
    /// See [`AddressError`]; `CAP_NET_ADMIN` is needed.
    pub fn take(&self, lifetime: Duration) -> Result<(), AddressError> {
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
        // Preferred for no time, valid, and what the kernel sets (`struct ifa_cacheinfo`).
        let times = [0, seconds, 0, 0].map(u32::to_ne_bytes).concat();
        let flags = IFA_F_NODAD.to_ne_bytes();
        let more = [(IFA_CACHEINFO, &times[..]), (IFA_FLAGS, &flags[..])];
        let how = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.request(RTM_NEWADDR, how, &more).map_err(refused)
    }

    /// Takes the address from the interface. Returns whether it was there.
    ///
    /// # Errors
    /// See [`AddressError`]; `CAP_NET_ADMIN` is needed, also if the address is not there.
    pub fn give_up(&self) -> Result<bool, AddressError> {
        match self.request(RTM_DELADDR, NLM_F_ACK, &[]) {
            Ok(()) => Ok(true),
            Err(Asked::Refused(error)) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                Ok(false)
            }
            Err(error) => Err(refused(error)),
        }
    }

    /// Tells the segment where the address is now, once: by an ARP announcement (RFC 5227), or an
    /// unsolicited neighbour advertisement (RFC 4861, section 7.2.6).
    ///
    /// # Errors
    /// See [`AddressError`]; `CAP_NET_RAW` is needed.
    pub fn announce(&self) -> Result<(), AddressError> {
        let (link, mac) = self.link()?;
        let frame = NeighbourFrame::announcement((mac, self.address));
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM) => AddressError::NotAllowed("CAP_NET_RAW"),
            _ => AddressError::System(error),
        };
        // Without a protocol: it hears nothing.
        let (flags, family) = (SocketFlags::CLOEXEC, AddressFamily::PACKET);
        let socket: OwnedFd = socket_with(family, SocketType::RAW, flags, None)
            .map_err(|error| failed(error.into()))?;
        let sent = sendto(socket.as_raw_fd(), frame.bytes(), &link, MsgFlags::empty());
        sent.map(drop).map_err(|error| failed(error.into()))
    }

    /// Where a packet socket sends frames to the segment, and the interface's own address there.
    fn link(&self) -> Result<(LinkAddr, Mac), AddressError> {
        let none = || AddressError::NoInterface(self.interface.clone());
        let found =
            nix::ifaddrs::getifaddrs().map_err(|error| AddressError::System(error.into()))?;
        let found = found.filter(|it| it.interface_name == self.interface);
        let mut links = found.filter_map(|it| Some(*it.address?.as_link_addr()?));
        let link = links.find(|link| link.hatype() == libc::ARPHRD_ETHER).ok_or_else(none)?;
        let mac = link.addr().ok_or_else(none)?;
        Ok((link, mac))
    }

    fn request(&self, kind: u16, flags: u16, more: &[(u16, &[u8])]) -> Result<(), Asked> {
        let (link, _) = self.link().map_err(Asked::NoLink)?;
        let address = octets(self.address);
        let index = u32::try_from(link.ifindex()).unwrap_or(0).to_ne_bytes();
        // `struct ifaddrmsg`: family, bits of the prefix, flags, scope, index.
        let [a, b, c, d] = index;
        let fixed = [family(address.len()), self.prefix_bits, 0, 0, a, b, c, d];
        let mut attributes = vec![(IFA_LOCAL, &address[..]), (IFA_ADDRESS, &address[..])];
        attributes.extend_from_slice(more);
        let mut netlink = Netlink::open().map_err(Asked::Refused)?;
        netlink.ask(kind, flags, &fixed, &attributes, |_| {}).map_err(Asked::Refused)
    }
}

/// Why a request had no result.
enum Asked {
    NoLink(AddressError),
    Refused(io::Error),
}

fn refused(error: Asked) -> AddressError {
    match error {
        Asked::NoLink(error) => error,
        Asked::Refused(error) if error.raw_os_error() == Some(libc::EPERM) => {
            AddressError::NotAllowed("CAP_NET_ADMIN")
        }
        Asked::Refused(error) => AddressError::System(error),
    }
}

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 0x02;
