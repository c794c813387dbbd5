//! Parses the answers: linux/rtnetlink.h, if_link.h, if_addr.h and neighbour.h.

use std::io;
use std::net::IpAddr;

use super::message::{Attributes, Message, u16_at, u32_at};

use petasos_netio_frame::Mac;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `None` unless it is Ethernet.
    pub mac: Option<Mac>,
    /// Whether it leads to this host only.
    pub loopback: bool,
    /// Whether it is switched on.
    pub up: bool,
    /// In bytes.
    pub mtu: u32,
    /// Queues for what comes.
    pub rx_queues: u32,
    /// Queues for what goes.
    pub tx_queues: u32,
    /// `veth`, `bond` and so on; hardware has none.
    pub kind: Option<String>,
    /// The XDP program attached to it, if any.
    pub program_id: Option<u32>,
}

/// A way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Index of the interface that it leaves by.
    pub interface: u32,
    /// The router, unless the peer is a neighbour.
    pub gateway: Option<IpAddr>,
    /// The route's own MTU in bytes, if it has one.
    pub mtu: Option<u32>,
    /// Whether it leads to this host or to a group, and not to another host.
    pub unicast: bool,
}

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The index of the interface that it is reached by.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Whether its Ethernet address is known.
    pub state: NeighbourState,
}

/// Whether a neighbour's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Known, perhaps not confirmed of late.
    Known(Mac),
    /// Being asked for.
    Incomplete,
    /// Asked for in vain.
    Failed,
}

pub(crate) fn interface(message: &Message<'_>) -> Option<Interface> {
    if message.kind != RTM_NEWLINK {
        return None;
    }
    let (fixed, attributes) = message.split(LINK_BYTES)?;
    let flags = u32_at(fixed, 8)?;
    let ethernet = u16_at(fixed, 2)? == libc::ARPHRD_ETHER;
    let mac = attributes.find(IFLA_ADDRESS).filter(|_| ethernet);
    Some(Interface {
        index: u32_at(fixed, 4)?,
        name: attributes.text(IFLA_IFNAME)?,
        mac: mac.and_then(|mac| mac.try_into().ok()),
        loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        up: flags & libc::IFF_UP as u32 != 0,
        mtu: attributes.u32(IFLA_MTU)?,
        rx_queues: attributes.u32(IFLA_NUM_RX_QUEUES).unwrap_or(1),
        tx_queues: attributes.u32(IFLA_NUM_TX_QUEUES).unwrap_or(1),
        kind: attributes.nested(IFLA_LINKINFO).text(IFLA_INFO_KIND),
        program_id: program(attributes.nested(IFLA_XDP)),
    })
}

fn program(xdp: Attributes<'_>) -> Option<u32> {
    // Programs in several modes at once are listed one by one instead.
    let kinds = [IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID];
    kinds.into_iter().find_map(|kind| xdp.u32(kind)).filter(|id| *id != 0)
}

pub(crate) fn address(message: &Message<'_>) -> Option<(u32, IpAddr)> {
    if message.kind != RTM_NEWADDR {
        return None;
    }
    let (fixed, attributes) = message.split(ADDRESS_BYTES)?;
    // On links from point to point, IFA_ADDRESS is the peer's.
    let value = attributes.find(IFA_LOCAL).or(attributes.find(IFA_ADDRESS))?;
    Some((u32_at(fixed, 4)?, ip(value)?))
}

pub(crate) fn route(message: &Message<'_>) -> Option<RouteInfo> {
    if message.kind != RTM_NEWROUTE {
        return None;
    }
    let (fixed, attributes) = message.split(ROUTE_BYTES)?;
    let via = || {
        // A gateway of the other family, behind a family field.
        let via = attributes.find(RTA_VIA)?;
        ip(via.get(2..)?)
    };
    Some(RouteInfo {
        interface: attributes.u32(RTA_OIF)?,
        gateway: attributes.find(RTA_GATEWAY).and_then(ip).or_else(via),
        mtu: attributes.nested(RTA_METRICS).u32(RTAX_MTU).filter(|mtu| *mtu > 0),
        unicast: fixed[7] == RTN_UNICAST,
    })
}

pub(crate) fn neighbour(message: &Message<'_>) -> Option<Neighbour> {
    if !matches!(message.kind, RTM_NEWNEIGH | RTM_DELNEIGH) {
        return None;
    }
    let (fixed, attributes) = message.split(NEIGHBOUR_BYTES)?;
    let state = u16_at(fixed, 8)?;
    let mac = attributes.find(NDA_LLADDR).and_then(|mac| mac.try_into().ok());
    let state = match mac {
        Some(mac) if message.kind == RTM_NEWNEIGH && state & NUD_VALID != 0 => {
            NeighbourState::Known(mac)
        }
        _ if message.kind == RTM_DELNEIGH || state & NUD_FAILED != 0 => NeighbourState::Failed,
        _ => NeighbourState::Incomplete,
    };
    let address = ip(attributes.find(NDA_DST)?)?;
    Some(Neighbour { interface: u32_at(fixed, 4)?, address, state })
}

/// The fixed part of a request about a neighbour (`struct ndmsg`).
pub(crate) fn neighbour_fixed(
    family: u8,
    interface: u32,
    state: u16,
    flags: u8,
) -> [u8; NEIGHBOUR_BYTES] {
    let mut fixed = [0; NEIGHBOUR_BYTES];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    fixed[10] = flags;
    fixed
}

/// An acknowledgement's verdict.
pub(crate) fn acknowledgement(message: &Message<'_>) -> io::Result<()> {
    match u32_at(message.body, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

/// Bytes of `struct ifinfomsg`.
pub(crate) const LINK_BYTES: usize = 16;
/// Bytes of `struct ifaddrmsg`.
pub(crate) const ADDRESS_BYTES: usize = 8;
/// Bytes of `struct rtmsg`.
pub(crate) const ROUTE_BYTES: usize = 12;
/// Bytes of `struct ndmsg`.
pub(crate) const NEIGHBOUR_BYTES: usize = 12;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTN_UNICAST: u8 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_FAILED: u16 = 0x20;
/// Reachable, stale, delay, probe, no-ARP or permanent.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
