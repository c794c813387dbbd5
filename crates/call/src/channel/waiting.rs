//! The FIFO queue of waiting calls.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use petasos_base::Time;

use super::CallOptions;

/// A waiting call. A channel never reuses a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The queue's data about a waiting call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub call: CallOptions,
    pub since: Time,
}

/// The queue. Tickets count up, so a ticket's position is its distance from the first ticket.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Calls that have left from the middle are `None`; the first entry never is.
    queue: VecDeque<Option<Waiter>>,
    /// The ticket of the first entry.
    first: u64,
    live: usize,
    /// Deadlines, including those of calls that have left, which are skipped.
    deadlines: BinaryHeap<Reverse<(Time, u64)>>,
    /// All calls before this ticket wait for servers to become ready.
    patient_before: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn first(&self) -> Option<&Waiter> {
        self.queue.front().and_then(Option::as_ref)
    }

    pub(super) fn push(&mut self, waiter: Waiter) -> Ticket {
        let ticket = self.first + self.queue.len() as u64;
        if waiter.call.deadline != Time::NEVER {
            self.deadlines.push(Reverse((waiter.call.deadline, ticket)));
        }
        self.queue.push_back(Some(waiter));
        self.live += 1;
        Ticket(ticket)
    }

    pub(super) fn pop_first(&mut self) -> Option<Ticket> {
        let ticket = Ticket(self.first);
        self.remove(ticket).then_some(ticket)
    }

    /// Removes a call; false if it is not in the queue.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let place = self.place(ticket.0).and_then(|at| self.queue[at].take());
        let found = place.is_some();
        self.live -= usize::from(found);
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
        }
        self.forget_deadlines();
        found
    }

    /// Removes a call whose deadline has passed.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<Ticket> {
        while let Some(&Reverse((deadline, ticket))) = self.deadlines.peek() {
            if deadline > now {
                return None;
            }
            self.deadlines.pop();
            if self.remove(Ticket(ticket)) {
                return Some(Ticket(ticket));
            }
        }
        None
    }

    /// The earliest deadline, possibly of a call that has left.
    pub(super) fn next_deadline(&self) -> Time {
        self.deadlines.peek().map_or(Time::NEVER, |&Reverse((deadline, _))| deadline)
    }

    /// Removes a call that does not wait for servers to become ready. While servers fail, no such
    /// call is added, so each entry is checked only once.
    pub(super) fn pop_impatient(&mut self) -> Option<Ticket> {
        let end = self.first + self.queue.len() as u64;
        for ticket in self.patient_before.max(self.first)..end {
            self.patient_before = ticket + 1;
            let at = self.place(ticket).expect("within the queue");
            if self.queue[at].is_some_and(|waiter| !waiter.call.wait_for_ready) {
                self.remove(Ticket(ticket));
                return Some(Ticket(ticket));
            }
        }
        None
    }

    /// Servers have begun to fail: all entries must be checked.
    pub(super) fn on_failing(&mut self) {
        self.patient_before = self.first;
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        let at = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        (at < self.queue.len()).then_some(at)
    }

    /// Keeps the heap's length within twice the number of waiting calls.
    fn forget_deadlines(&mut self) {
        if self.deadlines.len() <= 2 * self.live + 64 {
            return;
        }
        let mut kept = core::mem::take(&mut self.deadlines).into_vec();
        kept.retain(|Reverse((_, ticket))| {
            self.place(*ticket).is_some_and(|at| self.queue[at].is_some())
        });
        self.deadlines = kept.into();
    }
}
