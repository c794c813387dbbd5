//! Another process at the address of this one (C22).

use super::{Connection, Event, Phase, Role};
use crate::error::ProtocolError;
use crate::message::Message;
use crate::version::Version;

/// The version that introduced successors.
const SINCE: Version = Version { major: 1, minor: 3 };

/// Whether the acceptor of a connection has a successor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Succession {
    /// This process has one; the peer is told if its version knows of such.
    is_due: bool,
    /// It was told, or has told.
    is_said: bool,
}

impl Connection {
    /// Tells a dialler that another process serves at the address that it dialled, as soon as
    /// hellos are exchanged. Includes [`Connection::drain`], for peers whose version knows no
    /// successors as well. A peer that this process dialled is told nothing.
    pub fn announce_successor(&mut self) {
        if self.role == Role::Acceptor {
            self.drain();
            self.succession.is_due = true;
            self.say_successor();
        }
    }

    pub(super) fn say_successor(&mut self) {
        let knows = self.version().is_some_and(|version| version >= SINCE);
        let Succession { is_due, is_said } = self.succession;
        if self.phase == Phase::Open && knows && is_due && !is_said {
            self.succession.is_said = true;
            self.send(&Message::Successor);
        }
    }

    pub(super) fn on_successor(&mut self) -> Result<(), ProtocolError> {
        if self.role == Role::Acceptor || core::mem::replace(&mut self.succession.is_said, true) {
            return Err(ProtocolError::SuccessorMisplaced);
        }
        self.events.push_back(Event::PeerSucceeded);
        Ok(())
    }
}
