//! Requests from other threads.

use std::sync::{Arc, Mutex, PoisonError};

use super::ask::Ask;

/// Where other threads leave requests.
#[derive(Clone, Default)]
pub(super) struct Inbox(Arc<Mutex<Vec<Ask>>>);

impl Inbox {
    /// Leaves one. Whether it is the first one that waits: whoever takes them has to be woken.
    pub fn leave(&self, ask: Ask) -> bool {
        let mut asks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asks.push(ask);
        asks.len() == 1
    }

    /// Takes all.
    pub fn take(&self, mut each: impl FnMut(Ask)) {
        let asks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        asks.into_iter().for_each(&mut each);
    }
}
