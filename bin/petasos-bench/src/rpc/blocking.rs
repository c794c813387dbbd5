//! A ping-pong over UDP whose ends sleep in the kernel until a datagram arrives: the minimum cost
//! of a call without spinning.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use petasos_base::Clock;

use super::phase::Turn;
use super::stop::Stop;
use crate::error::BenchError;

/// How long each end waits before it checks for the end of the turn, or sends again.
const PATIENCE: Duration = Duration::from_millis(20);
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Echoes received datagrams.
pub struct BlockingServer {
    socket: UdpSocket,
    address: SocketAddr,
}

/// Sends one datagram at a time.
pub struct BlockingClient {
    socket: UdpSocket,
}

impl BlockingServer {
    pub fn bind(local: SocketAddr) -> Result<BlockingServer, BenchError> {
        let socket = UdpSocket::bind(local)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(BlockingServer { address: socket.local_addr()?, socket })
    }

    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Echoes until `stop` is raised.
    pub fn echo(&mut self, stop: &Stop) -> Result<Turn, BenchError> {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while !stop.take() {
            if let Some((len, source)) = arrived(self.socket.recv_from(&mut buffer))? {
                self.socket.send_to(&buffer[..len], source)?;
            }
        }
        Ok(Turn::default())
    }
}

impl BlockingClient {
    pub fn connect(local: SocketAddr, server: SocketAddr) -> Result<BlockingClient, BenchError> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(BlockingClient { socket })
    }

    /// Times round trips for `duration`.
    pub fn ping(&mut self, bytes: usize, duration: Duration) -> Result<Turn, BenchError> {
        let clock = Clock::system();
        let (mut request, mut buffer) = (vec![0u8; bytes], vec![0; DATAGRAM_BYTES_MAX]);
        let (begun, mut turn) = (clock.now(), Turn::default());
        let ends = begun + duration;
        let mut now = begun;
        while now < ends {
            // A late echo has another number, and is not counted.
            request[0] = request[0].wrapping_add(1);
            let sent = clock.now();
            self.socket.send(&request)?;
            let answered = self.answered(request[0], &mut buffer)?;
            now = clock.now();
            if answered {
                turn.latency.record_ns(now.nanos_since(sent));
            }
        }
        turn.completed = turn.latency.count();
        turn.elapsed_s = now.nanos_since(begun) as f64 / 1e9;
        Ok(turn)
    }

    /// Whether the echo with this number has arrived.
    fn answered(&self, number: u8, buffer: &mut [u8]) -> Result<bool, BenchError> {
        loop {
            match arrived(self.socket.recv(buffer))? {
                Some(len) if len > 0 && buffer[0] == number => return Ok(true),
                Some(_) => {}
                None => return Ok(false),
            }
        }
    }
}

/// `None` if nothing arrived in time.
fn arrived<T>(received: io::Result<T>) -> io::Result<Option<T>> {
    match received {
        Ok(arrival) => Ok(Some(arrival)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
