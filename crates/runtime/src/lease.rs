//! What a stream has of a session.

use petasos_endpoint::SessionId;

/// A slot in a session. Not given back, it is lost to the channel.
#[derive(Debug)]
#[must_use = "a slot has to be given back"]
pub(crate) struct Lease {
    pub(crate) channel: u32,
    pub(crate) number: u32,
    pub(crate) id: SessionId,
}
