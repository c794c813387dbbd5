//! One connection: the arrived part of an incoming record, and the unsent part of an outgoing one.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::Time;
use petasos_netio::Route;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use crate::config::TcpConfig;
use crate::record::{Malformed, PREAMBLE, Reader, Record};
use crate::socket;
use crate::watch::Watch;

/// A connection to one peer, perhaps still being dialled.
pub(crate) struct Connection {
    socket: OwnedFd,
    pub(crate) peer: SocketAddr,
    /// `None` for a stranger's.
    pub(crate) route: Option<Route>,
    /// Whether this side is still connecting.
    pub(crate) is_dialling: bool,
    /// Whether the socket may have something to read.
    pub(crate) is_ready: bool,
    /// The peer sends nothing more; what has arrived is still delivered.
    pub(crate) hung_up: bool,
    reader: Reader,
    /// The bytes of a record that has not arrived completely.
    unfinished: Vec<u8>,
    /// What the socket did not take of the latest record; sent from `unsent_from` on.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// Whether the socket has refused bytes and taken none since.
    is_blocked: bool,
    /// Records received, and bytes sent.
    records: u64,
    sent: u64,
    input: Watch,
    output: Watch,
}

/// What one look at a socket found.
pub(crate) enum Taken {
    /// This many bytes of the memory are used up, and the socket has nothing more.
    All(usize),
    /// This many bytes of the memory are used up, and the socket may have more.
    Some(usize),
    /// The connection has ended.
    Ended,
    /// The peer breaks the protocol.
    Malformed,
}

impl Connection {
    /// A connection whose socket has sent and received nothing.
    pub(crate) fn new(socket: OwnedFd, peer: SocketAddr, is_dialling: bool, now: Time) -> Self {
        Connection {
            socket,
            peer,
            route: None,
            is_dialling,
            is_ready: false,
            hung_up: false,
            reader: Reader::default(),
            unfinished: Vec::new(),
            unsent: PREAMBLE.to_vec(),
            unsent_from: 0,
            is_blocked: false,
            records: 0,
            sent: 0,
            input: Watch::new(now),
            output: Watch::new(now),
        }
    }

    /// Whether dialling has come to its end. The error says that it failed.
    pub(crate) fn is_dialled(&mut self) -> Result<bool, Errno> {
        self.is_dialling = self.is_dialling && !socket::dialled(&self.socket)?;
        Ok(!self.is_dialling)
    }

    /// Receives into `memory` and reports the records there.
    #[inline]
    pub(crate) fn receive(&mut self, memory: &mut [u8], report: impl FnMut(Record)) -> Taken {
        let before = self.unfinished.len();
        memory[..before].copy_from_slice(&self.unfinished);
        let room = memory.len() - before;
        let received = match recv(&self.socket, &mut memory[before..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Taken::Ended,
            Ok((_, received)) => received,
            Err(Errno::WOULDBLOCK) => return Taken::All(0),
            Err(Errno::INTR) => return Taken::Some(0),
            Err(_) => return Taken::Ended,
        };
        let arrived = &memory[..before + received];
        let Ok(done) = self.read(arrived, report) else { return Taken::Malformed };
        self.unfinished.clear();
        self.unfinished.extend_from_slice(&arrived[done..]);
        match received == room || self.hung_up {
            true => Taken::Some(arrived.len()),
            false => Taken::All(arrived.len()),
        }
    }

    #[inline]
    fn read(&mut self, arrived: &[u8], mut report: impl FnMut(Record)) -> Result<usize, Malformed> {
        let records = &mut self.records;
        self.reader.read(arrived, |record| {
            *records += 1;
            report(record);
        })
    }

    /// Sends what is left of the latest record. Returns whether nothing is left.
    #[inline]
    pub(crate) fn flush(&mut self, calls: &mut u64) -> Result<bool, Errno> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        self.send_unsent(calls)
    }

    #[cold]
    fn send_unsent(&mut self, calls: &mut u64) -> Result<bool, Errno> {
        let sent = self.write(&[IoSlice::new(&self.unsent[self.unsent_from..])], true, calls)?;
        self.unsent_from += sent;
        let all = self.unsent_from == self.unsent.len();
        if all {
            self.unsent.clear();
            self.unsent_from = 0;
        }
        self.note_sent(sent, all);
        Ok(all)
    }

    /// Sends `pieces` in one system call, or each in its own, and adds to the count of calls.
    /// Returns how many of their bytes the socket has taken. The caller tells
    /// [`Connection::note_sent`] about it.
    #[inline]
    pub(crate) fn write(
        &self,
        pieces: &[IoSlice<'_>],
        gathered: bool,
        calls: &mut u64,
    ) -> Result<usize, Errno> {
        if gathered {
            *calls += 1;
            let mut none = SendAncillaryBuffer::default();
            return taken(|| sendmsg(&self.socket, pieces, &mut none, FLAGS));
        }
        let mut sum = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            *calls += 1;
            let sent = taken(|| send(&self.socket, piece, FLAGS))?;
            sum += sent;
            if sent < piece.len() {
                break;
            }
        }
        Ok(sum)
    }

    /// Notes that the socket has taken `sent` bytes, and whether these are all that it was offered.
    #[inline]
    pub(crate) fn note_sent(&mut self, sent: usize, all: bool) {
        self.sent += sent as u64;
        self.is_blocked = !all;
    }

    /// Keeps a copy of what `pieces`, one record, have after their first `sent` bytes.
    #[cold]
    pub(crate) fn keep_unsent(&mut self, pieces: &[IoSlice<'_>], sent: usize) {
        debug_assert!(self.unsent.is_empty(), "it was sent before the record");
        let mut skip = sent;
        for piece in pieces {
            let skipped = skip.min(piece.len());
            self.unsent.extend_from_slice(&piece[skipped..]);
            skip -= skipped;
        }
    }

    /// Whether the peer has kept this side waiting for too long.
    pub(crate) fn is_overdue(&mut self, now: Time, config: &TcpConfig) -> bool {
        if self.is_dialling {
            return self.output.is_overdue(true, 0, now, config.dial_patience);
        }
        let patience = config.patience;
        let is_stranger = self.route.is_none();
        let owes = is_stranger || !self.reader.is_greeted() || !self.unfinished.is_empty();
        let silent = self.input.is_overdue(owes, self.records, now, patience);
        silent | self.output.is_overdue(self.is_blocked, self.sent, now, patience)
    }

    /// Begins to wait for what a stranger owes.
    pub(crate) fn make_stranger(&mut self, now: Time) {
        self.route = None;
        self.input.restart(now);
    }

    /// Ends the connection.
    pub(crate) fn close(self) {
        socket::reset(self.socket);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// How many bytes a socket has taken. It takes none if it is full.
#[inline]
fn taken(mut attempt: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match attempt() {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(0),
            other => return other,
        }
    }
}
