//! What takes calls beyond a hub, and what it is told.

use std::collections::VecDeque;

use petasos_base::Time;

use crate::host::HubId;
use crate::remote_calls::RemoteCall;

/// What a carrier is to do next.
pub(crate) enum Queued {
    Begin(RemoteCall),
    Ready(RemoteCall),
    Cancel(RemoteCall),
    Room(RemoteCall),
}

/// What takes a call beyond this hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// To or from another host.
    Transport,
    /// To or from another hub of this host.
    Hub(HubId),
    /// From a policy that copies a request: nobody is told what comes of it. Until then it is
    /// cancelled, and so many bytes it has.
    Nobody { until: Time, bytes: u32 },
}

impl Carrier {
    /// The index of its queue, if it is told anything.
    const fn queue(self) -> Option<usize> {
        match self {
            Carrier::Transport => Some(0),
            Carrier::Hub(_) => Some(1),
            Carrier::Nobody { .. } => None,
        }
    }
}

/// Queues something for a carrier.
pub(crate) fn tell(queues: &mut [VecDeque<Queued>; 2], carrier: Carrier, what: Queued) {
    if let Some(queue) = carrier.queue() {
        queues[queue].push_back(what);
    }
}
