//! This process's requests that the peer has not answered (C8).
//!
//! A connect that has timed out stays here as *abandoned* until its late answer arrives: the peer
//! still owes that answer, and a session that it grants has to be given back. Invariants:
//! `deadlines` contains exactly the attempts that are still waited for; there are at most
//! [`OUTSTANDING_MAX`](crate::OUTSTANDING_MAX) entries, together with those of groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petasos_base::Time;

use crate::{ConnectParams, SessionRef};

#[derive(Clone, Debug)]
struct Attempt {
    params: ConnectParams,
    /// `None` once abandoned.
    deadline: Option<Time>,
}

/// How to begin an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Send a connect.
    Send,
    /// Send nothing: the peer still owes the answer to an abandoned attempt with this id.
    Resume,
    /// Refuse: the id is in use.
    IdInUse,
    /// Refuse: there is no room.
    Full,
}

/// Requests on a connection that ended, with unknown outcomes.
#[derive(Debug, Default)]
pub struct Unanswered {
    /// Connects with their ids.
    pub connects: Vec<(u64, ConnectParams)>,
    /// Sessions that were to be closed, as references to the peer's ends.
    pub disconnects: VecDeque<SessionRef>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    connects: BTreeMap<u64, Attempt>,
    deadlines: BTreeSet<(Time, u64)>,
    disconnects: BTreeSet<SessionRef>,
}

impl Requests {
    pub(crate) fn len(&self) -> usize {
        self.connects.len() + self.disconnects.len()
    }

    /// What [`Requests::begin`] would have to do; `is_full` says that there is no room for another
    /// request.
    pub(crate) fn plan(&self, id: u64, params: &ConnectParams, is_full: bool) -> Begin {
        match self.connects.get(&id) {
            Some(attempt) if attempt.deadline.is_none() && attempt.params == *params => {
                Begin::Resume
            }
            Some(_) => Begin::IdInUse,
            None if is_full => Begin::Full,
            None => Begin::Send,
        }
    }

    /// Waits for the answer to `id` until `deadline`.
    pub(crate) fn begin(&mut self, id: u64, params: ConnectParams, deadline: Time) {
        self.connects.insert(id, Attempt { params, deadline: Some(deadline) });
        self.deadlines.insert((deadline, id));
    }

    /// The parameters of attempt `id`, whether it is waited for or abandoned.
    pub(crate) fn params(&self, id: u64) -> Option<&ConnectParams> {
        self.connects.get(&id).map(|attempt| &attempt.params)
    }

    /// Ends attempt `id`. Returns true if it was still waited for.
    pub(crate) fn finish(&mut self, id: u64) -> bool {
        let deadline = self.connects.remove(&id).and_then(|attempt| attempt.deadline);
        deadline.is_some_and(|deadline| self.deadlines.remove(&(deadline, id)))
    }

    /// Abandons an attempt whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Time) -> Option<u64> {
        let &(deadline, id) = self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.deadlines.pop_first();
        let attempt = self.connects.get_mut(&id).expect("a deadline belongs to an attempt");
        attempt.deadline = None;
        Some(id)
    }

    pub(crate) fn next_timeout(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |&(deadline, _)| deadline)
    }

    /// Waits for the answer to a disconnect. Returns false if that answer is already waited for.
    pub(crate) fn begin_disconnect(&mut self, session: SessionRef) -> bool {
        self.disconnects.insert(session)
    }

    /// Whether the answer to a disconnect is waited for.
    pub(crate) fn disconnects(&self, session: &SessionRef) -> bool {
        self.disconnects.contains(session)
    }

    /// Ends the wait for a disconnect's answer. Returns false if there is none.
    pub(crate) fn finish_disconnect(&mut self, session: &SessionRef) -> bool {
        self.disconnects.remove(session)
    }

    /// Stops waiting for all answers. Returns the attempts that were waited for, in the order of
    /// their ids. The requests are kept for [`Requests::into_unanswered`].
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.deadlines.clear();
        let waited_for = |(id, attempt): (&u64, &mut Attempt)| attempt.deadline.take().map(|_| *id);
        self.connects.iter_mut().filter_map(waited_for).collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn into_unanswered(self) -> Unanswered {
        let connects = self.connects.into_iter().map(|(id, attempt)| (id, attempt.params));
        let disconnects = self.disconnects.into_iter().collect();
        Unanswered { connects: connects.collect(), disconnects }
    }
}
