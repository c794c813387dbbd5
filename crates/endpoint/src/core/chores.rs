//! The protocol's work with the packet I/O besides packets, at the end of a turn.
//!
//! Paths in doubt (ADR 14): where full-size packets get lost and are repeated, backends that can do
//! so have them fragmented for [`DOUBT`]. Then they are sent unfragmented again; if they still get
//! lost, the doubt returns within two timeouts. All routes share one end of doubts, which keeps it
//! short for each.

use core::time::Duration;

use petasos_base::Time;
use petasos_netio::Route;
use petasos_wire::PAYLOAD_BYTES_MIN;

use super::Core;

/// How long packets are fragmented before they are sent unfragmented again: long enough that
/// finding out again costs little, short enough that nobody gains by causing it.
const DOUBT: Duration = Duration::from_secs(10);

/// A piece of that work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// See [`petasos_netio::PacketIo::release_route`].
    Release(Route),
    /// See [`petasos_netio::PacketIo::doubt_path`].
    DoubtPath(Route),
    /// See [`petasos_netio::PacketIo::trust_paths`].
    TrustPaths,
    /// First packets have come from clients of groups that have no route yet.
    MeetStrangers,
}

impl<S> Core<S> {
    /// Notes that full-size packets seem to get lost on `route`.
    #[cold]
    pub(crate) fn doubt_path(&mut self, route: Route) {
        if self.trust_at == Time::NEVER {
            self.trust_at = self.now.plus_nanos(DOUBT.as_nanos() as u64);
        }
        self.chores.push(Chore::DoubtPath(route));
    }

    /// Ends all doubts.
    #[cold]
    pub(crate) fn trust_paths(&mut self) {
        self.trust_at = Time::NEVER;
        self.chores.push(Chore::TrustPaths);
    }

    /// Notes that a server session's client has asked for packets `start..end` of the response to
    /// `request`. If an earlier pull reached as far, it has asked again.
    pub(crate) fn note_pulled(&mut self, index: u32, request: u64, (start, end): (u32, u32)) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let (is_again, route) = (entry.pulls.note(request, (start, end)), entry.route);
        if is_again {
            self.doubt_path(route);
        }
    }

    /// Notes that a server session's client has not received the response's only packet, or its
    /// first.
    pub(crate) fn note_repeated(&mut self, index: u32, slot: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let long = entry.session.kept_mut(slot).len() > PAYLOAD_BYTES_MIN as usize;
        let route = entry.route;
        if long {
            self.doubt_path(route);
        }
    }
}
