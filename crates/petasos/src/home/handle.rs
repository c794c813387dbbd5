//! What all clones of a channel share of its place in its loop.

use std::sync::Arc;

use petasos_rpc::settings::ChannelInfo;

use super::shared::{Letter, Shared};
use super::thread::LoopThread;

/// What all clones of a channel over datagrams share, on any thread.
pub(crate) struct ChannelShared {
    pub(crate) home: Arc<Shared>,
    /// The channel's number in its loop.
    pub(crate) channel: u32,
    pub(crate) info: Arc<ChannelInfo>,
    /// The thread that turns the loop, if no other does.
    pub(crate) thread: Option<Arc<LoopThread>>,
}

impl Drop for ChannelShared {
    fn drop(&mut self) {
        self.home.post(Letter::Close { channel: self.channel });
    }
}
