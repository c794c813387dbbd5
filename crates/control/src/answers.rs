//! Answers that were given, kept so that a repeated connect gets the same answer (C12).
//!
//! A client repeats a connect if the TCP connection broke before the answer reached it. It has at
//! most [`OUTSTANDING_MAX`] unanswered connects, and TCP loses only the end of a stream, so the
//! last [`OUTSTANDING_MAX`] answers are enough. Invariants: `order` and `entries` contain the same
//! ids; every reference in `sessions` leads to an entry.

use std::collections::BTreeMap;

use crate::{AcceptParams, OUTSTANDING_MAX, RefuseCode, SessionRef};

#[derive(Clone, Debug)]
struct Entry {
    serial: u64,
    client: SessionRef,
    result: Result<AcceptParams, RefuseCode>,
}

/// The last answers that this process gave to one incarnation of a peer.
///
/// They outlive a connection: see [`crate::Connection::inherit_answers`].
#[derive(Clone, Debug, Default)]
pub struct Answers {
    incarnation: Option<u64>,
    entries: BTreeMap<u64, Entry>,
    order: BTreeMap<u64, u64>,
    sessions: BTreeMap<SessionRef, u64>,
    next_serial: u64,
}

impl Answers {
    /// An empty set of answers to the process with this incarnation.
    pub(crate) fn to(incarnation: u64) -> Answers {
        Answers { incarnation: Some(incarnation), ..Answers::default() }
    }

    /// The incarnation of the process that was answered; `None` before its hello.
    pub fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// The answer that was given to `connect_id`, unless it was forgotten.
    pub fn get(&self, connect_id: u64) -> Option<Result<AcceptParams, RefuseCode>> {
        self.entries.get(&connect_id).map(|entry| entry.result)
    }

    /// Keeps an answer, and forgets the oldest one if there are too many.
    pub(crate) fn remember(
        &mut self,
        connect_id: u64,
        client: SessionRef,
        result: Result<AcceptParams, RefuseCode>,
    ) {
        self.remove(connect_id);
        if self.entries.len() == OUTSTANDING_MAX {
            let (_, &oldest) = self.order.first_key_value().expect("order holds every entry's id");
            self.remove(oldest);
        }
        if let Ok(grant) = &result {
            self.sessions.insert(client, connect_id);
            self.sessions.insert(grant.server_ref(), connect_id);
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        self.order.insert(serial, connect_id);
        self.entries.insert(connect_id, Entry { serial, client, result });
    }

    /// Forgets the answer that granted `session`, named by either end. The session is gone, so the
    /// answer would be wrong.
    pub(crate) fn forget(&mut self, session: &SessionRef) {
        if let Some(&connect_id) = self.sessions.get(session) {
            self.remove(connect_id);
        }
    }

    /// Adds the answers of `newer`.
    pub(crate) fn absorb(&mut self, newer: Answers) {
        for connect_id in newer.order.values() {
            let entry = &newer.entries[connect_id];
            self.remember(*connect_id, entry.client, entry.result);
        }
    }

    fn remove(&mut self, connect_id: u64) {
        let Some(entry) = self.entries.remove(&connect_id) else { return };
        self.order.remove(&entry.serial);
        let Ok(grant) = entry.result else { return };
        for session in [entry.client, grant.server_ref()] {
            if self.sessions.get(&session) == Some(&connect_id) {
                self.sessions.remove(&session);
            }
        }
    }
}
