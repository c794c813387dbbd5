//! The order to end a server.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Ends a server: all clones are the same order.
#[derive(Clone, Debug, Default)]
pub struct Drain(watch::Sender<Option<Instant>>);

impl Drain {
    /// Not given yet.
    pub fn new() -> Drain {
        Drain::default()
    }

    /// Gives the order: connections are accepted no more, clients are told to begin no calls
    /// (GOAWAY), and what runs `grace` later is ended. Given again it changes nothing.
    pub fn start(&self, grace: Duration) {
        let end = Instant::now() + grace;
        self.0.send_if_modified(|order| order.is_none() && order.replace(end).is_none());
    }

    /// Whether it was given.
    pub fn is_started(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the order, and gives when calls end.
    pub(crate) async fn started(self) -> Instant {
        let mut order = self.0.subscribe();
        let given = order.wait_for(Option::is_some).await.expect("the sender lives as long");
        given.expect("that is what was waited for")
    }
}
