//! A log that nobody writes: it is as durable as a majority of processes.

use std::collections::VecDeque;

use petasos_raft::{MemberId, Replica, Write};

use super::{Ended, Log};

/// A log in memory. What is written counts at once.
#[derive(Debug, Default)]
pub struct MemoryLog {
    ended: VecDeque<Ended>,
}

impl Log for MemoryLog {
    fn write(&mut self, write: Write, _: &Replica) {
        self.ended.push_back(match write {
            Write::HardState { token, .. }
            | Write::Truncate { token, .. }
            | Write::Reset { token, .. } => Ended::Done(token),
            Write::Append { last, .. } => Ended::Appended(last),
        });
    }

    fn can_fetch(&self) -> bool {
        false
    }

    /// What is not in the replica's memory is nowhere: the follower gets a snapshot.
    fn fetch(&mut self, to: MemberId, _: u64) {
        self.ended.push_back(Ended::Fetched(to, Vec::new()));
    }

    fn compact(&mut self, _: u64) {}

    fn next(&mut self, _: &Replica) -> Option<Ended> {
        self.ended.pop_front()
    }
}
