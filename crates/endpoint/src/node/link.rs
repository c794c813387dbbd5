//! One TCP connection to another process, and the state machine that it carries.
//!
//! A link lives a little longer than its [`Connection`]: what the connection says last is flushed,
//! then the stream is shut, and the socket closes when the peer has done the same or a bounded time
//! has passed. (Closing at once could reset the stream and take the last words with it.)

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use core::time::Duration;

use petasos_base::Time;
use petasos_control::{Connection, SessionRef};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::SessionError;

/// How long a link outlives its connection at most.
const LINGER: Duration = Duration::from_millis(500);
/// Bytes read from one link per turn at most, so that one peer does not keep others waiting.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(super) enum Stage {
    /// The TCP connection is being made.
    Dialling { until: Time },
    /// It stands.
    Talking(Box<Connection>),
}

pub(super) struct Link {
    stream: TcpStream,
    pub(super) stage: Stage,
    /// The peer's IP address.
    pub(super) peer_ip: IpAddr,
    /// What this process dialled; `None` if the peer did.
    pub(super) server: Option<SocketAddr>,
    /// Connect ids that wait to be asked.
    pub(super) waiting: VecDeque<u64>,
    /// Connect ids whose answer will not come, until the connection says why.
    pub(super) orphans: Vec<u64>,
    /// Disconnects that wait to be sent.
    pub(super) disconnects: VecDeque<SessionRef>,
    /// Whether the end of the connection has been dealt with.
    pub(super) ended: bool,
    /// When to close, once the connection has ended.
    close_at: Time,
    at_end_of_stream: bool,
    write_shut: bool,
}

impl Link {
    /// A connection that a peer has made.
    pub(super) fn accepted(
        stream: TcpStream,
        peer: SocketAddr,
        connection: Connection,
    ) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        let link = Link::new(stream, Stage::Talking(Box::new(connection)), peer.ip(), None);
        link.set_options();
        Ok(link)
    }

    /// Begins to connect to `server`.
    pub(super) fn dial(server: SocketAddr, until: Time) -> Result<Link, SessionError> {
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|error| dial_error(&error.into()))?;
        match rustix::net::connect(&socket, &server) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(dial_error(&error.into())),
        }
        let stage = Stage::Dialling { until };
        Ok(Link::new(TcpStream::from(socket), stage, server.ip(), Some(server)))
    }

    fn new(stream: TcpStream, stage: Stage, peer_ip: IpAddr, server: Option<SocketAddr>) -> Link {
        Link {
            stream,
            stage,
            peer_ip: peer_ip.to_canonical(),
            server,
            waiting: VecDeque::new(),
            orphans: Vec::new(),
            disconnects: VecDeque::new(),
            ended: false,
            close_at: Time::NEVER,
            at_end_of_stream: false,
            write_shut: false,
        }
    }

    /// Small messages should leave at once. Best effort: the protocol works without it.
    fn set_options(&self) {
        let _ = self.stream.set_nodelay(true);
    }

    /// What has become of dialling: whether the connection stands.
    pub(super) fn dialled(&mut self, now: Time) -> Result<bool, SessionError> {
        let Stage::Dialling { until } = self.stage else { return Ok(true) };
        if let Some(error) = self.stream.take_error().unwrap_or_else(Some) {
            return Err(dial_error(&error));
        }
        if self.stream.peer_addr().is_ok() {
            self.set_options();
            return Ok(true);
        }
        if until <= now { Err(SessionError::Timeout) } else { Ok(false) }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.stage {
            Stage::Talking(connection) => Some(connection),
            Stage::Dialling { .. } => None,
        }
    }

    /// What to poll the socket for.
    pub(super) fn interest(&self) -> PollFlags {
        let Stage::Talking(connection) = &self.stage else { return PollFlags::OUT };
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, !self.at_end_of_stream);
        interest.set(PollFlags::OUT, connection.poll_output().is_some());
        interest
    }

    /// When the link has something to do even if the socket is quiet.
    pub(super) fn next_timeout(&self) -> Time {
        match &self.stage {
            Stage::Dialling { until } => *until,
            Stage::Talking(connection) => {
                connection.poll_timeout().unwrap_or(Time::NEVER).min(self.close_at)
            }
        }
    }

    /// Hands over what the socket has, then the time.
    pub(super) fn take_input(&mut self, now: Time) {
        let Stage::Talking(connection) = &mut self.stage else { return };
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < READ_BYTES_MAX && !self.at_end_of_stream {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.at_end_of_stream = true;
                    connection.handle_eof(now);
                }
                Ok(count) => {
                    connection.handle_bytes(&buffer[..count], now);
                    taken += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.at_end_of_stream = true;
                    connection.handle_reset(now);
                }
            }
        }
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
    }

    /// Writes what the connection has to say, and goes on with its end.
    pub(super) fn give_output(&mut self, now: Time) {
        let Stage::Talking(connection) = &mut self.stage else { return };
        while let Some(output) = connection.poll_output() {
            match self.stream.write(output) {
                Ok(count) => connection.advance_output(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Nobody reads what is left; the end of the connection clears it, or, if it
                    // had ended before, the link closes with it unsent.
                    self.at_end_of_stream = true;
                    connection.handle_reset(now);
                    break;
                }
            }
        }
        if connection.poll_timeout().is_some() {
            return;
        }
        self.close_at = self.close_at.min(now + LINGER);
        if connection.is_finished() && !self.write_shut {
            self.write_shut = true;
            // An error says that the stream is gone already.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Whether the socket can be closed.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.ended && (self.at_end_of_stream || self.close_at <= now)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn dial_error(error: &io::Error) -> SessionError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => SessionError::Refused,
        io::ErrorKind::TimedOut => SessionError::Timeout,
        kind => SessionError::Unreachable(kind),
    }
}
