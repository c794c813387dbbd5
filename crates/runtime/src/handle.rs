//! What all clones of a channel share of its place in its loop.

use std::sync::Arc;

use petasos_rpc::settings::ChannelInfo;

use super::remote::KeepAlive;
use super::shared::{Command, Shared};

/// What all clones of a channel over datagrams share, on any thread.
pub struct ChannelShared {
    /// What other threads touch of the loop.
    pub runtime: Arc<Shared>,
    /// The channel's number in its loop.
    pub channel: u32,
    /// What is known of the channel.
    pub info: Arc<ChannelInfo>,
    /// The thread that turns the loop, if no other does.
    pub thread: Option<KeepAlive>,
}

impl Drop for ChannelShared {
    fn drop(&mut self) {
        self.runtime.send(Command::Close { channel: self.channel });
    }
}
