//! One TCP connection to another process, and the state machine that it carries.
//!
//! A link lives a little longer than its [`Connection`]: the connection's last messages are
//! flushed, then the stream is shut down, and the socket is closed when the peer has done the same
//! or a bounded time has passed. (Closing at once could reset the stream and lose the last
//! messages.)

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use core::time::Duration;

use petasos_base::Time;
use petasos_control::{ConnectParams, Connection, SessionRef, Ticket};
use petasos_tls::{HandshakeFailure, Holder};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::guard::Guard;
use super::tls::{Dialler, Tls};
use super::without_rings::WithoutRings;
use crate::error::SessionError;
use crate::secure::SessionSecurity;
use crate::sessions::PeerId;

/// The longest time that a link outlives its connection.
const LINGER: Duration = Duration::from_millis(500);
/// The most bytes read from one link per turn, so that one peer does not keep others waiting.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(super) enum Stage {
    /// The TCP connection is being made.
    Dialling { until: Time },
    /// It is established.
    Talking(Box<Connection>),
}

pub(super) struct Link {
    stream: TcpStream,
    /// The lost connection that this one is to replace, until that is decided (C21).
    pub(super) resumes: Option<PeerId>,
    /// The ticket for this connection: the peer's if this process dialled, otherwise the one that
    /// was given to the peer.
    pub(super) ticket: Option<Ticket>,
    /// Tickets of the lost connection that have not been shown here.
    pub(super) untried: Vec<Ticket>,
    /// Whether a ticket has been shown.
    pub(super) has_shown: bool,
    /// If there is room for this connection only as a replacement: until when it must have replaced
    /// a lost one.
    pub(super) resume_by: Time,
    pub(super) stage: Stage,
    /// TLS between the stream and the connection. Made together with the connection.
    pub(super) tls: Option<Box<Tls>>,
    /// The peer's IP address.
    pub(super) peer_ip: IpAddr,
    /// The holder for which it counts: the peer's address until the peer has proved a name.
    pub(super) holder: Holder,
    /// The address that this process dialled; `None` if the peer dialled.
    pub(super) server: Option<SocketAddr>,
    /// Connect ids that wait to be sent.
    pub(super) waiting: VecDeque<u64>,
    /// Connects that were sent on a lost connection and must be sent again on this one (C12).
    pub(super) repeats: VecDeque<(u64, ConnectParams)>,
    /// Connect ids that will get no answer. They wait until the connection says why.
    pub(super) orphans: Vec<u64>,
    /// Disconnects that wait to be sent.
    pub(super) disconnects: VecDeque<SessionRef>,
    /// Whether the peer has said that another process is at its address (C22).
    pub(super) has_successor: bool,
    /// Whether that is heeded: the link is not the one to that address any more.
    pub(super) is_succeeded: bool,
    /// Whether sessions were asked for here.
    pub(super) has_sessions: bool,
    /// Endpoints that the peer has asked for sessions.
    pub(super) asked: Vec<u16>,
    /// The endpoints that do not ask for rings.
    pub(super) without_rings: WithoutRings,
    /// Whether the end of the connection has been handled.
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
        guard: &Guard,
    ) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        let mut link = Link::new(stream, Stage::Talking(Box::new(connection)), peer.ip(), None);
        link.tls = guard.tls().map(|tls| Box::new(Tls::new(tls.accept())));
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
            resumes: None,
            ticket: None,
            untried: Vec::new(),
            has_shown: false,
            resume_by: Time::NEVER,
            stage,
            tls: None,
            peer_ip: peer_ip.to_canonical(),
            holder: Holder::of(peer_ip, None),
            server,
            waiting: VecDeque::new(),
            repeats: VecDeque::new(),
            orphans: Vec::new(),
            disconnects: VecDeque::new(),
            has_successor: false,
            is_succeeded: false,
            has_sessions: false,
            asked: Vec::new(),
            without_rings: WithoutRings::default(),
            ended: false,
            close_at: Time::NEVER,
            at_end_of_stream: false,
            write_shut: false,
        }
    }

    /// Notes that the peer has asked `endpoint` for a session.
    pub(super) fn note_asked(&mut self, endpoint: u16) {
        if !self.asked.contains(&endpoint) {
            self.asked.push(endpoint);
        }
    }

    /// Makes small messages leave at once. Best effort: the protocol works without it.
    fn set_options(&self) {
        let _ = self.stream.set_nodelay(true);
    }

    /// Checks on dialling: whether the connection is established.
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

    /// Starts the control protocol on the TCP connection that this process has made.
    pub(super) fn talk(&mut self, connection: Connection, guard: &Guard) {
        let tls = guard.tls().map(|tls| Tls::new(tls.dial(self.peer_ip)));
        self.tls = tls.map(Box::new);
        self.stage = Stage::Talking(Box::new(connection));
    }

    /// If the peer of an accepted connection has just proved a name, makes the link count for that
    /// name. Returns the previous holder and the new one.
    pub(super) fn take_name(&mut self) -> Option<(Holder, Holder)> {
        if self.server.is_some() || matches!(self.holder, Holder::Name(_)) {
            return None;
        }
        let identity = self.tls.as_mut()?.identity()?;
        let name = Holder::of(self.peer_ip, Some(&identity));
        Some((core::mem::replace(&mut self.holder, name.clone()), name))
    }

    /// Why TLS has failed, if it has.
    pub(super) fn tls_failure(&self) -> Option<&HandshakeFailure> {
        self.tls.as_ref()?.failure()
    }

    /// What TLS provides for a session that `client` asks for on this link; nothing without TLS.
    ///
    /// # Errors
    /// There is TLS but it provides nothing: the session must not be set up.
    pub(super) fn security(
        &mut self,
        id: u64,
        client: &ConnectParams,
        dialler: Dialler,
    ) -> Result<Option<SessionSecurity>, Unsecured> {
        let Some(tls) = &mut self.tls else { return Ok(None) };
        tls.security(dialler, id, client.tag).map(Some).ok_or(Unsecured)
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.stage {
            Stage::Talking(connection) => Some(connection),
            Stage::Dialling { .. } => None,
        }
    }

    /// This host's address on the connection.
    pub(super) fn local_ip(&self) -> IpAddr {
        // A socket that is gone has none; then nothing is sent to it either.
        let local = self.stream.local_addr().map_or(self.peer_ip, |local| local.ip());
        local.to_canonical()
    }

    /// Which start of the peer's process it is (C4); `None` before its hello.
    pub(super) fn incarnation(&mut self) -> Option<u64> {
        Some(self.connection()?.peer()?.incarnation)
    }

    /// Whether hellos have been exchanged and the connection has not ended.
    pub(super) fn is_open(&mut self) -> bool {
        self.connection().is_some_and(|connection| connection.is_open())
    }

    /// What to poll the socket for.
    pub(super) fn interest(&self) -> PollFlags {
        let Stage::Talking(connection) = &self.stage else { return PollFlags::OUT };
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, !self.at_end_of_stream);
        let has_output = match &self.tls {
            None => connection.poll_output().is_some(),
            Some(tls) => tls.wants_write(),
        };
        interest.set(PollFlags::OUT, has_output);
        interest
    }

    /// When the link has work even if the socket is quiet.
    pub(super) fn next_timeout(&self) -> Time {
        match &self.stage {
            Stage::Dialling { until } => *until,
            Stage::Talking(connection) => {
                let timeout = connection.poll_timeout().unwrap_or(Time::NEVER);
                timeout.min(self.close_at).min(self.resume_by)
            }
        }
    }

    /// Passes the socket's bytes to the connection, then the time.
    pub(super) fn take_input(&mut self, now: Time) {
        let Stage::Talking(connection) = &mut self.stage else { return };
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < READ_BYTES_MAX && !self.at_end_of_stream {
            match hear(&mut self.stream, self.tls.as_deref_mut(), connection, &mut buffer, now) {
                Ok(0) => {
                    self.at_end_of_stream = true;
                    connection.handle_eof(now);
                }
                Ok(count) => taken += count,
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

    /// Writes the connection's output, and continues its shutdown.
    pub(super) fn give_output(&mut self, now: Time) {
        let Stage::Talking(connection) = &mut self.stage else { return };
        let written = match &mut self.tls {
            None => say(&mut self.stream, connection),
            Some(tls) => say_over(tls, &mut self.stream, connection),
        };
        if written.is_err() {
            // Nobody reads the rest. The end of the connection clears it; if it had already ended,
            // the link closes without sending it.
            self.at_end_of_stream = true;
            connection.handle_reset(now);
        }
        if connection.poll_timeout().is_some() {
            return;
        }
        self.close_at = self.close_at.min(now + LINGER);
        if connection.is_finished() && !self.write_shut {
            self.write_shut = true;
            if let Some(tls) = &mut self.tls {
                tls.close();
                // A few bytes after a goodbye that has been written: best effort.
                let _ = tls.write_to(&mut self.stream);
            }
            // An error means that the stream is already gone.
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

/// A link has TLS, but TLS did not provide what a session needs.
#[derive(Debug)]
pub(super) struct Unsecured;

/// Passes bytes from the socket to the connection, perhaps not all. Returns how many the socket
/// had; 0 is the end of the stream.
fn hear(
    socket: &mut impl Read,
    tls: Option<&mut Tls>,
    connection: &mut Connection,
    buffer: &mut [u8],
    now: Time,
) -> io::Result<usize> {
    let Some(tls) = tls else {
        let count = socket.read(buffer)?;
        connection.handle_bytes(&buffer[..count], now);
        return Ok(count);
    };
    let count = tls.read_from(socket)?;
    loop {
        match tls.take(buffer) {
            0 => break,
            plain => connection.handle_bytes(&buffer[..plain], now),
        }
    }
    if tls.failure().is_some() {
        connection.handle_reset(now);
    }
    Ok(count)
}

/// Writes the connection's output, as far as the socket accepts it.
fn say(socket: &mut impl Write, connection: &mut Connection) -> io::Result<()> {
    while let Some(output) = connection.poll_output() {
        match socket.write(output) {
            Ok(count) => connection.advance_output(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Like [`say`], through TLS, which has output of its own as well.
fn say_over(tls: &mut Tls, socket: &mut impl Write, connection: &mut Connection) -> io::Result<()> {
    loop {
        let given = connection.poll_output().map_or(0, |output| tls.give(output));
        connection.advance_output(given);
        let all_taken = tls.write_to(socket)?;
        if given == 0 || !all_taken {
            return Ok(());
        }
    }
}

fn dial_error(error: &io::Error) -> SessionError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => SessionError::Refused,
        io::ErrorKind::TimedOut => SessionError::Timeout,
        kind => SessionError::Unreachable(kind),
    }
}
