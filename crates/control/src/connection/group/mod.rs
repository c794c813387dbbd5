//! Attachments, memberships and places: what a connection keeps of them (RT33 to RT37).
//!
//! The dialler is the client or the worker, the acceptor the router. Which messages of a router may
//! follow which is the affair of `order`; this module has what is asked in either direction.
//! Nothing of it outlives the connection (RT35).

mod command;
mod event;
mod order;
mod receive;

use std::collections::{BTreeMap, BTreeSet};

use super::{Connection, Event};
use crate::config::OUTSTANDING_MAX;
use crate::error::ConnectFailure;
use crate::message::Message;
use crate::version::Version;
use crate::{AttachGrant, Capabilities, GroupMessage, JoinGrant, Leave, Text};

pub use event::{GroupEvent, JoinFailure};
use order::Order;

/// The version that introduced groups.
const SINCE: Version = Version { major: 1, minor: 4 };

/// What a process asks a router for, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ask {
    Attach(u64),
    Join(u64),
    Place(u64),
}

/// What an answer may not exceed.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    payload_bytes_max: u16,
    asked_max: u32,
}

/// What a connection has to do with a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// This process's attempts that the router has not answered.
    asked: BTreeMap<Ask, Wish>,
    /// The peer's attempts that this process, the router, has not answered.
    requested: BTreeMap<Ask, Wish>,
    /// This process's leaves that the peer has not confirmed.
    leaving: BTreeSet<Leave>,
    order: Order,
}

impl Groups {
    /// How many requests of this process are unanswered.
    pub(super) fn unanswered(&self) -> usize {
        self.asked.len() + self.leaving.len()
    }

    /// Whether there is an unanswered join, in either direction.
    fn has_joins(&self) -> bool {
        let joins = Ask::Join(0)..=Ask::Join(u64::MAX);
        self.asked.range(joins.clone()).chain(self.requested.range(joins)).next().is_some()
    }
}

impl Connection {
    /// Whether both processes have groups, in a version that knows them.
    pub fn knows_groups(&self) -> bool {
        let has = |hello: &crate::Hello| hello.capabilities.contains(Capabilities::GROUPS);
        self.version().is_some_and(|version| version >= SINCE)
            && has(&self.ours)
            && self.peer.as_ref().is_some_and(has)
    }

    fn send_group(&mut self, message: GroupMessage) {
        self.send(&Message::Group(message));
    }

    /// Whether this process has as many requests unanswered as it may have (C8).
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() + self.groups.unanswered() >= OUTSTANDING_MAX
    }

    /// Whether the peer has as many requests unanswered as it may have (C8).
    pub(super) fn is_full_of_peers(&self) -> bool {
        self.pending.len() + self.groups.requested.len() >= OUTSTANDING_MAX
    }

    /// Ends all attempts, each with one event.
    pub(super) fn end_groups(&mut self, failure: ConnectFailure) {
        let groups = core::mem::take(&mut self.groups);
        for ask in groups.asked.into_keys() {
            let event = match ask {
                Ask::Attach(id) => GroupEvent::AttachAnswered { id, result: Err(failure) },
                Ask::Place(id) => GroupEvent::PlaceAnswered { id, result: Err(failure) },
                Ask::Join(id) => {
                    let failure = JoinFailure { reason: failure, detail: Text::default() };
                    GroupEvent::JoinAnswered { id, result: Err(failure) }
                }
            };
            self.events.push_back(Event::Group(event));
        }
    }
}

/// Checks that an attachment exceeds nothing that was asked. The error names the field.
fn check_attached(wish: &Wish, grant: &AttachGrant) -> Result<(), &'static str> {
    if grant.payload_bytes > wish.payload_bytes_max {
        return Err("payload_bytes");
    }
    if grant.asked_max > wish.asked_max {
        return Err("asked_max");
    }
    Ok(())
}

/// Checks that a membership exceeds nothing that was asked. The error names the field.
fn check_joined(wish: &Wish, grant: &JoinGrant) -> Result<(), &'static str> {
    if grant.payload_bytes > wish.payload_bytes_max {
        return Err("payload_bytes");
    }
    Ok(())
}
