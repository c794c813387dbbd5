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

/// A carrier that works, and is put back also if it panics: the loop goes on.
struct Taken<'a> {
    of: &'a Managed,
    carrier: Option<Box<Carrier>>,
    has_panicked: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut carrier = self.carrier.take();
        if let Some(carrier) = &mut carrier
            && self.has_panicked
        {
            carrier.has_panicked();
        }
        self.of.carrier.replace(carrier);
    }
}

impl Managed {
    /// Whether the loop's calls go through the service.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Lets the carrier do something.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut Carrier) -> R) -> Option<R> {
        let mut taken = Taken { of: self, carrier: self.carrier.take(), has_panicked: true };
        let result = taken.carrier.as_deref_mut().map(run);
        taken.has_panicked = false;
        result
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use petasos_base::Time;
    use petasos_endpoint::{Clock, Endpoint, EndpointConfig, NoPackets};
    use petasos_managed::ServiceConfig;

    use super::*;

    #[test]
    fn a_carrier_that_panics_is_put_back_and_knows() {
        let io = NoPackets::new().unwrap();
        let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), ());
        let config = ServiceConfig::new("unix:/no/service/here").unwrap();
        let managed = Managed::default();
        managed.set(Carrier::new(config, 1, endpoint.notifier().unwrap()));
        let next_turn_at = || managed.with(|carrier| carrier.next_turn_at());
        assert_eq!(next_turn_at(), Some(Time::NEVER));
        let run = || managed.with(|_| panic!("a test"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(next_turn_at(), Some(Time::ZERO), "it ends its attachment");
    }
}
