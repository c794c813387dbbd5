//! The carrier of a loop whose calls go through the managed service.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use petasos_managed::Carrier;

/// The carrier of a loop, if it has one.
#[derive(Default)]
pub(crate) struct Managed {
    is_on: Cell<bool>,
    /// Taken out while it works, since it runs handlers.
    carrier: RefCell<Option<Box<Carrier>>>,
    /// Who waits until the service lets others call this process.
    wakers: RefCell<Vec<Waker>>,
}

impl Managed {
    /// Whether the loop's calls go through the service.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Lets the carrier do something.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut Carrier) -> R) -> Option<R> {
        // Put back also if the application's code, which it runs, panics.
        struct Taken<'a>(&'a Managed, Option<Box<Carrier>>);
        impl Drop for Taken<'_> {
            fn drop(&mut self) {
                self.0.carrier.replace(self.1.take());
            }
        }
        let mut taken = Taken(self, self.carrier.borrow_mut().take());
        taken.1.as_deref_mut().map(run)
    }

    pub(crate) fn set(&self, carrier: Carrier) {
        self.carrier.replace(Some(Box::new(carrier)));
        self.is_on.set(true);
    }

    /// Lets `waker` be woken at the next change.
    pub(crate) fn wait(&self, waker: Waker) {
        self.wakers.borrow_mut().push(waker);
    }

    /// Wakes who waits for a change.
    pub(crate) fn wake(&self) {
        let wakers = self.wakers.take();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn clear(&self) {
        self.is_on.set(false);
        drop(self.carrier.take());
        drop(self.wakers.take());
    }
}
