//! State that the backend keeps from one look at its sockets to the next.

use petasos_netio::Route;

use crate::name::BACKLOG;

/// Marks the listening socket in epoll's event data; other values are link indices.
pub(crate) const LISTENER: u64 = u64::MAX;

/// The most events handled, and connections accepted, in one look; the rest waits for the next.
pub(crate) const EVENTS_MAX: usize = 16;

/// After this many looks, all connections that waited in the listening socket's queue have been
/// accepted or refused, and one more look finds their links.
pub(crate) const LOOKS_FOR_CONNECTED: usize = BACKLOG as usize / EVENTS_MAX + 2;

/// Peers that are gone are tried again after 1, 2, 4, … looks, at most this many.
const LOOKS_BETWEEN_TRIES_MAX: u32 = 1024;

#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Looks until the next try; only counted while a route has no link.
    pub(crate) wait: u32,
    /// How many looks to wait after a failure.
    interval: u32,
}

impl Retry {
    pub(crate) fn back_off(&mut self) {
        let interval = (2 * self.interval).clamp(1, LOOKS_BETWEEN_TRIES_MAX);
        *self = Retry { wait: interval, interval };
    }
}

/// The callback for lost routes: see [`ShmIo::on_lost`].
pub(crate) struct OnLost(pub(crate) Box<dyn FnMut(Route) + Send>);
