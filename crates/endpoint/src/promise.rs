//! A value that comes later, from one thread to another.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Invariant: `waker` is set only while there is no value.
struct Cell<T> {
    /// `Some(None)` if the promise was broken.
    value: Option<Option<T>>,
    waker: Option<Waker>,
}

/// The duty to give the value. Dropping it breaks the promise.
pub(crate) struct Promise<T> {
    cell: Arc<Mutex<Cell<T>>>,
}

/// The right to receive it.
pub(crate) struct Awaited<T> {
    cell: Arc<Mutex<Cell<T>>>,
}

pub(crate) fn promise<T>() -> (Promise<T>, Awaited<T>) {
    let cell = Arc::new(Mutex::new(Cell { value: None, waker: None }));
    (Promise { cell: cell.clone() }, Awaited { cell })
}

impl<T> Promise<T> {
    pub(crate) fn keep(self, value: T) {
        self.settle(Some(value));
    }

    fn settle(&self, value: Option<T>) {
        let waker = {
            let mut cell = lock(&self.cell);
            if cell.value.is_some() {
                return;
            }
            cell.value = Some(value);
            cell.waker.take()
        };
        // Outside of the lock: a waker is foreign code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.settle(None);
    }
}

impl<T> Awaited<T> {
    /// The value; `None` if the promise was broken. Only the first `Ready` is meaningful.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let mut cell = lock(&self.cell);
        match &mut cell.value {
            Some(value) => Poll::Ready(value.take()),
            None => {
                let old = cell.waker.replace(waker);
                drop(cell);
                drop(old);
                Poll::Pending
            }
        }
    }
}

fn lock<T>(cell: &Mutex<Cell<T>>) -> MutexGuard<'_, Cell<T>> {
    cell.lock().expect("nothing panics under the lock")
}
