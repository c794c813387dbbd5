//! What a stream has of a session.

use super::keys::ChannelSession;

/// A slot in a session. Not given back, it is lost to the channel.
#[derive(Debug)]
#[must_use = "a slot has to be given back"]
pub(crate) struct Lease(pub(crate) ChannelSession);
