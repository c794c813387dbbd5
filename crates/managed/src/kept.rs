//! Messages that the application reads in the receive heap, where the service has put them.
//!
//! Such a message is [`Bytes`], on any thread. When its last owner drops it, this module notes its
//! place and wakes the loop, and the loop returns the place to the service (D9).
//!
//! Invariant: each noted place was handed out, and no slice of it is left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use petasos_abi::Contents;
use petasos_endpoint::Notifier;
use petasos_shm::ReceivedSlice;

/// What is handed out and comes back. It belongs to the loop's thread.
pub(crate) struct KeptMessages {
    shared: Arc<Shared>,
    /// Handed out, and not taken back here.
    bytes: u64,
    /// That may be handed out at a time.
    bytes_max: u64,
}

struct Shared {
    dropped: Mutex<Vec<Contents>>,
    notifier: Notifier,
}

impl Shared {
    /// Nothing panics while it is locked.
    fn dropped(&self) -> MutexGuard<'_, Vec<Contents>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that is read where it lies, until it is dropped.
struct Kept {
    /// There until then.
    slice: Option<ReceivedSlice>,
    contents: Contents,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.slice.as_ref().map_or(&[], ReceivedSlice::as_ref)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The service may write there as soon as the loop knows.
        drop(self.slice.take());
        self.shared.dropped().push(self.contents);
        self.shared.notifier.notify();
    }
}

impl KeptMessages {
    /// At most so many bytes are handed out at a time: more would leave the service no memory to
    /// hand other messages over in. `notifier` makes the loop turn.
    pub(crate) fn new(bytes_max: u64, notifier: Notifier) -> KeptMessages {
        let shared = Shared { dropped: Mutex::default(), notifier };
        KeptMessages { shared: Arc::new(shared), bytes: 0, bytes_max }
    }

    /// Whether this message may be handed out, too.
    pub(crate) fn has_room(&self, contents: Contents) -> bool {
        self.bytes + u64::from(contents.bytes) <= self.bytes_max
    }

    /// Hands a message out that lies there.
    pub(crate) fn hand_out(&mut self, contents: Contents, slice: ReceivedSlice) -> Bytes {
        self.bytes += u64::from(contents.bytes);
        Bytes::from_owner(Kept { slice: Some(slice), contents, shared: self.shared.clone() })
    }

    /// Takes what has come back.
    pub(crate) fn take_dropped(&mut self) -> Vec<Contents> {
        if self.bytes == 0 {
            return Vec::new();
        }
        let dropped = core::mem::take(&mut *self.shared.dropped());
        self.bytes -= dropped.iter().map(|contents| u64::from(contents.bytes)).sum::<u64>();
        dropped
    }
}
