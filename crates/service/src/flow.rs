//! Counts how much of a stream's messages the service holds (D8).
//!
//! The application may send as much as the service has granted, and receives more credit as the
//! other end takes its messages. The service delivers as much as the application has granted.
//! Further messages wait in the datapath.

use std::collections::VecDeque;

use petasos_abi::{Credit, Taken};

/// The messages of a stream between the service and an application.
#[derive(Debug)]
pub(crate) struct Flow {
    /// What the application may send.
    theirs: Credit,
    /// Bytes of its messages that the other end has not taken, in order.
    untaken: VecDeque<u32>,
    taken: Taken,
    /// What it may be given.
    pub(crate) ours: Credit,
}

impl Flow {
    pub(crate) fn new(grant_bytes: u64) -> Flow {
        let [theirs, ours] = [Credit::new(grant_bytes); 2];
        Flow { theirs, untaken: VecDeque::new(), taken: Taken::new(grant_bytes), ours }
    }

    /// The application has sent a message. Says whether it had the credit.
    pub(crate) fn receive(&mut self, bytes: u32) -> bool {
        // What was not granted is not counted either: nothing grows with it.
        if !self.theirs.may_send() {
            return false;
        }
        self.theirs.spend(bytes);
        self.untaken.push_back(bytes);
        true
    }

    /// The other end has taken the first message that it had not. Gives what is to be granted.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let grant = self.taken.add(self.untaken.pop_front()?)?;
        self.theirs.add(grant);
        Some(grant)
    }
}
