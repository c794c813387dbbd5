//! How one process names a session to another.

use petasos_wire::{SESSIONS_MAX, TAG_MAX};

use crate::Malformed;
use crate::fields::{Reader, Write};

/// The end of a session that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionRole {
    /// The end that sends requests.
    Client,
    /// The end that answers them.
    Server,
}

/// One end of a session, named by the numbers of the process that holds it (C10).
///
/// Each endpoint has its own session indices, separate for each role, so all four fields are
/// needed. The random tag ensures that a late message is not taken to mean the index's next owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionRef {
    /// Which end the process holds.
    pub role: SessionRole,
    /// The process's endpoint that holds the session.
    pub endpoint: u16,
    /// The endpoint's index of the session, below [`SESSIONS_MAX`].
    pub session: u32,
    /// The session's random tag at that end, below [`TAG_MAX`].
    pub tag: u32,
}

impl SessionRef {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.role {
            SessionRole::Client => 0,
            SessionRole::Server => 1,
        });
        out.put_u16(self.endpoint);
        out.put_u32(self.session);
        out.put_u32(self.tag);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<SessionRef, Malformed> {
        let role = match reader.u8()? {
            0 => SessionRole::Client,
            1 => SessionRole::Server,
            _ => return Err(Malformed::Value("role")),
        };
        let endpoint = reader.u16()?;
        let reference = SessionRef { role, endpoint, session: reader.u32()?, tag: reader.u32()? };
        reference.validate()?;
        Ok(reference)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        check_session(self.session, self.tag)
    }
}

/// Checks that both numbers fit the header of a packet.
pub(crate) fn check_session(session: u32, tag: u32) -> Result<(), Malformed> {
    if session >= SESSIONS_MAX {
        return Err(Malformed::Value("session"));
    }
    if tag >= TAG_MAX {
        return Err(Malformed::Value("tag"));
    }
    Ok(())
}
