//! The sockets that epoll watches, and the events that it watches for.
//!
//! All sockets are watched edge-triggered, so the set of events for a socket never changes. The
//! code that receives an edge has to remember it until it has exhausted the socket.

use std::os::fd::{AsFd, OwnedFd};

use petasos_netio::SetupError;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::connections::Token;

/// Marks the listening socket in epoll's events. No connection has this token: there are fewer.
pub(crate) const LISTENER: u64 = u64::MAX;

/// The most events taken at once; the rest waits for the next time.
pub(crate) const EVENTS_MAX: usize = 64;

/// A backend that spins looks at the sockets that have nothing to read once in this many receives.
pub(crate) const LOOK_INTERVAL_TURNS: u32 = 1024;

/// Any of these means that something can be read, be it the connection's end.
pub(crate) const READABLE: EventFlags = EventFlags::IN.union(HANGS_UP);

/// After any of these, the peer sends nothing more.
pub(crate) const HANGS_UP: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// Makes an epoll descriptor that watches the listening socket.
pub(crate) fn watch_listener(listener: &impl AsFd) -> Result<OwnedFd, SetupError> {
    let failed = |attempt| move |error: Errno| SetupError::System { attempt, error: error.into() };
    let epoll =
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("make an epoll descriptor"))?;
    let data = EventData::new_u64(LISTENER);
    epoll::add(&epoll, listener, data, EventFlags::IN | EventFlags::ET)
        .map_err(failed("watch the listening socket"))?;
    Ok(epoll)
}

/// Watches a connection for everything.
pub(crate) fn watch(epoll: &OwnedFd, socket: &impl AsFd, token: Token) -> Result<(), Errno> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(token.0), flags)
}
