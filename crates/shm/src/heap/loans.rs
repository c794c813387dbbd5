//! Places whose bytes others still read, and which come back on any thread.
//!
//! Whoever owns the places lends them ([`Loans::lend`]) and takes them back
//! ([`Loans::take_returned`]) on one thread. In between, a [`Loan`] may go anywhere. A place that
//! is lent is not lent again.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_abi::Contents;

/// Places that are lent. It belongs to one thread.
#[derive(Debug)]
pub struct Loans {
    shared: Arc<Shared>,
    /// The offsets of those that were not taken back.
    lent: RefCell<HashSet<u64>>,
    bytes: Cell<u64>,
}

struct Shared {
    returned: Mutex<Vec<Contents>>,
    /// Makes the thread look.
    notify: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    /// Nothing panics while it is locked.
    fn returned(&self) -> MutexGuard<'_, Vec<Contents>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A place that was lent. It comes back when this is dropped.
#[derive(Debug)]
pub struct Loan {
    place: Contents,
    shared: Arc<Shared>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.shared.returned().push(self.place);
        (self.shared.notify)();
    }
}

impl Loans {
    /// Nothing is lent yet. `notify` is called on any thread when something has come back, so that
    /// the owner's thread calls [`Loans::take_returned`] soon.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Loans {
        let shared = Shared { returned: Mutex::default(), notify: Box::new(notify) };
        Loans { shared: Arc::new(shared), lent: RefCell::default(), bytes: Cell::new(0) }
    }

    /// Bytes that are lent and were not taken back.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Whether the place at this offset is lent and was not taken back.
    #[inline]
    pub fn has(&self, offset: u64) -> bool {
        self.bytes.get() > 0 && self.lent.borrow().contains(&offset)
    }

    /// Lends a place; `None` if it is lent already, or has no bytes.
    pub fn lend(&self, place: Contents) -> Option<Loan> {
        if place.is_none() || self.has(place.offset) {
            return None;
        }
        self.lent.borrow_mut().insert(place.offset);
        self.bytes.set(self.bytes.get() + u64::from(place.bytes));
        Some(Loan { place, shared: self.shared.clone() })
    }

    /// The places that have come back. Each is returned once.
    #[inline]
    pub fn take_returned(&self) -> Vec<Contents> {
        if self.bytes.get() == 0 {
            return Vec::new();
        }
        self.take()
    }

    #[cold]
    fn take(&self) -> Vec<Contents> {
        let returned = core::mem::take(&mut *self.shared.returned());
        let mut lent = self.lent.borrow_mut();
        for place in &returned {
            assert!(lent.remove(&place.offset), "each place is lent once");
            self.bytes.set(self.bytes.get() - u64::from(place.bytes));
        }
        returned
    }
}

#[cfg(test)]
mod tests {
    use petasos_base::sync::{AtomicU32, Ordering};

    use super::*;

    const PLACE: Contents = Contents { offset: 64, bytes: 100 };

    #[test]
    fn a_place_comes_back_once_from_any_thread() {
        let told = Arc::new(AtomicU32::new(0));
        let loans = Loans::new({
            let told = told.clone();
            move || {
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
        let loan = loans.lend(PLACE).expect("it was not lent");
        assert!(loans.lend(PLACE).is_none(), "it is lent");
        assert!(loans.lend(Contents::NONE).is_none());
        assert!((loans.has(64), loans.bytes()) == (true, 100) && loans.take_returned().is_empty());
        std::thread::spawn(move || drop(loan)).join().expect("it does not panic");
        assert_eq!((loans.has(64), told.load(Ordering::Relaxed)), (true, 1));
        assert_eq!(loans.take_returned(), [PLACE]);
        assert!((loans.has(64), loans.bytes()) == (false, 0) && loans.take_returned().is_empty());
        assert!(loans.lend(PLACE).is_some(), "it can be lent again");
    }

    #[test]
    fn loans_may_outlive_their_owner() {
        let loans = Loans::new(|| {});
        let loan = loans.lend(PLACE);
        drop(loans);
        drop(loan);
    }
}
