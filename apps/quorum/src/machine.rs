//! What a group replicates (QR22, QR23).

use thiserror::Error;

/// Where a command stands in the log, and when, by the replicated clock (QR12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The entry's place.
    pub index: u64,
    /// Which of the entry's commands it is.
    pub position: u16,
    /// The replicated clock, in milliseconds.
    pub time_ms: u64,
}

impl At {
    /// A number that no other command of the group has. Later ones have larger ones.
    pub fn number(self) -> u64 {
        self.index << 16 | u64::from(self.position)
    }
}

/// Bytes that are no command, query or part of a snapshot of this machine: their sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are not what this state machine reads")]
pub struct Malformed;

/// A state that commands change, in their order, and in the same way on all replicas (QR22): what
/// follows depends on the state, the command and [`At`] alone.
///
/// A snapshot is taken beside commands (QR21): [`freeze`](StateMachine::freeze) fixes the state as
/// it is, [`frozen`](StateMachine::frozen) gives it record by record, while commands go on.
pub trait StateMachine {
    /// Looks at a command before it is proposed: how many bytes it may add to the state at most.
    ///
    /// # Errors
    /// If it cannot be read.
    fn check(&self, command: &[u8]) -> Result<usize, Malformed>;

    /// How many bytes may still be added.
    fn room(&self) -> usize;

    /// Does a command, and writes its result. One that cannot be read changes nothing, and has an
    /// empty result.
    fn apply(&mut self, at: At, command: &[u8], result: &mut Vec<u8>);

    /// The clock has moved, before the commands of an entry are done.
    fn tick(&mut self, at: At);

    /// Whether something in the state ends when the clock says so.
    fn needs_clock(&self) -> bool {
        false
    }

    /// Answers a query.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, query: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed>;

    /// A digest of the state, the same on all replicas that have applied the same (QR23).
    fn digest(&self) -> u128;

    /// Begins a snapshot of the state as it is. An earlier one that has not ended is given up.
    fn freeze(&mut self);

    /// Appends the next record of the snapshot. Whether there was one: after the last one, the
    /// snapshot has ended.
    fn frozen(&mut self, record: &mut Vec<u8>) -> bool;

    /// Takes a record of a snapshot, into a state that is empty at first.
    ///
    /// # Errors
    /// If it is none: the state is to be thrown away.
    fn load(&mut self, record: &[u8]) -> Result<(), Malformed>;
}
