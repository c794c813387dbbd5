//! A target over several TCP connections, for protocols with answers in order: to one server, or to
//! several, of which each request goes to one at random.
//!
//! Nothing is trusted of what a server sends: a protocol's reader bounds what it keeps, and what it
//! does not understand is the failure of the requests of that connection, which is then replaced. A
//! connection is replaced when the next request needs it, so a server that closes all at once is
//! not asked more often than requests are due.

mod connection;

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::{Rng, random_seed};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::target::{Answers, Target, TargetError};
use connection::Connection;

/// What is sent and how answers are read.
pub trait Protocol {
    /// Reads the answers of one connection.
    type Reader: Default;

    /// How many requests a connection may have outstanding.
    const OUTSTANDING_MAX: usize;

    /// The next request's bytes.
    fn request(&mut self) -> &[u8];

    /// Reads from the front of `input`, and returns how many bytes are done with, and the answer
    /// that they complete, if any. Bytes that are not done with come again, with more.
    ///
    /// # Errors
    /// What is wrong with them, as a text.
    fn read(reader: &mut Self::Reader, input: &[u8]) -> Result<(usize, Option<Reply>), String>;

    /// The answer that the end of the connection completes, if any.
    fn read_end(reader: &mut Self::Reader) -> Option<Reply>;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Why the request has failed, if it has.
    pub result: Result<(), String>,
    /// Whether the connection can be used for other requests.
    pub stays_open: bool,
}

/// Connections to one server, or to several.
pub struct TcpTarget<P: Protocol> {
    protocol: P,
    /// Where connections lead: as many of each server, one server after another.
    servers: Vec<SocketAddr>,
    connections: Vec<Connection<P>>,
    /// The connection that is looked at first for the next request to a single server.
    next: usize,
    /// Chooses among several servers.
    rng: Rng,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// What connections read into.
    room: Box<[u8]>,
    /// Requests that could not be sent: they have failed, and are answered with the next others.
    unsent: Vec<(u32, String)>,
}

/// Events that are taken at once.
const EVENTS: usize = 64;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;

impl<P: Protocol> TcpTarget<P> {
    /// Connects to the first of `addresses` that can be reached, `connections` times.
    ///
    /// # Errors
    /// Why the last address could not be reached.
    pub fn connect(
        protocol: P,
        addresses: &[SocketAddr],
        connections: usize,
        timeout: Duration,
    ) -> io::Result<TcpTarget<P>> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut found = None;
        for address in addresses {
            match Connection::connect(*address, timeout) {
                Ok(first) => {
                    found = Some((*address, first));
                    break;
                }
                Err(error) => last = error,
            }
        }
        let Some((address, first)) = found else { return Err(last) };
        let mut all = vec![first];
        for _ in 1..connections {
            all.push(Connection::connect(address, timeout)?);
        }
        TcpTarget::of(protocol, vec![address], all)
    }

    /// Connects to all of `addresses`; each request goes to one of them at random. There are up to
    /// `connections` to each, so that a server can have all requests that are outstanding. One is
    /// open from the beginning, the others as they are needed.
    ///
    /// # Errors
    /// Why an address could not be reached.
    pub fn connect_at_random(
        protocol: P,
        addresses: &[SocketAddr],
        connections: usize,
        timeout: Duration,
    ) -> io::Result<TcpTarget<P>> {
        if addresses.is_empty() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut all = Vec::new();
        for address in addresses {
            all.push(Connection::connect(*address, timeout)?);
            all.extend((1..connections).map(|_| Connection::closed()));
        }
        TcpTarget::of(protocol, addresses.to_vec(), all)
    }

    fn of(
        protocol: P,
        servers: Vec<SocketAddr>,
        connections: Vec<Connection<P>>,
    ) -> io::Result<TcpTarget<P>> {
        let target = TcpTarget {
            protocol,
            servers,
            connections,
            next: 0,
            rng: Rng::new(random_seed()),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            room: vec![0; READ_BYTES].into(),
            unsent: Vec::new(),
        };
        for index in 0..target.connections.len() {
            target.watch(index)?;
        }
        Ok(target)
    }

    /// The address that is connected, or the first of several.
    pub fn address(&self) -> SocketAddr {
        self.servers[0]
    }

    /// Connections to each server.
    fn each(&self) -> usize {
        self.connections.len() / self.servers.len()
    }

    /// Waits for what a connection needs.
    fn watch(&self, index: usize) -> io::Result<()> {
        let Some((stream, wants_to_write)) = self.connections[index].stream() else {
            return Ok(());
        };
        let out = if wants_to_write { EventFlags::OUT } else { EventFlags::empty() };
        let data = EventData::new_u64(index as u64);
        match epoll::modify(&self.epoll, stream, data, EventFlags::IN | out) {
            Err(rustix::io::Errno::NOENT) => {
                Ok(epoll::add(&self.epoll, stream, data, EventFlags::IN | out)?)
            }
            done => Ok(done?),
        }
    }

    /// The connection for the next request. There is one, since no more requests are sent than fit.
    fn choose(&mut self) -> usize {
        let each = self.each();
        // Of several servers' connections the first are used, so that no more are open than needed.
        let (begin, from) = match self.servers.len() {
            1 => (0, self.next),
            servers => (self.rng.below(servers as u64) as usize * each, 0),
        };
        let has_room = |index: &usize| self.connections[*index].waiting() < P::OUTSTANDING_MAX;
        let found = (from..from + each).map(|index| begin + index % each).find(has_room);
        let index = found.expect("no more are outstanding than all connections take");
        self.next = (index + 1) % each;
        index
    }

    /// Lets a connection write and read.
    fn turn(&mut self, index: usize, answers: &mut Answers) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let wanted = connection.wants_to_write();
        if let Err(reason) = connection.turn(&mut self.room, answers) {
            connection.close(&reason, answers);
            return Ok(());
        }
        if wanted != self.connections[index].wants_to_write() {
            self.watch(index)?;
        }
        Ok(())
    }
}

impl<P: Protocol> Target for TcpTarget<P> {
    fn outstanding_max(&self) -> usize {
        self.each().saturating_mul(P::OUTSTANDING_MAX)
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        let index = self.choose();
        let server = self.servers[index / self.each()];
        let connection = &mut self.connections[index];
        let was = (connection.is_closed(), connection.wants_to_write());
        if let Err(error) = connection.send(server, slot, self.protocol.request()) {
            self.unsent.push((slot, format!("cannot connect to {server}: {error}")));
            return Ok(());
        }
        let is = (self.connections[index].is_closed(), self.connections[index].wants_to_write());
        if was != is { self.watch(index).map_err(lost) } else { Ok(()) }
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        for (slot, reason) in self.unsent.drain(..) {
            answers.push(slot, Err(reason));
        }
        loop {
            self.events.clear();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let found = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&at_once));
            match found {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(|error| lost(error.into()))?,
            };
            for event in 0..self.events.len() {
                let index = self.events[event].data.u64() as usize;
                self.turn(index, answers).map_err(lost)?;
            }
            if self.events.len() < EVENTS {
                return Ok(());
            }
        }
    }

    fn wait(&mut self, timeout: Duration) {
        if !self.unsent.is_empty() {
            return;
        }
        wait_readable(&self.epoll, timeout);
    }
}

/// Readable when a connection has something to do, for who waits for several targets.
impl<P: Protocol> AsFd for TcpTarget<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Waits until a descriptor is readable, for at most `timeout`. Whatever ends it early is found out
/// by who reads.
pub fn wait_readable(descriptor: &OwnedFd, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout));
}

fn lost(error: io::Error) -> TargetError {
    TargetError(format!("cannot wait for connections: {error}"))
}

#[cfg(test)]
mod tests;
