//! Client and worker that take turns in one thread: what a router adds, without anybody who has to
//! be woken.
//!
//! The client's own loop is the worker: it joins the router's group, or calls itself through its
//! sockets. The datagrams that it is compared with are echoed by the socket that sends them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use petasos_load::{Answers, Target, TargetError};

use super::bare::{BYTES, LOCALHOST};
use crate::error::BenchError;

/// What is between the client and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    Nobody,
    /// The router, with this policy.
    Router(&'static str),
    /// Datagrams go straight to the socket that sends them.
    Bare,
    /// Datagrams go by way of a forwarder.
    Forwarder,
}

/// A request's mark, and an answer's.
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
/// Where a datagram has it, behind its slot.
const MARK_AT: usize = 4;

/// A socket that echoes what it gets.
pub struct BareTurns {
    socket: UdpSocket,
    own: SocketAddr,
    to: SocketAddr,
    outstanding_max: u32,
}

impl BareTurns {
    /// Makes the socket. `forwarder` starts who passes its datagrams on to it.
    ///
    /// # Errors
    /// The system's, or the forwarder's.
    pub fn new<F>(
        forwarder: impl FnOnce(SocketAddr) -> Result<(F, SocketAddr), BenchError>,
    ) -> Result<(BareTurns, F), BenchError> {
        let socket = UdpSocket::bind((LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let own = socket.local_addr()?;
        let (started, to) = forwarder(own)?;
        Ok((BareTurns { socket, own, to, outstanding_max: 1 }, started))
    }

    /// The same socket, for so many requests at a time.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn target(&self, outstanding_max: u32) -> Result<BareTurns, BenchError> {
        let socket = self.socket.try_clone()?;
        Ok(BareTurns { socket, own: self.own, to: self.to, outstanding_max })
    }

    fn send_to(&self, datagram: &[u8; BYTES], to: SocketAddr) -> Result<(), TargetError> {
        let sent = self.socket.send_to(datagram, to);
        sent.map(drop).map_err(|error| TargetError(format!("a datagram was not sent: {error}")))
    }
}

impl Target for BareTurns {
    fn outstanding_max(&self) -> usize {
        self.outstanding_max as usize
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        let mut datagram = [0; BYTES];
        datagram[..MARK_AT].copy_from_slice(&slot.to_ne_bytes());
        datagram[MARK_AT] = REQUEST;
        self.send_to(&datagram, self.to)
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        let mut datagram = [0; BYTES];
        while let Ok((BYTES, _)) = self.socket.recv_from(&mut datagram) {
            if datagram[MARK_AT] == REQUEST {
                datagram[MARK_AT] = ANSWER;
                self.send_to(&datagram, self.own)?;
                continue;
            }
            let slot = [datagram[0], datagram[1], datagram[2], datagram[3]];
            answers.push(u32::from_ne_bytes(slot), Ok(()));
        }
        Ok(())
    }

    /// Its worker is this thread: there is nothing to wait for.
    fn wait(&mut self, _timeout: Duration) {}
}

#[cfg(test)]
mod tests {
    use petasos_base::Clock;
    use petasos_load::closed_loop;

    use super::*;

    #[test]
    fn a_socket_answers_itself_once_for_each_request() {
        let (socket, ()) = BareTurns::new(|own| Ok(((), own))).expect("loopback has ports");
        let mut target = socket.target(3).expect("there are descriptors");
        let some = Duration::from_millis(5);
        let closed = closed_loop(&mut target, &Clock::system(), 3, some, true);
        assert!(closed.expect("nothing is lost").answered > 3);
    }
}
