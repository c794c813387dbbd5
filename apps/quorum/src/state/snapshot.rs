//! Snapshots of the replicated state, in parts (QR21).
//!
//! A snapshot is a sequence of records, each preceded by its length in 4 bytes. The first byte of
//! a record says what it is: the head (applied entry, clock), a session, or one of the machine's.

use super::Replicated;
use super::clock::ReplicatedClock;
use super::sessions::Sessions;
use petasos_base::ByteReader;

use crate::bytes::{push_long, push_numbers};
use crate::machine::{Malformed, StateMachine};

const HEAD: u8 = 0;
const SESSION: u8 = 1;
const MACHINE: u8 = 2;

/// The longest record that is read: that of a session with all results.
const RECORD_BYTES_MAX: usize = 128 << 20;

/// A snapshot that is being written.
pub(super) struct Frozen {
    /// Applied entry and clock, until they are written.
    head: Option<(u64, ReplicatedClock)>,
    /// Those that are not written.
    sessions: Sessions,
}

impl<M: StateMachine> Replicated<M> {
    /// Begins a snapshot of the state as it is, beside which entries are applied. An earlier one
    /// that has not ended is given up.
    pub fn freeze(&mut self) {
        let head = Some((self.applied, self.clock));
        self.frozen = Some(Frozen { head, sessions: self.sessions.clone() });
        self.machine.freeze();
    }

    /// Appends the next part of the snapshot, of about `bytes` bytes, to `part`. Whether there is
    /// more.
    ///
    /// # Panics
    /// If no snapshot has begun.
    pub fn frozen(&mut self, bytes: usize, part: &mut Vec<u8>) -> bool {
        let frozen = self.frozen.as_mut().expect("a snapshot has begun");
        let until = part.len() + bytes;
        let mut record = Vec::new();
        while part.len() < until {
            record.clear();
            if let Some((applied, clock)) = frozen.head.take() {
                record.push(HEAD);
                let numbers = [applied, clock.now_ms, clock.term, clock.led_ms];
                push_numbers(&mut record, &numbers);
            } else {
                record.push(SESSION);
                if !frozen.sessions.take_record(&mut record) {
                    record[0] = MACHINE;
                    if !self.machine.frozen(&mut record) {
                        self.frozen = None;
                        return false;
                    }
                }
            }
            push_long(part, &record);
        }
        true
    }
}

/// A state that is being read from a snapshot, whose parts come in order and are cut anywhere.
pub struct Loading<M> {
    state: Replicated<M>,
    has_head: bool,
    /// A record that is not whole.
    rest: Vec<u8>,
}

impl<M: StateMachine> Loading<M> {
    /// Begins with an empty machine.
    pub fn new(machine: M) -> Loading<M> {
        Loading { state: Replicated::new(machine), has_head: false, rest: Vec::new() }
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// If it is none.
    pub fn part(&mut self, part: &[u8]) -> Result<(), Malformed> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(part);
        let mut bytes = ByteReader::new(&rest);
        let mut left = rest.len();
        while let Some(record) = bytes.long() {
            let fits = record.len() <= RECORD_BYTES_MAX;
            fits.then(|| self.record(record)).flatten().ok_or(Malformed)?;
            left -= 4 + record.len();
        }
        rest.drain(..rest.len() - left);
        if let Some(length) = rest.first_chunk() {
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Malformed)?;
            (length <= RECORD_BYTES_MAX).then_some(()).ok_or(Malformed)?;
        }
        self.rest = rest;
        Ok(())
    }

    fn record(&mut self, record: &[u8]) -> Option<()> {
        let (kind, record) = record.split_first()?;
        match *kind {
            HEAD if !self.has_head => {
                let mut bytes = ByteReader::new(record);
                self.state.applied = bytes.u64()?;
                let (now_ms, term, led_ms) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
                self.state.clock = ReplicatedClock { now_ms, term, led_ms };
                self.has_head = true;
                bytes.end(())
            }
            SESSION if self.has_head => self.state.sessions.load(record),
            MACHINE if self.has_head => self.state.machine.load(record).ok(),
            _ => None,
        }
    }

    /// The state, whose last entry was `index`.
    ///
    /// # Errors
    /// If it is not whole, or another entry's.
    pub fn finish(self, index: u64) -> Result<Replicated<M>, Malformed> {
        let is_whole = self.has_head && self.rest.is_empty() && self.state.applied == index;
        is_whole.then_some(self.state).ok_or(Malformed)
    }
}
