//! Connections that have not yet sent a hello.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::Time;

use crate::credentials::Credentials;
use crate::frame::{BODY_BYTES_MAX, FRAME_HEADER_BYTES};
use crate::hello::Hello;
use crate::message::{FromApplication, FromService};
use crate::reason::{RefuseCode, Text};
use crate::session::{ServiceSession, Violation};
use crate::socket::{self, Received};

/// The longest frame, so that any hello comes with one read.
const READ_BYTES: usize = FRAME_HEADER_BYTES + BODY_BYTES_MAX;

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) socket: OwnedFd,
    pub(super) credentials: Credentials,
    pub(super) session: ServiceSession,
    /// What came after the hello: less than a frame's length.
    pub(super) rest: Vec<u8>,
    /// When it has to have said hello.
    pub(super) due: Time,
}

/// What a look at a connection found.
pub(super) enum Look {
    Nothing,
    Hello(Box<Hello>),
    Gone,
    Refuse(RefuseCode, String),
}

impl Pending {
    pub(super) fn new(socket: OwnedFd, credentials: Credentials, due: Time) -> Pending {
        let (session, rest) = (ServiceSession::default(), Vec::new());
        Pending { socket, credentials, session, rest, due }
    }

    /// Reads once.
    pub(super) fn look(&mut self, now: Time) -> Look {
        let mut bytes = [0; READ_BYTES];
        let count = match socket::receive(self.socket.as_fd(), &mut bytes) {
            Received::Bytes(count) => count,
            Received::Nothing if now < self.due => return Look::Nothing,
            Received::Nothing => return refuse(Violation::Slow),
            Received::TooManyFiles => return refuse(Violation::Descriptors),
            Received::Closed => return Look::Gone,
        };
        let mut input = &bytes[..count];
        let said = self.session.poll_message(&mut input);
        self.rest = input.to_vec();
        match said {
            Ok(Some(FromApplication::Hello(hello))) => Look::Hello(Box::new(hello)),
            Ok(Some(_)) => unreachable!("a session begins with a hello"),
            Ok(None) if now >= self.due => refuse(Violation::Slow),
            Ok(None) => Look::Nothing,
            Err(violation) => refuse(violation),
        }
    }
}

fn refuse(violation: Violation) -> Look {
    Look::Refuse(violation.refuse_code(), violation.to_string())
}

/// Tells the other side, if that is possible at once, that it is refused.
pub(crate) fn send_refusal(socket: BorrowedFd<'_>, code: RefuseCode, text: &str) {
    let mut bytes = Vec::new();
    FromService::Refuse(code, Text::new(text)).write(&mut bytes);
    // It is closed right after this, with or without a word.
    let _ = socket::send(socket, &bytes);
}
