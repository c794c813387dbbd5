//! A signal that shuts a server down.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Shuts a server down. Clones are the same signal.
#[derive(Clone, Debug, Default)]
pub struct Drain(watch::Sender<Option<Instant>>);

impl Drain {
    /// A signal that has not been given yet.
    pub fn new() -> Drain {
        Drain::default()
    }

    /// Starts the shutdown: no more connections are accepted, clients are told to begin no calls
    /// (GOAWAY), and calls that still run after `grace` are ended. A second call has no effect.
    pub fn start(&self, grace: Duration) {
        let end = Instant::now() + grace;
        self.0.send_if_modified(|order| order.is_none() && order.replace(end).is_none());
    }

    /// Whether the shutdown has started.
    pub fn is_started(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the shutdown to start, and returns when calls are to be ended.
    pub(crate) async fn started(self) -> Instant {
        let mut order = self.0.subscribe();
        let given = order.wait_for(Option::is_some).await.expect("the sender lives as long");
        given.expect("that is what was waited for")
    }
}
