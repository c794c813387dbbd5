//! Which of what applications serve others than this host's can call.
//!
//! The transport publishes what is served, in the first runtime. An application is told that it
//! serves only when others can call it.

use petasos_base::sync::{AtomicU64, Ordering};

/// As of which count of the host's changes the transport has published.
#[derive(Default)]
pub struct Published {
    /// One more than the count; 0 while there is no transport.
    seen: AtomicU64,
}

impl Published {
    /// There is a transport, which has published nothing yet: nothing was served.
    pub fn begin(&self) {
        self.seen.fetch_max(1, Ordering::Release);
    }

    /// What was served at this count of changes is published. Says whether that is new.
    pub fn note(&self, changes: u64) -> bool {
        self.seen.swap(changes + 1, Ordering::Release) != changes + 1
    }

    /// Whether all is published that was served at this count of changes.
    pub fn is_published(&self, changes: u64) -> bool {
        let seen = self.seen.load(Ordering::Acquire);
        seen == 0 || seen > changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_told_when_it_is_published_or_nobody_publishes() {
        let published = Published::default();
        assert!(published.is_published(7), "there is no transport");
        published.begin();
        assert!(published.is_published(0), "nothing is served yet");
        assert!(!published.is_published(1));
        assert!(published.note(3));
        assert!(!published.note(3), "it was told");
        assert!(published.is_published(3) && !published.is_published(4));
    }
}
