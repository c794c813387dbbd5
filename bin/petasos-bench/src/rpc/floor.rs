//! The floor: bare UDP between the same two cores, with datagrams of the same length as raw
//! requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{Flood, Link, Path, SocketState, blast, deadline, drain, echo, flood, ping};
use petasos_report::Quantity;

use super::args::RpcArgs;
use super::blocking::{BlockingClient, BlockingServer};
use super::ends::{Client, Server};
use super::phase::{Phase, Turn};
use super::stop::Stop;
use crate::error::BenchError;

/// Bytes of the header before every payload.
const HEADER_BYTES: usize = 24;
/// Receive buffer of the raw sockets, in bytes.
const SOCKET_BYTES: usize = 4 << 20;
/// Datagrams of a bulk transfer.
const BULK_DATAGRAM_BYTES: usize = 8972;
/// The length of what a bulk transfer sends, and of its receive buffer.
const BULK_BYTES: usize = 8_000_000;
/// The longest datagram that is sent one at a time.
const PING_BYTES_MAX: usize = 60_000;
/// The most datagrams per send of the raw echo. This batch size was best, or nearly so, on all
/// machines.
const BATCH_MAX: usize = 32;

/// Whether there is a floor. Latency has none if a message needs several datagrams.
pub fn exists(args: &RpcArgs, phase: Phase) -> bool {
    phase == Phase::Window || datagram_bytes(args) <= PING_BYTES_MAX
}

fn datagram_bytes(args: &RpcArgs) -> usize {
    args.payload_bytes() as usize + HEADER_BYTES
}

/// The shape of the window; `None` for a bulk transfer.
fn shape(args: &RpcArgs) -> Option<Flood> {
    if args.window_quantity() == Quantity::GbitPerS {
        return None;
    }
    let (window, datagram_bytes) = (args.window(), datagram_bytes(args));
    Some(Flood { datagram_bytes, window, batch: window.min(BATCH_MAX) })
}

fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// The server's side.
pub struct FloorServer {
    link: Link,
    blocking: BlockingServer,
    shape: Option<Flood>,
    memory: Vec<u8>,
}

impl FloorServer {
    pub fn new(args: &RpcArgs) -> Result<FloorServer, BenchError> {
        let link = Link::bind(loopback(), SOCKET_BYTES)?;
        let blocking = BlockingServer::bind(loopback())?;
        let shape = shape(args);
        let memory = if shape.is_none() { vec![1; BULK_BYTES] } else { Vec::new() };
        Ok(FloorServer { link, blocking, shape, memory })
    }
}

impl Server for FloorServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.link.local_address(), self.blocking.local_address()]
    }

    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        let turn = match (phase, self.shape) {
            (Phase::Sleeping, _) => return self.blocking.echo(stop),
            (Phase::Spinning, _) => echo(&mut self.link, Path::Singles, &clock, || stop.take())?,
            (Phase::Window, Some(shape)) => {
                echo(&mut self.link, shape.path(), &clock, || stop.take())?
            }
            (Phase::Window, None) => {
                let memory = &mut self.memory;
                drain(&mut self.link, BULK_DATAGRAM_BYTES, memory, &clock, || stop.take())?
            }
        };
        Ok(Turn { bytes: turn.bytes, elapsed_s: turn.elapsed_s, ..Turn::default() })
    }
}

/// The client's side.
pub struct FloorClient {
    link: Link,
    blocking: BlockingClient,
    datagram_bytes: usize,
    shape: Option<Flood>,
    memory: Vec<u8>,
}

impl FloorClient {
    pub fn new(args: &RpcArgs) -> Result<FloorClient, BenchError> {
        let [server, blocking] = args.server[..] else {
            return Err("--server names no pair of sockets".into());
        };
        let mut link = Link::bind(loopback(), SOCKET_BYTES)?;
        link.join(server, SocketState::Unconnected)?;
        let blocking = BlockingClient::connect(loopback(), blocking)?;
        let (datagram_bytes, shape) = (datagram_bytes(args), shape(args));
        let memory = if shape.is_none() { vec![7; BULK_BYTES] } else { Vec::new() };
        Ok(FloorClient { link, blocking, datagram_bytes, shape, memory })
    }
}

impl Client for FloorClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        let (link, stop) = (&mut self.link, deadline(&clock, duration));
        let turn = match (phase, self.shape) {
            (Phase::Sleeping, _) => return self.blocking.ping(self.datagram_bytes, duration),
            (Phase::Spinning, _) => ping(link, self.datagram_bytes, &clock, stop)?,
            (Phase::Window, Some(shape)) => flood(link, shape, &clock, stop)?,
            (Phase::Window, None) => {
                // Received bytes count, and the server reports them.
                blast(link, BULK_DATAGRAM_BYTES, &self.memory, &clock, stop)?;
                return Ok(Turn::default());
            }
        };
        Ok(Turn {
            completed: turn.datagrams,
            elapsed_s: turn.elapsed_s,
            latency: turn.latency,
            ..Turn::default()
        })
    }
}
