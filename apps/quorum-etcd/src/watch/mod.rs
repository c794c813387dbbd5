//! The service Watch.
//!
//! A stream's watches are told what the feed has, each from where it is. Nothing is kept for a
//! client that does not read: its stream goes on when it reads, and then asks the member for what
//! the feed has no more.

mod feed;
mod stream;
mod watcher;

use std::sync::Arc;

use petasos::{Sender, Status, Streaming};

use crate::api;
use crate::group::Group;
pub(crate) use crate::watch::feed::Feed;
use crate::watch::stream::Stream;

pub(crate) struct Watches {
    pub group: Group,
    pub feed: Arc<Feed>,
}

impl api::Watch for Watches {
    async fn watch(
        &self,
        mut requests: Streaming<api::WatchRequest>,
        responses: Sender<api::WatchResponse>,
    ) -> Result<(), Status> {
        let mut stream = Stream::new(self.group.clone(), self.feed.clone(), responses);
        stream.run(&mut requests).await
    }
}
