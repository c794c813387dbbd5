//! What the router decides and reports.

use petasos_base::Time;

use crate::worker::WorkerId;

/// A decision: what is to be sent or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// Send it to a worker.
    Give(Assignment<T>),
    /// Send a probe to a worker (RT22): it says nothing.
    Probe {
        /// Who.
        worker: WorkerId,
        /// The next number of the worker; told modulo [`GIVEN_NUMBERS`](crate::GIVEN_NUMBERS).
        number: u64,
    },
    /// Nobody will get it, and no worker has had it.
    Dropped(T, Refusal),
}

/// A request for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment<T> {
    /// The request's own.
    pub token: T,
    /// Who gets it.
    pub worker: WorkerId,
    /// The worker's first request has 1, the next one 2, and so on; told modulo
    /// [`GIVEN_NUMBERS`](crate::GIVEN_NUMBERS).
    pub number: u64,
}

/// What became of a request at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that is not admitted has to be answered"]
pub enum Admission<T> {
    /// It waits, perhaps for an instant only: [`poll`](crate::Router::poll) says who gets it.
    Admitted,
    /// It waits in the place of a less urgent one, which comes back. No worker has had that.
    Displaced(T),
    /// It comes back. No worker has had it.
    Refused(T, Refusal),
}

/// Why no worker gets a request. Its sender may try again elsewhere, and unless it has expired,
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many wait, and all of them are at least as urgent.
    Full,
    /// Its time is over.
    Expired,
    /// It has waited as long as requests may.
    Aged,
    /// There is no worker for it that will ever take more: none at all, or all drain.
    Nobody,
}

/// What has happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It does not answer, and gets nothing until it is heard (RT23). Its requests stay counted.
    Silent {
        /// Who.
        worker: WorkerId,
        /// How many numbers are outstanding.
        outstanding: u64,
    },
    /// A silent worker was heard.
    Heard {
        /// Who.
        worker: WorkerId,
    },
    /// It is no member any more: it had lost its connection and was not heard for a lease, was
    /// silent for too long, or has got none of its numbers for so long that it could not take them
    /// any more (RT23). If it has a connection, it is to be told to leave (RT35).
    Gone {
        /// Who.
        worker: WorkerId,
        /// How many numbers were outstanding. Whether these requests have run is not known.
        outstanding: u64,
    },
    /// It has left, and had nothing outstanding.
    Left {
        /// Who.
        worker: WorkerId,
    },
    /// It takes no more, and has nothing outstanding.
    Drained {
        /// Who.
        worker: WorkerId,
    },
    /// It has failed too much, and gets nothing for a while.
    Ejected {
        /// Who.
        worker: WorkerId,
        /// Until when.
        until: Time,
    },
    /// Its ejection is over.
    Restored {
        /// Who.
        worker: WorkerId,
    },
}

/// How often something has happened, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub requests: u64,
    /// Requests that were given to a worker.
    pub given: u64,
    /// Numbers that were settled, as far as workers have told: requests and probes.
    pub settled: u64,
    /// Messages of workers that were heeded.
    pub feedback: u64,
    /// Probes.
    pub probes: u64,
    /// Requests that were refused because too many waited, or that gave way to more urgent ones.
    pub overflowed: u64,
    /// Requests that nobody will ever take, or would have.
    pub unwanted: u64,
    /// Requests whose time was over.
    pub expired: u64,
    /// Requests that have waited as long as they may.
    pub aged: u64,
    /// Numbers that were outstanding at workers whose membership has ended.
    pub abandoned: u64,
    /// Messages of workers that are no members.
    pub from_strangers: u64,
    /// Messages that are not newer than the newest.
    pub stale: u64,
    /// Messages with counts that cannot be.
    pub wrong_counts: u64,
    /// How often a worker became silent.
    pub silences: u64,
    /// Ejections.
    pub ejections: u64,
}
