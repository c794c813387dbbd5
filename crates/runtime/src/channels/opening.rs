//! Sessions that are being opened, and how far they are.

use std::net::SocketAddr;

use petasos_call::channel::PeerIndex;
use petasos_endpoint::{GroupId, SessionId};

/// A session that is being opened.
pub(crate) struct Opening {
    pub(crate) channel: u32,
    pub(crate) peer: PeerIndex,
    pub(crate) address: SocketAddr,
    pub(crate) slots: u32,
    pub(crate) step: Step,
}

/// How far a session has been opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The endpoint is to be asked.
    Ask,
    /// The session is connecting.
    Session(SessionId),
    /// A group is waited for, or dialled.
    Group(GroupStep),
}

impl Opening {
    /// Whether the endpoint itself is needed, between turns.
    pub(crate) fn needs_endpoint(&self) -> bool {
        match self.step {
            Step::Ask => true,
            Step::Session(_) => false,
            Step::Group(step) => step.needs_endpoint(),
        }
    }

    /// The session that is being opened, if it is to be closed with the channel.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.step {
            Step::Ask => None,
            Step::Session(session) => Some(session),
            Step::Group(step) => step.router(),
        }
    }
}

/// How far an attachment has become a session of its channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupStep {
    /// No router has granted an attachment that can be used.
    Attach(GroupId),
    /// The attachment's router is to be dialled.
    Dial(SessionId, SocketAddr),
    /// The session with the router is connecting.
    Router(SessionId, SessionId),
}

impl GroupStep {
    pub(super) fn needs_endpoint(self) -> bool {
        matches!(self, GroupStep::Dial(..))
    }

    /// The session with the router.
    pub(super) fn router(self) -> Option<SessionId> {
        match self {
            GroupStep::Router(_, router) => Some(router),
            GroupStep::Attach(_) | GroupStep::Dial(..) => None,
        }
    }
}
