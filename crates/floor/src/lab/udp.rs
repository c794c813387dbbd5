//! Guidelines on kernel sockets. Both ends are on one thread and use the loopback device, which
//! delivers a datagram before the sending call returns.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};

use petasos_base::Rng;
use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_udp::{GsoSocket, UdpConfig, UdpIo};

use super::memory::States;
use super::{BATCH, HEADER_BYTES, MESSAGE_BYTES, PAYLOAD_BYTES, QUEUES, Switch};
use crate::FloorError;
use crate::limits::RECEIVE_BYTES_MAX;
use crate::link::is_transient;

const SOCKET_BYTES: usize = 4 << 20;
const TRAIN_BYTES: usize = BATCH * MESSAGE_BYTES;
const SEGMENT_BYTES: Option<u16> = Some(MESSAGE_BYTES as u16);
/// The memory for one message: a cache line.
const PLACE_BYTES: usize = 64;
const _: () = assert!(MESSAGE_BYTES <= PLACE_BYTES && HEADER_BYTES.is_multiple_of(8));

/// A pair of connected sockets.
struct Lane {
    near: GsoSocket,
    far: GsoSocket,
}

impl Lane {
    fn open() -> Result<Lane, FloorError> {
        let [mut near, mut far] = [bind()?, bind()?];
        near.connect(far.local_address())?;
        far.connect(near.local_address())?;
        Ok(Lane { near, far })
    }

    /// Receives and counts the datagrams that have reached the far end.
    fn drain(&self, buffer: &mut [u8]) -> io::Result<u64> {
        drain(&self.far, buffer)
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn bind() -> Result<GsoSocket, FloorError> {
    let mut socket = GsoSocket::bind(loopback(), SOCKET_BYTES)?;
    socket.report_ecn(false)?;
    Ok(socket)
}

/// Sends, unless a queue is full.
fn send(socket: &GsoSocket, pieces: &[IoSlice<'_>], segment: Option<u16>) -> io::Result<()> {
    match socket.send(None, pieces, segment) {
        Err(error) if !is_transient(&error) => Err(error),
        _ => Ok(()),
    }
}

fn drain(socket: &GsoSocket, buffer: &mut [u8]) -> io::Result<u64> {
    let mut datagrams = 0;
    while let Some(received) = socket.receive(buffer)? {
        datagrams += received.len.div_ceil(received.segment_bytes) as u64;
    }
    Ok(datagrams)
}

/// Batched doorbells: a call for each datagram, or one train (GSO) for all.
pub struct Trains {
    lane: Lane,
    train: Vec<u8>,
    buffer: Vec<u8>,
}

impl Trains {
    /// Opens the sockets.
    ///
    /// # Errors
    /// [`FloorError::Setup`] or [`FloorError::Socket`].
    pub fn open() -> Result<Trains, FloorError> {
        let (train, buffer) = (vec![1; TRAIN_BYTES], vec![0; RECEIVE_BYTES_MAX]);
        Ok(Trains { lane: Lane::open()?, train, buffer })
    }
}

impl Switch for Trains {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        if follow {
            send(&self.lane.near, &[IoSlice::new(&self.train)], SEGMENT_BYTES)?;
        } else {
            for datagram in self.train.chunks(MESSAGE_BYTES) {
                send(&self.lane.near, &[IoSlice::new(datagram)], None)?;
            }
        }
        Ok(self.lane.drain(&mut self.buffer)?)
    }
}

/// Batched doorbells: a system call for each datagram, or one (`sendmmsg`) for all. Even then, each
/// passes through the kernel's stack separately.
pub struct Calls {
    near: UdpIo,
    far: UdpIo,
    route: Route,
    train: Vec<u8>,
}

impl Calls {
    /// Opens the sockets.
    ///
    /// # Errors
    /// [`FloorError::Setup`] or [`FloorError::Socket`].
    pub fn open() -> Result<Calls, FloorError> {
        let config = UdpConfig { gso: false, gro: false, ..UdpConfig::default() };
        let far = UdpIo::bind(loopback(), config)?;
        let mut near = UdpIo::bind(loopback(), config)?;
        let route = near.route(far.local_address()).map_err(io::Error::other)?;
        Ok(Calls { near, far, route, train: vec![1; TRAIN_BYTES] })
    }
}

impl Switch for Calls {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let packets: [TxPacket<'_>; BATCH] = core::array::from_fn(|index| {
            let head = &self.train[index * MESSAGE_BYTES..][..MESSAGE_BYTES];
            TxPacket { route: self.route, head, body: &[] }
        });
        if follow {
            self.near.transmit(&packets);
        } else {
            packets.iter().for_each(|packet| _ = self.near.transmit(core::slice::from_ref(packet)));
        }
        let mut datagrams = 0;
        loop {
            match self.far.receive().frames().count() {
                0 => return Ok(datagrams),
                frames => datagrams += frames as u64,
            }
        }
    }
}

/// Inlining: headers stored apart from their payloads, or next to them. Both cases send trains, and
/// none of the memory is in a cache.
pub struct Placement {
    lane: Lane,
    headers: Vec<u8>,
    payloads: Vec<u8>,
    messages: Vec<u8>,
    places: u64,
    rng: Rng,
    buffer: Vec<u8>,
}

impl Placement {
    /// Opens the sockets. Messages are spread over `bytes` of memory; separate headers and payloads
    /// over as much each.
    ///
    /// # Errors
    /// [`FloorError::Setup`] or [`FloorError::Socket`].
    ///
    /// # Panics
    /// If `bytes` is less than 64.
    pub fn open(bytes: usize) -> Result<Placement, FloorError> {
        assert!(bytes >= PLACE_BYTES, "there is room for a message");
        let area = || vec![1; bytes];
        Ok(Placement {
            lane: Lane::open()?,
            headers: area(),
            payloads: area(),
            messages: area(),
            places: (bytes / PLACE_BYTES) as u64,
            rng: Rng::new(1),
            buffer: vec![0; RECEIVE_BYTES_MAX],
        })
    }
}

impl Switch for Placement {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let places: [usize; BATCH] =
            core::array::from_fn(|_| self.rng.below(self.places) as usize * PLACE_BYTES);
        let headers = if follow { &mut self.messages } else { &mut self.headers };
        for at in places {
            headers[at..at + HEADER_BYTES].copy_from_slice(&[2; HEADER_BYTES]);
        }
        if follow {
            let piece = |index: usize| &self.messages[places[index]..][..MESSAGE_BYTES];
            let pieces: [_; BATCH] = core::array::from_fn(|index| IoSlice::new(piece(index)));
            send(&self.lane.near, &pieces, SEGMENT_BYTES)?;
        } else {
            let piece = |index: usize| match (places[index / 2], index % 2) {
                (at, 0) => &self.headers[at..at + HEADER_BYTES],
                (at, _) => &self.payloads[at..at + PAYLOAD_BYTES],
            };
            let pieces: [_; 2 * BATCH] = core::array::from_fn(|index| IoSlice::new(piece(index)));
            send(&self.lane.near, &pieces, SEGMENT_BYTES)?;
        }
        Ok(self.lane.drain(&mut self.buffer)?)
    }
}

/// Several queues: the same trains over one socket, or over several in turn.
pub struct SocketCount {
    lanes: Vec<Lane>,
    train: Vec<u8>,
    buffer: Vec<u8>,
}

impl SocketCount {
    /// Opens the sockets.
    ///
    /// # Errors
    /// [`FloorError::Setup`] or [`FloorError::Socket`].
    pub fn open() -> Result<SocketCount, FloorError> {
        let lanes = (0..QUEUES).map(|_| Lane::open()).collect::<Result<_, _>>()?;
        let (train, buffer) = (vec![1; TRAIN_BYTES], vec![0; RECEIVE_BYTES_MAX]);
        Ok(SocketCount { lanes, train, buffer })
    }
}

impl Switch for SocketCount {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let lanes = if follow { &self.lanes[..] } else { &self.lanes[..1] };
        for lane in lanes.iter().cycle().take(QUEUES) {
            send(&lane.near, &[IoSlice::new(&self.train)], SEGMENT_BYTES)?;
        }
        let mut datagrams = 0;
        for lane in lanes {
            datagrams += lane.drain(&mut self.buffer)?;
        }
        Ok(datagrams)
    }
}

/// Connection state beside packets: an echo of trains. For each request, the server looks up the
/// state of the connection that the request names, one of many or one of few.
pub struct StatefulEcho {
    lane: Lane,
    states: States,
    train: Vec<u8>,
    buffer: Vec<u8>,
}

impl StatefulEcho {
    /// Opens the sockets, with `states` at the server.
    ///
    /// # Errors
    /// [`FloorError::Setup`] or [`FloorError::Socket`].
    pub fn open(states: States) -> Result<StatefulEcho, FloorError> {
        let (train, buffer) = (vec![1; TRAIN_BYTES], vec![0; RECEIVE_BYTES_MAX]);
        Ok(StatefulEcho { lane: Lane::open()?, states, train, buffer })
    }
}

impl Switch for StatefulEcho {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        for request in self.train.chunks_mut(MESSAGE_BYTES) {
            let connection = self.states.pick(follow) as u64;
            request[..8].copy_from_slice(&connection.to_ne_bytes());
        }
        send(&self.lane.near, &[IoSlice::new(&self.train)], SEGMENT_BYTES)?;
        while let Some(received) = self.lane.far.receive(&mut self.buffer)? {
            let requests = &mut self.buffer[..received.len];
            for request in requests.chunks_mut(received.segment_bytes) {
                let Some(word) = request.first_chunk_mut() else { continue };
                *word = self.states.handle(u64::from_ne_bytes(*word) as usize).to_ne_bytes();
            }
            send(&self.lane.far, &[IoSlice::new(requests)], SEGMENT_BYTES)?;
        }
        Ok(drain(&self.lane.near, &mut self.buffer)?)
    }
}
