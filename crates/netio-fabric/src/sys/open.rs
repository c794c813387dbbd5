//! The steps of opening an endpoint, with the errors of each.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::RawFd;

use super::ffi;
use super::info::{Info, is_no_data};
use super::memory::{Memory, Shape};
use super::object::{Object, check};
use crate::config::FUSED_BYTES_MAX;
use crate::message::{DATAGRAM_BYTES_MAX, HEAD_BYTES};
use crate::{FabricConfig, FabricError};

/// Requirements of hardware that tests impose on software providers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forced {
    /// Minimum bytes of prefix. A provider that does not use them sends them with the payload.
    pub(crate) prefix_bytes: usize,
    /// Register the memory.
    pub(crate) registered: bool,
    /// Treat completions as unordered.
    pub(crate) unordered: bool,
}

/// The offer to use at `address`: the first one. If its provider can report where packets come
/// from, an offer that does.
pub(super) fn find(address: SocketAddr, config: &FabricConfig) -> Result<Info, FabricError> {
    let first = find_any(address, config)?;
    let same = first.same_provider()?;
    let with_sources = Info::ask(Some(address), true, &Info::hints_with_sources(&same)?);
    let with_sources = with_sources.ok().and_then(|info| info.of_domain(same.domain.as_deref()));
    Ok(with_sources.unwrap_or(first))
}

fn find_any(address: SocketAddr, config: &FabricConfig) -> Result<Info, FabricError> {
    let missing = || FabricError::ProviderMissing {
        address,
        provider: config.provider.clone(),
        domain: config.domain.clone(),
    };
    match Info::ask(Some(address), true, &Info::hints(config)?) {
        // Some providers ignore the name of a domain.
        Ok(info) => info.of_domain(config.domain.as_deref()).ok_or_else(missing),
        // A kernel socket distinguishes errors that providers do not.
        Err(error) if is_no_data(&error) => {
            match UdpSocket::bind((address.ip(), 0)).map_err(|error| error.kind()) {
                Err(io::ErrorKind::AddrNotAvailable) => Err(FabricError::AddressNotLocal(address)),
                _ => Err(missing()),
            }
        }
        Err(error) => Err(FabricError::System { attempt: "look for a provider", error }),
    }
}

/// The number and size of slots that both the caller and the provider allow.
pub(super) fn shape(
    info: &Info,
    address: SocketAddr,
    config: &FabricConfig,
    forced: Forced,
) -> Result<Shape, FabricError> {
    let offer = info.first();
    let slots = |asked: u32, offered: usize| match (asked as usize, offered) {
        (asked, 0) => asked,
        (asked, offered) => asked.min(offered),
    };
    let mut offered_bytes = offer.message_bytes_max();
    if offer.software() && address.is_ipv6() {
        // The provider subtracts IPv4's header, whatever the family.
        offered_bytes = offered_bytes.min(ETHERNET_MTU - V6_AND_UDP_BYTES);
    }
    let datagram_bytes_max = offered_bytes
        .saturating_sub(HEAD_BYTES)
        .min(config.datagram_bytes_max)
        .min(DATAGRAM_BYTES_MAX);
    let fused_bytes_max = config.fused_bytes_max.min(FUSED_BYTES_MAX).min(offered_bytes);
    let shape = Shape {
        rx_slots: slots(config.rx_slots, offer.rx_size()),
        tx_slots: slots(config.tx_slots, offer.tx_size()),
        prefix_bytes: offer.prefix_bytes().max(forced.prefix_bytes),
        message_bytes_max: fused_bytes_max.max(datagram_bytes_max + HEAD_BYTES),
        datagram_bytes_max,
        fused_bytes_max,
    };
    match shape {
        Shape { rx_slots: 0, .. } => Err(FabricError::Config("no slot to receive into")),
        Shape { tx_slots: 0, .. } => Err(FabricError::Config("no slot to send from")),
        Shape { datagram_bytes_max: 0, .. } => Err(FabricError::Config("datagrams of no bytes")),
        shape if shape.bytes() > u32::MAX as usize => {
            Err(FabricError::Config("more than 4 GiB of slots"))
        }
        shape => Ok(shape),
    }
}

/// Registers all memory for sending and receiving.
pub(super) fn register(
    domain: &Object<ffi::fid_domain>,
    memory: &Memory,
) -> Result<Object<ffi::fid_mr>, FabricError> {
    let (start, bytes) = memory.whole();
    // SAFETY: the memory is dropped after the registration: see the order of `Endpoint`'s fields.
    let opened = unsafe {
        Object::open(|place| ffi::pf_mr_reg(domain.pointer(), start.cast(), bytes, place))
    };
    opened.map_err(|error| FabricError::Registration { bytes, error })
}

/// The queue of received packets, and its descriptor to sleep on if one is wanted and available.
pub(super) fn open_rx_queue(
    domain: &Object<ffi::fid_domain>,
    slots: usize,
    wakeups: bool,
) -> Result<(Object<ffi::fid_cq>, Option<RawFd>), FabricError> {
    if wakeups && let Ok(queue) = open_queue(domain, slots, ffi::FI_WAIT_FD) {
        let mut fd = -1;
        // SAFETY: the queue is live, and `fd` is where it may write a number.
        let code = unsafe { ffi::pf_cq_descriptor(queue.pointer(), &mut fd) };
        if code == 0 && fd >= 0 {
            return Ok((queue, Some(fd)));
        }
    }
    let queue = open_queue(domain, slots, ffi::FI_WAIT_NONE);
    Ok((queue.map_err(system("open a completion queue"))?, None))
}

/// A completion queue with room for `slots` completions.
pub(super) fn open_queue(
    domain: &Object<ffi::fid_domain>,
    slots: usize,
    wait: ffi::fi_wait_obj,
) -> io::Result<Object<ffi::fid_cq>> {
    // SAFETY: all zeroes are the attributes' defaults.
    let mut attributes: ffi::fi_cq_attr = unsafe { core::mem::zeroed() };
    attributes.size = slots;
    attributes.format = ffi::FI_CQ_FORMAT_MSG;
    attributes.wait_obj = wait;
    // SAFETY: the domain is live, the attributes are read during the call.
    unsafe { Object::open(|place| ffi::pf_cq_open(domain.pointer(), &mut attributes, place)) }
}

/// The address vector.
pub(super) fn open_addresses(
    domain: &Object<ffi::fid_domain>,
    routes_max: usize,
) -> Result<Object<ffi::fid_av>, FabricError> {
    // SAFETY: all zeroes are the attributes' defaults.
    let mut attributes: ffi::fi_av_attr = unsafe { core::mem::zeroed() };
    // Only a hint; the vector grows.
    attributes.count = routes_max.min(1024);
    // SAFETY: the domain is live, the attributes are read during the call.
    let opened =
        unsafe { Object::open(|place| ffi::pf_av_open(domain.pointer(), &mut attributes, place)) };
    opened.map_err(system("open an address vector"))
}

/// The endpoint itself, not yet enabled.
pub(super) fn open_endpoint(
    domain: &Object<ffi::fid_domain>,
    info: &Info,
    address: SocketAddr,
) -> Result<Object<ffi::fid_ep>, FabricError> {
    // SAFETY: domain and information are live and belong together.
    let opened =
        unsafe { Object::open(|place| ffi::pf_endpoint(domain.pointer(), info.pointer(), place)) };
    opened.map_err(|error| at(address, "open the endpoint", error))
}

/// Binds an endpoint to its queues and addresses. Packets are to report their completion only on
/// request; providers that do not support this report each.
pub(super) fn bind(
    endpoint: &Object<ffi::fid_ep>,
    rx_queue: &Object<ffi::fid_cq>,
    tx_queue: &Object<ffi::fid_cq>,
    addresses: &Object<ffi::fid_av>,
) -> Result<(), FabricError> {
    let bind = |object: *mut ffi::fid, flags: u64| {
        // SAFETY: both are live, and the endpoint is closed first: see `Endpoint`.
        check(unsafe { ffi::pf_ep_bind(endpoint.pointer(), object, flags) }.into()).map(drop)
    };
    let transmit = u64::from(ffi::FI_TRANSMIT);
    bind(addresses.pointer().cast(), 0)
        .and_then(|()| bind(rx_queue.pointer().cast(), u64::from(ffi::FI_RECV)))
        .and_then(|()| {
            bind(tx_queue.pointer().cast(), transmit | ffi::FI_SELECTIVE_COMPLETION)
                .or_else(|_| bind(tx_queue.pointer().cast(), transmit))
        })
        .map_err(system("bind the queues"))
}

/// The endpoint's address: the caller's, with the port that the system chose.
pub(super) fn local_address(
    endpoint: &Object<ffi::fid_ep>,
    info: &Info,
    asked: SocketAddr,
) -> Result<SocketAddr, FabricError> {
    if !info.first().ip_addresses() {
        return match asked.port() {
            0 => Err(FabricError::Config("this provider chooses no port: name one")),
            _ => Ok(asked),
        };
    }
    let mut name = [0u8; 128];
    let mut len = name.len();
    // SAFETY: the endpoint is live, and the name is written to as many bytes as there are.
    let code = unsafe { ffi::pf_getname(endpoint.pointer(), name.as_mut_ptr().cast(), &mut len) };
    check(code.into()).map_err(system("read the endpoint's address"))?;
    // The port is at the same place in both families.
    Ok(SocketAddr::new(asked.ip(), u16::from_be_bytes([name[2], name[3]])))
}

/// A `sockaddr_in` or `sockaddr_in6`.
pub(super) fn encode(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => {
            let family = AF_INET.to_ne_bytes();
            [&family[..], &port, &v4.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(v6) => {
            let (family, flow) = (AF_INET6.to_ne_bytes(), v6.flowinfo().to_ne_bytes());
            let scope = v6.scope_id().to_ne_bytes();
            [&family[..], &port, &flow, &v6.ip().octets(), &scope].concat()
        }
    }
}

/// The error for a failure that may be due to the address.
pub(super) fn at(address: SocketAddr, attempt: &'static str, error: io::Error) -> FabricError {
    match error.kind() {
        io::ErrorKind::AddrInUse => FabricError::AddressInUse(address),
        io::ErrorKind::AddrNotAvailable => FabricError::AddressNotLocal(address),
        _ => FabricError::System { attempt, error },
    }
}

pub(super) fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> FabricError {
    move |error| FabricError::System { attempt, error }
}

/// Unspecified addresses are refused, since they do not determine a NIC.
pub(crate) fn check_specific(ip: IpAddr) -> Result<(), FabricError> {
    let unspecific = ip == Ipv4Addr::UNSPECIFIED || ip == Ipv6Addr::UNSPECIFIED;
    if unspecific || ip.is_multicast() { Err(FabricError::AddressUnspecific(ip)) } else { Ok(()) }
}

const ETHERNET_MTU: usize = 1500;
const V6_AND_UDP_BYTES: usize = 48;
// The same on all Linux architectures.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
