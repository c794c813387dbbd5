//! One end of the floor for each transport: sockets, bare rings, or bare AF_XDP frames.

use std::net::{Ipv4Addr, SocketAddr};

use petasos_base::Clock;
use petasos_floor::xdp::{XdpClient, xdp_echo};
use petasos_floor::{
    Flood, Link, Path, RingLink, RingListener, SocketState, Turn, blast, drain, echo, flood, ping,
    ring_blast, ring_drain, ring_echo, ring_flood, ring_ping,
};
use petasos_netio::PacketIo;
use petasos_netio_shm::ShmConfig;
use petasos_netio_xdp::XdpIo;

use super::args::{BenchArgs, Transport};
use crate::error::BenchError;

/// Receive buffer of the raw socket, in bytes.
const SOCKET_BYTES: usize = 4 << 20;

/// The queue of the bare AF_XDP sockets: of the two queues, the one that Petasos does not use.
fn xdp_queue(args: &BenchArgs) -> u32 {
    u32::from(args.queue == 0)
}

/// The client's end.
pub enum FloorClient {
    Socket(Link),
    Rings(RingLink),
    Xdp(Box<XdpIo>, SocketAddr),
}

/// The server's end.
pub enum FloorServer {
    Socket(Link),
    /// Bare rings; the link exists once the client has connected.
    Rings(RingListener, Option<RingLink>),
    Xdp(Box<XdpIo>),
}

impl FloorClient {
    /// An end at `local`, connected to the server's end at `peer`.
    pub fn join(args: &BenchArgs, local: SocketAddr, peer: SocketAddr) -> Result<Self, BenchError> {
        Ok(match args.transport {
            Transport::Udp | Transport::Tcp | Transport::Loopback => {
                let mut link = Link::bind(local, SOCKET_BYTES)?;
                link.join(peer, SocketState::Unconnected)?;
                FloorClient::Socket(link)
            }
            Transport::Auto | Transport::Shm => {
                FloorClient::Rings(RingLink::connect(peer, ShmConfig::default().rings)?)
            }
            Transport::Xdp => {
                let io = XdpIo::bind(local, &args.xdp(xdp_queue(args)))?;
                FloorClient::Xdp(Box::new(io), peer)
            }
        })
    }

    /// Sends one datagram at a time.
    pub fn ping(&mut self, bytes: usize, stop: impl FnMut() -> bool) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        Ok(match self {
            FloorClient::Socket(link) => ping(link, bytes, &clock, stop)?,
            FloorClient::Rings(link) => ring_ping(link, bytes, &clock, stop)?,
            FloorClient::Xdp(io, peer) => XdpClient::new(io, *peer, bytes)?.ping(&clock, stop),
        })
    }

    /// Keeps a window of datagrams outstanding.
    pub fn flood(&mut self, shape: Flood, stop: impl FnMut() -> bool) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        Ok(match self {
            FloorClient::Socket(link) => flood(link, shape, &clock, stop)?,
            FloorClient::Rings(link) => ring_flood(link, shape, &clock, stop)?,
            FloorClient::Xdp(io, peer) => {
                let mut client = XdpClient::new(io, *peer, shape.datagram_bytes)?;
                client.flood(shape.window, &clock, stop)
            }
        })
    }

    /// Sends as fast as possible in one direction.
    pub fn blast(
        &mut self,
        datagram_bytes: usize,
        memory: &[u8],
        stop: impl FnMut() -> bool,
    ) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        Ok(match self {
            FloorClient::Socket(link) => blast(link, datagram_bytes, memory, &clock, stop)?,
            FloorClient::Rings(link) => {
                let chunk_bytes = ShmConfig::default().datagram_bytes_max;
                ring_blast(link, chunk_bytes, memory, &clock, stop)?
            }
            FloorClient::Xdp(..) => return Err(no_bulk()),
        })
    }
}

impl FloorServer {
    /// An end at `local`.
    pub fn open(args: &BenchArgs, local: SocketAddr) -> Result<FloorServer, BenchError> {
        Ok(match args.transport {
            Transport::Udp | Transport::Tcp | Transport::Loopback => {
                FloorServer::Socket(Link::bind(local, SOCKET_BYTES)?)
            }
            Transport::Auto | Transport::Shm => {
                let name = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                FloorServer::Rings(RingListener::bind(name)?, None)
            }
            Transport::Xdp => {
                FloorServer::Xdp(Box::new(XdpIo::bind(local, &args.xdp(xdp_queue(args)))?))
            }
        })
    }

    /// The address for the client.
    pub fn local_address(&self) -> SocketAddr {
        match self {
            FloorServer::Socket(link) => link.local_address(),
            FloorServer::Rings(listener, _) => listener.local_address(),
            FloorServer::Xdp(io) => io.local_address(),
        }
    }

    /// Echoes received datagrams.
    pub fn echo(&mut self, path: Path, stop: impl FnMut() -> bool) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        Ok(match self {
            FloorServer::Socket(link) => echo(link, path, &clock, stop)?,
            FloorServer::Rings(listener, link) => {
                ring_echo(connected(listener, link)?, &clock, stop)?
            }
            FloorServer::Xdp(io) => xdp_echo(io, &clock, stop),
        })
    }

    /// Receives in one direction.
    pub fn drain(
        &mut self,
        datagram_bytes: usize,
        memory: &mut [u8],
        stop: impl FnMut() -> bool,
    ) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        Ok(match self {
            FloorServer::Socket(link) => drain(link, datagram_bytes, memory, &clock, stop)?,
            FloorServer::Rings(listener, link) => {
                ring_drain(connected(listener, link)?, memory, &clock, stop)?
            }
            FloorServer::Xdp(_) => return Err(no_bulk()),
        })
    }
}

/// The link of the client, which connects before it requests a turn.
fn connected<'l>(
    listener: &RingListener,
    link: &'l mut Option<RingLink>,
) -> Result<&'l mut RingLink, BenchError> {
    match link {
        Some(link) => Ok(link),
        None => {
            let accepted = listener.accept()?.ok_or("the client has not connected its rings")?;
            Ok(link.insert(accepted))
        }
    }
}

fn no_bulk() -> BenchError {
    "there is no bare transfer over AF_XDP to compare with; measure latency or rate, or add \
     --connect for Petasos alone"
        .into()
}
