//! What all clones of a channel share.

use std::sync::Arc;

use petasos_rpc::settings::ChannelInfo;

use super::remote::KeepAlive;
use super::shared::{Command, Shared};

/// What all clones of a channel over datagrams share, on all threads.
pub struct ChannelShared {
    /// The part of the loop that other threads use.
    pub runtime: Arc<Shared>,
    /// The channel's number in its loop.
    pub channel: u32,
    /// The channel's servers and settings.
    pub info: Arc<ChannelInfo>,
    /// The thread that turns the loop, if the channel has to keep it running.
    pub thread: Option<KeepAlive>,
}

impl Drop for ChannelShared {
    fn drop(&mut self) {
        self.runtime.send(Command::Close { channel: self.channel });
    }
}
