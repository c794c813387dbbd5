//! A stream's slot in a session.

use super::keys::ChannelSession;

/// A slot in a session. If it is not given back, the channel loses it.
#[derive(Debug)]
#[must_use = "a slot has to be given back"]
pub(crate) struct Lease(pub(crate) ChannelSession);
