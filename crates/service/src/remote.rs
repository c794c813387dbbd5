//! Calls whose other end is beyond this host.
//!
//! The hub knows no transport. A target that no application of this host serves is for the
//! transport: after all policies of the caller have passed the request, [`Hub::poll_remote`] hands
//! it out. What the transport hears from the other end it hands back,
//! and calls that come in as well; those go through the policies of the application that serves
//! them before it sees them.
//!
//! # The state of a call (ADR 22)
//!
//! A call that an application of this host makes is *ours* until [`Hub::poll_remote`] has given it
//! out: whatever ends it until then, it has not run. Then it is *with the transport*, which alone
//! says how it has ended. It is *done*, and forgotten here, when its end has been handed over, or
//! when one of its ends has given it up. What is said of a call that is done does nothing.
//!
//! # What is held
//!
//! Messages for the other end wait here until the transport takes them
//! ([`Hub::next_remote_item`]), which it does when the call's connection has room. The credit of a
//! stream bounds what waits of it (D8). If more than
//! [`beyond_bytes_max`](crate::ApplicationLimits) of one application wait, it is not heard for
//! [`RemoteLimits::pause`] at most; then the streams end in which most waits. Requests of unary
//! calls count until their calls end: beyond [`held_bytes_max`](crate::ApplicationLimits), no
//! further call leaves. In the other direction the transport asks [`Hub::has_room_for_remote`]
//! before it hands a message over, and is told by [`RemoteEvent::Room`] when to ask again.
//!
//! [`Hub::poll_remote`]: crate::Hub::poll_remote
//! [`Hub::next_remote_item`]: crate::Hub::next_remote_item
//! [`Hub::has_room_for_remote`]: crate::Hub::has_room_for_remote
//! [`RemoteEvent::Room`]: crate::RemoteEvent::Room
//! [`RemoteLimits::pause`]: crate::RemoteLimits::pause

mod handing;
mod incoming;
mod returned;
mod room;

pub use incoming::{Incoming, RemoteCaller, RouteIn};
