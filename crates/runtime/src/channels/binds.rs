//! What a session knows about services (R3), and binds under way.

use petasos_base::Time;
use petasos_call::{BoundMethod, Status};

use super::{Bind, ChannelEntry};
use crate::keys::ChannelSession;

/// A bind or probe under way.
pub(crate) struct Asked {
    pub(crate) session: ChannelSession,
    /// The service's number in the channel; `None` for a probe.
    pub(crate) service: Option<u32>,
    pub(crate) since: Time,
}

/// What to do next with a call that has a slot.
pub(crate) enum NextStep {
    Send(BoundMethod),
    /// Bind the service first.
    Bind,
    Fail(Status),
}

impl ChannelEntry {
    /// What to do next with a call of this method.
    #[inline]
    pub(crate) fn next_step(&mut self, number: u32, service: u32, method: u16) -> NextStep {
        let session = self.sessions[number as usize].as_mut().expect("who has a slot knows it");
        match session.binds.get(service as usize) {
            Some(Bind::Known(agreement)) => match agreement.method(method) {
                Ok(bound) => NextStep::Send(bound),
                Err(status) => NextStep::Fail(status),
            },
            Some(Bind::Asked | Bind::Unasked) | None => NextStep::Bind,
        }
    }
}
