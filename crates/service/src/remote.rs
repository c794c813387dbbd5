//! Calls whose other end is on another host.
//!
//! The hub knows no transport. If no application of this host serves a target, the call goes to the
//! transport: when the request has passed all policies of the caller, [`Hub::poll_remote`] returns
//! it. The transport gives the hub the messages from the other end, and calls from other hosts.
//! Such a call passes the policies of the application that serves it before the application sees
//! it.
//!
//! # The state of a call (ADR 22)
//!
//! A call that an application of this host makes is *ours* until [`Hub::poll_remote`] has returned
//! it. If it ends before, it has certainly not run. Then the call is *with the transport*, and only
//! the transport decides how it has ended. The call is *done* when its end has been delivered, or
//! when one of its ends has cancelled it. The hub then forgets it, and ignores everything that the
//! transport still reports about it.
//!
//! # Bounds
//!
//! Messages for the other end wait here until the transport takes them ([`Hub::next_remote_item`]),
//! which it does when the call's connection has room. The credit of a stream bounds its waiting
//! messages (D8). If the messages of an application exceed
//! [`beyond_bytes_max`](crate::ApplicationLimits), the hub first stops reading from the
//! application, for at most [`RemoteLimits::pause`]. Then it ends the streams with the most waiting
//! data. Requests of unary calls count until their calls end: beyond
//! [`held_bytes_max`](crate::ApplicationLimits), no further call leaves. In the other direction,
//! the transport asks [`Hub::has_room_for_remote`] before it passes on a message, and
//! [`RemoteEvent::Room`] tells it when to ask again.
//!
//! [`Hub::poll_remote`]: crate::Hub::poll_remote
//! [`Hub::next_remote_item`]: crate::Hub::next_remote_item
//! [`Hub::has_room_for_remote`]: crate::Hub::has_room_for_remote
//! [`RemoteEvent::Room`]: crate::RemoteEvent::Room
//! [`RemoteLimits::pause`]: crate::RemoteLimits::pause

mod handing;
mod incoming;
mod mirror;
mod returned;
mod room;
mod through;

pub use incoming::{Incoming, RouteIn};
