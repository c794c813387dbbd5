//! Names of entries in a loop's tables.

use petasos_endpoint::SessionId;

/// The name of a call in its loop: its place in the table and the place's generation, in one word.
/// No other call of the loop has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey(u64);

impl CallKey {
    #[inline(always)]
    pub(crate) fn new(place: u32, generation: u32) -> CallKey {
        CallKey(u64::from(generation) << 32 | u64::from(place))
    }

    /// Its place in the table. A later call may have the same.
    #[inline(always)]
    pub(crate) fn place(self) -> u32 {
        self.0 as u32
    }

    /// Distinguishes it from earlier calls in its place.
    #[inline(always)]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The name of a session of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelSession {
    /// The channel's number in the loop.
    pub(crate) channel: u32,
    /// The session's number in the channel. A later session may have the same.
    pub(crate) number: u32,
    /// Its name in the endpoint, which is never used again.
    pub(crate) id: SessionId,
}
