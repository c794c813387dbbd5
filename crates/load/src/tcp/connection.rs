//! One connection: requests go out as far as the socket takes them, answers come in order.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::{Protocol, Reply};
use crate::target::Answers;

/// A turn reads no more, so that one connection does not hold up the others.
const TURN_READS: usize = 16;

/// A connection, and the requests that it owes answers to.
pub(super) struct Connection<P: Protocol> {
    stream: Option<TcpStream>,
    reader: P::Reader,
    /// Slots of requests without an answer, in the order in which they were sent.
    waiting: VecDeque<u32>,
    /// What the socket has not taken yet; at most all waiting requests.
    out: Vec<u8>,
    /// What has come and is not read yet: less than the reader needs to go on.
    input: Vec<u8>,
}

impl<P: Protocol> Connection<P> {
    /// Connects and waits for it.
    pub(super) fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Connection<P>> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: Some(stream), ..Connection::closed() })
    }

    /// The first request opens it.
    pub(super) fn closed() -> Connection<P> {
        Connection {
            stream: None,
            reader: P::Reader::default(),
            waiting: VecDeque::new(),
            out: Vec::new(),
            input: Vec::new(),
        }
    }

    /// How many requests have no answer yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stream.is_none()
    }

    /// Whether there is something that the socket has not taken.
    pub(super) fn wants_to_write(&self) -> bool {
        !self.out.is_empty()
    }

    /// The open socket, and whether it is to be written to.
    pub(super) fn stream(&self) -> Option<(&TcpStream, bool)> {
        Some((self.stream.as_ref()?, self.wants_to_write()))
    }

    /// Sends a request. A connection that is closed is opened again, without waiting for it.
    ///
    /// # Errors
    /// If it cannot be opened; the request is not sent then. Other errors are seen by
    /// [`Connection::turn`].
    pub(super) fn send(&mut self, to: SocketAddr, slot: u32, request: &[u8]) -> io::Result<()> {
        let is_new = self.stream.is_none();
        if is_new {
            self.stream = Some(begin_connecting(to)?);
        }
        self.waiting.push_back(slot);
        self.out.extend_from_slice(request);
        if !is_new {
            // An error is seen again when the socket is read.
            let _ = self.write();
        }
        Ok(())
    }

    /// Writes and reads what the socket takes and has; `room` is what is read into.
    ///
    /// # Errors
    /// Why the connection is to be closed: it is broken, or at its end, or what came is wrong.
    pub(super) fn turn(&mut self, room: &mut [u8], answers: &mut Answers) -> Result<(), String> {
        let Some(stream) = &self.stream else { return Ok(()) };
        if let Ok(Some(error)) | Err(error) = stream.take_error() {
            return Err(error.to_string());
        }
        self.write().map_err(|error| error.to_string())?;
        for _ in 0..TURN_READS {
            if !self.read(room, answers)? {
                break;
            }
        }
        Ok(())
    }

    /// Closes the connection. Its requests have failed for a reason.
    pub(super) fn close(&mut self, reason: &str, answers: &mut Answers) {
        for slot in self.waiting.drain(..) {
            answers.push(slot, Err(reason.to_owned()));
        }
        self.stream = None;
        self.reader = P::Reader::default();
        self.out.clear();
        self.input.clear();
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut written = 0;
        let result = loop {
            if written == self.out.len() {
                break Ok(());
            }
            match stream.write(&self.out[written..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_later(error.kind()) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.out.drain(..written);
        result
    }

    /// Reads once, and returns whether there may be more.
    fn read(&mut self, room: &mut [u8], answers: &mut Answers) -> Result<bool, String> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        match stream.read(room) {
            Ok(0) => self.end(answers).map(|()| false),
            Ok(count) => {
                self.input.extend_from_slice(&room[..count]);
                self.take_replies(answers).map(|()| count == room.len())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if is_later(error.kind()) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn take_replies(&mut self, answers: &mut Answers) -> Result<(), String> {
        let mut done = 0;
        while done < self.input.len() {
            if self.waiting.is_empty() {
                return Err("the server sent what it was not asked for".to_owned());
            }
            let (read, reply) = P::read(&mut self.reader, &self.input[done..])?;
            done += read;
            match reply {
                Some(reply) => self.take(reply, answers)?,
                None if read == 0 => break,
                None => {}
            }
        }
        self.input.drain(..done);
        Ok(())
    }

    fn take(&mut self, reply: Reply, answers: &mut Answers) -> Result<(), String> {
        let slot = self.waiting.pop_front().expect("replies are read only for requests");
        answers.push(slot, reply.result);
        if reply.stays_open { Ok(()) } else { Err(CLOSED.to_owned()) }
    }

    /// The server has closed the connection.
    fn end(&mut self, answers: &mut Answers) -> Result<(), String> {
        if !self.waiting.is_empty()
            && let Some(reply) = P::read_end(&mut self.reader)
        {
            self.take(reply, answers)?;
        }
        Err(CLOSED.to_owned())
    }
}

const CLOSED: &str = "the server closed the connection";

/// A socket that is being connected: it can be written to when it is.
fn begin_connecting(to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A socket that is still being connected is as one that takes nothing now.
fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
