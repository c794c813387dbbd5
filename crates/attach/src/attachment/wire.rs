//! The application's end of the socket: receives messages with their descriptors, at once or within
//! a time.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use petasos_base::{SystemClock, Time};
use rustix::event::PollFlags;

use crate::ended::Ended;
use crate::message::{FromApplication, FromService};
use crate::session::{ApplicationSession, Violation};
use crate::socket::{self, Received, poll_socket};

const READ_BYTES: usize = 1024;
/// The most descriptors that wait: those of a frame that is not complete, and of one that begins
/// behind it in the same read.
const FILES_MAX: usize = 4;

/// A message, and the descriptors that it announces: as many as it says.
pub(super) type Said = (FromService, Vec<OwnedFd>);

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: OwnedFd,
    pub(super) session: ApplicationSession,
    /// What was read and not handled.
    input: Vec<u8>,
    /// Descriptors that came with it: at most [`FILES_MAX`].
    files: VecDeque<OwnedFd>,
    /// What the socket has not taken yet. One request waits at a time, and each extent is given up
    /// once, so this is short.
    output: Vec<u8>,
}

impl Wire {
    pub(super) fn new(socket: OwnedFd, session: ApplicationSession) -> Wire {
        let (input, files, output) = (Vec::new(), VecDeque::new(), Vec::new());
        Wire { socket, session, input, files, output }
    }

    /// Sends what fits now, and the rest later.
    pub(super) fn send(&mut self, message: &FromApplication) {
        message.write(&mut self.output);
        self.flush();
    }

    /// The next message, if it has come.
    pub(super) fn poll_message(&mut self) -> Result<Option<Said>, Ended> {
        self.flush();
        loop {
            if self.input.is_empty() && !self.read()? {
                return Ok(None);
            }
            let input = core::mem::take(&mut self.input);
            let mut left = &input[..];
            let said = self.session.poll_message(&mut left)?;
            self.input = left.to_vec();
            if let Some(said) = said {
                let files = self.take_files(said.descriptors())?;
                return Ok(Some((said, files)));
            }
        }
    }

    /// The next message, unless none comes in time.
    pub(super) fn await_message(&mut self, deadline: Time) -> Result<Option<Said>, Ended> {
        let clock = SystemClock::default();
        loop {
            if let Some(said) = self.poll_message()? {
                return Ok(Some(said));
            }
            let now = clock.now();
            if now >= deadline {
                return Ok(None);
            }
            let wants = if self.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            poll_socket(self.socket.as_fd(), PollFlags::IN | wants, deadline - now);
        }
    }

    /// Whether something came.
    fn read(&mut self) -> Result<bool, Ended> {
        // What came before is a part of a frame, or nothing.
        if !self.session.is_within_frame() && !self.files.is_empty() {
            return Err(Violation::Descriptors.into());
        }
        let mut bytes = [0; READ_BYTES];
        match socket::receive_files(self.socket.as_fd(), &mut bytes, &mut self.files) {
            Received::Bytes(count) => self.input.extend_from_slice(&bytes[..count]),
            Received::Nothing => return Ok(false),
            Received::TooManyFiles => return Err(Violation::Descriptors.into()),
            Received::Closed => return Err(Ended::Gone),
        }
        if self.files.len() > FILES_MAX {
            return Err(Violation::Descriptors.into());
        }
        Ok(true)
    }

    fn take_files(&mut self, count: usize) -> Result<Vec<OwnedFd>, Ended> {
        if self.files.len() < count {
            return Err(Violation::Descriptors.into());
        }
        Ok(self.files.drain(..count).collect())
    }

    fn flush(&mut self) {
        while !self.output.is_empty() {
            // That the service is gone shows when something is read.
            let Ok(count) = socket::send(self.socket.as_fd(), &self.output) else { return };
            self.output.drain(..count);
        }
    }
}
