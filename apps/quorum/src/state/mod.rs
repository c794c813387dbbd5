//! The replicated state: sessions, the clock, and a machine (QR3, QR9 to QR12, QR22, QR23).
//!
//! It changes by entries of the log alone, and in the same way on all replicas.

mod clock;
mod digest;
mod entry;
mod sessions;
mod snapshot;

use self::clock::ReplicatedClock;
pub use self::digest::Digest;
pub(crate) use self::digest::hash;
pub use self::entry::{
    COMMAND_HEADER_BYTES, COMMANDS_MAX, Command, ENTRY_HEADER_BYTES, Kind, begin_entry,
    decode_entry,
};
use self::sessions::{Known, Sessions};
pub use self::sessions::{OPEN_MAX, RESULTS_BYTES_MAX, SESSIONS_MAX, TTL_MS};
use self::snapshot::Frozen;
pub use self::snapshot::Loading;
use crate::machine::{At, Malformed, StateMachine};

/// How a command ended, as the log has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It was done, now or when it came first (QR10): the machine's result, or a session's number.
    Done(&'a [u8]),
    /// Its session has ended, or never was. It was not done now; whether it was before, its client
    /// knows if it has not sent it before (QR11).
    NoSession,
    /// Its number is one that its client has said it has the result of, or too far ahead. It was
    /// not done now.
    Contradiction,
    /// There is no room for another session, or for results. It was not done.
    Full,
}

/// What all replicas have alike.
pub struct Replicated<M> {
    machine: M,
    sessions: Sessions,
    clock: ReplicatedClock,
    applied: u64,
    frozen: Option<Frozen>,
    /// The digest at the last mark. It is no part of the state.
    marked: Option<Digest>,
    /// Kept for its memory.
    result: Vec<u8>,
}

impl<M: StateMachine> Replicated<M> {
    /// The state before the first entry.
    pub fn new(machine: M) -> Replicated<M> {
        Replicated {
            machine,
            sessions: Sessions::default(),
            clock: ReplicatedClock::default(),
            applied: 0,
            frozen: None,
            marked: None,
            result: Vec::new(),
        }
    }

    /// The last entry that was applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The replicated clock, in milliseconds.
    pub fn time_ms(&self) -> u64 {
        self.clock.now_ms
    }

    /// The digest at the last [`Kind::Mark`], if there was one since this replica has started.
    pub fn marked(&self) -> Option<Digest> {
        self.marked
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// How many bytes the machine may still be given.
    pub fn room(&self) -> usize {
        self.machine.room()
    }

    /// Whether something ends when the clock says so.
    pub fn needs_clock(&self) -> bool {
        self.sessions.len() > 0 || self.machine.needs_clock()
    }

    /// Looks at a command before it is proposed: what it may add to the machine's state (QR22).
    ///
    /// # Errors
    /// If the machine cannot read it.
    pub fn check(&self, command: &Command<'_>) -> Result<usize, Malformed> {
        match command.kind {
            Kind::InSession | Kind::Alone => self.machine.check(command.bytes),
            Kind::Open | Kind::Close | Kind::Touch | Kind::Mark => Ok(0),
        }
    }

    /// Answers a query from the state as it is.
    ///
    /// # Errors
    /// If the machine cannot read it.
    pub fn read(&self, query: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        self.machine.read(query, answer)
    }

    /// An entry without commands is applied.
    ///
    /// # Panics
    /// If it is not the next one.
    pub fn skip(&mut self, index: u64) {
        assert_eq!(index, self.applied + 1, "entries are applied in order");
        self.applied = index;
    }

    /// Applies an entry's commands. `each` hears how each ended, by its position in the entry. What
    /// cannot be read changes nothing, on all replicas alike (QR22).
    ///
    /// # Panics
    /// If it is not the next one.
    pub fn apply(
        &mut self,
        index: u64,
        term: u64,
        entry: &[u8],
        mut each: impl FnMut(u16, Outcome<'_>),
    ) {
        self.skip(index);
        let Some((led_ms, commands)) = decode_entry(entry) else { return };
        self.clock.hear(term, led_ms);
        let time_ms = self.clock.now_ms;
        self.sessions.expire(time_ms);
        self.machine.tick(At { index, position: 0, time_ms });
        for (position, command) in (0..=u16::MAX).zip(commands) {
            let Some(command) = command else { return };
            let at = At { index, position, time_ms };
            self.perform(at, &command, |outcome| each(position, outcome));
        }
    }

    fn perform(&mut self, at: At, command: &Command<'_>, say: impl FnOnce(Outcome<'_>)) {
        let Command { kind, session, number, lowest, bytes } = *command;
        let done = |is_done| if is_done { Outcome::Done(&[]) } else { Outcome::NoSession };
        match kind {
            Kind::Open => self.open(at, bytes, say),
            Kind::Close => say(done(self.sessions.close(session))),
            Kind::Touch => say(done(self.sessions.touch(session, at.time_ms))),
            Kind::Mark => {
                self.marked = Some(self.digest());
                say(Outcome::Done(&[]));
            }
            Kind::Alone => {
                self.result.clear();
                self.machine.apply(at, bytes, &mut self.result);
                say(Outcome::Done(&self.result));
            }
            Kind::InSession => match self.sessions.look_up(session, number, lowest, at.time_ms) {
                Known::Result(result) => say(Outcome::Done(result)),
                Known::NoSession => say(Outcome::NoSession),
                Known::Contradiction => say(Outcome::Contradiction),
                Known::Full => say(Outcome::Full),
                Known::New => {
                    self.result.clear();
                    self.machine.apply(at, bytes, &mut self.result);
                    self.sessions.keep(session, number, &self.result);
                    say(Outcome::Done(&self.result));
                }
            },
        }
    }

    /// Opens a session. Its number is that of its command (QR9).
    fn open(&mut self, at: At, bytes: &[u8], say: impl FnOnce(Outcome<'_>)) {
        let Ok(ttl_ms) = bytes.try_into().map(u64::from_le_bytes) else { return };
        match self.sessions.open(at.number(), ttl_ms, at.time_ms) {
            true => say(Outcome::Done(&at.number().to_le_bytes())),
            false => say(Outcome::Full),
        }
    }
}
