//! What an entry of the log has: how long its leader has led, and the commands of a turn.
//!
//! ```text
//! 0  version, 1
//! 1  zero (7)
//! 8  how long the leader has led, in milliseconds (QR12)
//! 16 commands
//! ```
//!
//! A command is kind (1), zero (3), length (4), session (8), number (8), lowest open number (8),
//! and its bytes.

use petasos_base::ByteReader;

use crate::bytes::{push_numbers, push_u64};

const VERSION: u8 = 1;

/// The bytes before an entry's commands.
pub const ENTRY_HEADER_BYTES: usize = 16;
/// The bytes before a command's own.
pub const COMMAND_HEADER_BYTES: usize = 32;

/// The most commands of an entry.
pub const COMMANDS_MAX: usize = 1 << 16;

/// What a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Opens a session, whose number is the result. The bytes are its time to live in milliseconds,
    /// 8 of them.
    Open = 1,
    /// Ends a session.
    Close = 2,
    /// A command of a session: done once, however often it is sent.
    InSession = 3,
    /// A command without a session.
    Alone = 4,
    /// Nothing but that the session's client is there.
    Touch = 5,
    /// All replicas remember the digest of their state here (QR23).
    Mark = 6,
}

impl Kind {
    /// The kind with this number.
    pub fn of(number: u8) -> Option<Kind> {
        let all = [Kind::Open, Kind::Close, Kind::InSession, Kind::Alone, Kind::Touch, Kind::Mark];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A command, as a client sends it and as it stands in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// What it is about.
    pub kind: Kind,
    /// Its session, 0 for none.
    pub session: u64,
    /// Its number in the session, counted from 1 (QR9).
    pub number: u64,
    /// The lowest number of the session whose result the client does not have.
    pub lowest: u64,
    /// The machine's command.
    pub bytes: &'a [u8],
}

impl<'a> Command<'a> {
    /// A command of the machine's, without a session.
    pub fn alone(bytes: &'a [u8]) -> Command<'a> {
        Command { kind: Kind::Alone, session: 0, number: 0, lowest: 0, bytes }
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it has 4 GiB: callers have bounds.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let length = u32::try_from(self.bytes.len()).expect("commands are bounded");
        to.extend_from_slice(&[self.kind as u8, 0, 0, 0]);
        to.extend_from_slice(&length.to_le_bytes());
        push_numbers(to, &[self.session, self.number, self.lowest]);
        to.extend_from_slice(self.bytes);
    }

    /// Reads one that nothing follows.
    pub fn decode(bytes: &'a [u8]) -> Option<Command<'a>> {
        let mut bytes = ByteReader::new(bytes);
        let command = command(&mut bytes)?;
        bytes.end(command)
    }
}

fn command<'a>(bytes: &mut ByteReader<'a>) -> Option<Command<'a>> {
    let kind = Kind::of(bytes.u8()?)?;
    (bytes.take(3)? == [0; 3]).then_some(())?;
    let length = usize::try_from(bytes.u32()?).ok()?;
    let (session, number, lowest) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let bytes = bytes.take(length)?;
    let has_session = session != 0;
    let is_consistent = match kind {
        Kind::Open => !has_session && length == 8,
        Kind::Close | Kind::Touch => has_session && length == 0,
        Kind::InSession => has_session && (1..=number).contains(&lowest),
        Kind::Alone => !has_session,
        Kind::Mark => !has_session && length == 0,
    };
    is_consistent.then_some(Command { kind, session, number, lowest, bytes })
}

/// Begins an entry.
pub fn begin_entry(to: &mut Vec<u8>, led_ms: u64) {
    to.clear();
    to.extend_from_slice(&[VERSION, 0, 0, 0, 0, 0, 0, 0]);
    push_u64(to, led_ms);
}

/// An entry's time and commands, from bytes that nobody vouches for.
pub fn decode_entry(bytes: &[u8]) -> Option<(u64, impl Iterator<Item = Option<Command<'_>>>)> {
    let mut bytes = ByteReader::new(bytes);
    (bytes.take(8)? == [VERSION, 0, 0, 0, 0, 0, 0, 0]).then_some(())?;
    let led_ms = bytes.u64()?;
    let commands = std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let next = command(&mut bytes);
        if next.is_none() {
            bytes.rest();
        }
        Some(next)
    });
    Some((led_ms, commands))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let commands = [
            Command { kind: Kind::Open, session: 0, number: 0, lowest: 0, bytes: &[9; 8] },
            Command { kind: Kind::InSession, session: 7, number: 3, lowest: 2, bytes: b"abc" },
            Command::alone(b""),
            Command { kind: Kind::Close, session: 7, number: 0, lowest: 0, bytes: b"" },
        ];
        let mut entry = Vec::new();
        begin_entry(&mut entry, 77);
        assert_eq!(entry.len(), ENTRY_HEADER_BYTES);
        for command in &commands {
            command.encode(&mut entry);
        }
        let (led_ms, read) = decode_entry(&entry).unwrap();
        assert_eq!(led_ms, 77);
        assert_eq!(read.collect::<Option<Vec<_>>>().unwrap(), commands);
        for length in ENTRY_HEADER_BYTES + 1..entry.len() {
            if let Some((_, read)) = decode_entry(&entry[..length]) {
                // Either commands are missing, or the last one is none.
                assert!(read.count() <= commands.len());
            }
        }
    }

    /// QR9: numbers that contradict each other are refused before anything is proposed.
    #[test]
    fn commands_that_contradict_themselves_are_none() {
        let good = Command { kind: Kind::InSession, session: 7, number: 3, lowest: 2, bytes: b"" };
        let is_read = |command: Command<'_>| {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            Command::decode(&bytes) == Some(command)
        };
        assert!(is_read(good));
        assert!(!is_read(Command { lowest: 4, ..good }));
        assert!(!is_read(Command { lowest: 0, ..good }));
        assert!(!is_read(Command { session: 0, ..good }));
        assert!(!is_read(Command { kind: Kind::Alone, ..good }));
        assert!(!is_read(Command { kind: Kind::Open, session: 0, ..good }));
        assert!(!is_read(Command { kind: Kind::Close, bytes: b"x", ..good }));
    }
}
