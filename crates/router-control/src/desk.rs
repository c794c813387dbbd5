//! Work for the thread of a node, from operators.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// What is done, with what the thread owns.
pub(crate) type Work<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Work that waits, in order. `None` once nobody does it any more.
pub(crate) struct Desk<T>(Mutex<Option<VecDeque<Work<T>>>>);

impl<T> Desk<T> {
    /// Nothing waits.
    pub(crate) fn open() -> Desk<T> {
        Desk(Mutex::new(Some(VecDeque::new())))
    }

    /// Leaves work, which is dropped if nobody will do it.
    pub(crate) fn leave(&self, work: Work<T>) {
        let mut desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = &mut *desk {
            desk.push_back(work);
        }
    }

    /// All that waits.
    pub(crate) fn take(&self) -> VecDeque<Work<T>> {
        let mut desk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        desk.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Nobody does what waits, or what comes.
    pub(crate) fn close(&self) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }
}
