//! What the backend keeps between two looks at its sockets.

use petasos_netio::Route;

use crate::name::BACKLOG;

/// Stands for the listening socket among the epoll descriptor's data; others are link indices.
pub(crate) const LISTENER: u64 = u64::MAX;

/// Events handled, and connections accepted, in one look; the rest waits for the next.
pub(crate) const EVENTS_MAX: usize = 16;

/// Looks after which all who wait in the listening socket's queue have been accepted or refused:
/// one more finds their links.
pub(crate) const LOOKS_FOR_CONNECTED: usize = BACKLOG as usize / EVENTS_MAX + 2;

/// When to try again to reach peers that are gone: after 1, 2, 4, … looks, at most this many.
const LOOKS_BETWEEN_TRIES_MAX: u32 = 1024;

#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Looks until the next try; only counted while a route has no link.
    pub(crate) wait: u32,
    /// How many to wait after a failure.
    interval: u32,
}

impl Retry {
    pub(crate) fn back_off(&mut self) {
        let interval = (2 * self.interval).clamp(1, LOOKS_BETWEEN_TRIES_MAX);
        *self = Retry { wait: interval, interval };
    }
}

/// Whom to tell of a lost route: see [`ShmIo::on_lost`].
pub(crate) struct OnLost(pub(crate) Box<dyn FnMut(Route) + Send>);
