//! What the protocol has for the packet I/O to do beside packets, at the end of a turn.
//!
//! Paths in doubt (ADR 14): where packets of full size vanish and are repeated, they are cut for
//! [`DOUBT`], by backends that can. Then they go whole again; if they still vanish, the doubt comes
//! back within two timeouts. One time for all routes keeps it short for each.

use core::time::Duration;

use petasos_base::Time;
use petasos_netio::Route;
use petasos_wire::PAYLOAD_BYTES_MIN;

use super::Core;

/// How long packets are cut before they go whole again: long enough that finding out anew costs
/// little, short enough that nobody gains by causing it.
const DOUBT: Duration = Duration::from_secs(10);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// See [`petasos_netio::PacketIo::release_route`].
    Release(Route),
    /// See [`petasos_netio::PacketIo::doubt_path`].
    DoubtPath(Route),
    /// See [`petasos_netio::PacketIo::trust_paths`].
    TrustPaths,
}

impl<S> Core<S> {
    /// Packets of full size seem to vanish on `route`.
    #[cold]
    pub(crate) fn doubt_path(&mut self, route: Route) {
        if self.trust_at == Time::NEVER {
            self.trust_at = self.now.plus_nanos(DOUBT.as_nanos() as u64);
        }
        self.chores.push(Chore::DoubtPath(route));
    }

    /// The time of doubts is over.
    #[cold]
    pub(crate) fn trust_paths(&mut self) {
        self.trust_at = Time::NEVER;
        self.chores.push(Chore::TrustPaths);
    }

    /// A server session's client has asked for packets `start..end` of the response to `request`:
    /// again, if an earlier one reached as far.
    pub(crate) fn note_pulled(&mut self, index: u32, request: u64, (start, end): (u32, u32)) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let (of, reached) = entry.pulled_to;
        let before = if of == request { reached } else { 0 };
        entry.pulled_to = (request, before.max(end));
        let route = entry.route;
        if start < before {
            self.doubt_path(route);
        }
    }

    /// A server session's client has not got the response's only packet, or its first.
    pub(crate) fn note_repeated(&mut self, index: u32, slot: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let long = entry.session.kept_mut(slot).len() > PAYLOAD_BYTES_MIN as usize;
        let route = entry.route;
        if long {
            self.doubt_path(route);
        }
    }
}
