//! A flag that lets senders wake an event loop that may be asleep.
//!
//! Two facts, "a message is queued" and "the loop sleeps", are bits of *one* atomic. All changes to
//! it are read-modify-write operations, so they have one total order, and no fence between two
//! locations is needed:
//!
//! - A sender queues its message, then sets `MAIL`. If it finds `ASLEEP` set and `MAIL` clear, it
//!   wakes the loop. (If `MAIL` was already set, an earlier sender has woken the loop, or the loop
//!   has seen `MAIL` and did not sleep.)
//! - The loop sets `ASLEEP` before it sleeps. If it finds `MAIL` set, it clears `ASLEEP` and does
//!   not sleep.
//! - The loop clears `MAIL`, then takes the queued messages. A message that is queued later sets
//!   `MAIL` again.
//!
//! No wake-up is lost: one of the two, a sender that sets `MAIL` or the loop that sets `ASLEEP`,
//! comes second and sees the other's bit. The model checker loom tries all the orders in the tests
//! below: `RUSTFLAGS="--cfg loom" cargo test -p petasos-base --lib doorbell`.

use crate::sync::{AtomicU32, Ordering};

const MAIL: u32 = 1;
const ASLEEP: u32 = 2;

/// One loop's flag, shared with its senders. See the module's documentation.
#[derive(Debug)]
pub struct Doorbell {
    bits: AtomicU32,
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell { bits: AtomicU32::new(0) }
    }
}

impl Doorbell {
    /// Marks that something is queued. Returns true if the caller has to wake the loop.
    #[must_use]
    pub fn ring(&self) -> bool {
        // Release: pairs with the acquire of `answer`, so that the loop finds what was queued.
        let before = self.bits.fetch_or(MAIL, Ordering::AcqRel);
        before & (MAIL | ASLEEP) == ASLEEP
    }

    /// Whether something may be queued. The loop asks this once per turn. A relaxed load is enough,
    /// because [`Doorbell::answer`] orders what follows.
    #[inline]
    pub fn has_rung(&self) -> bool {
        self.bits.load(Ordering::Relaxed) & MAIL != 0
    }

    /// Clears the flag. The loop calls this before it takes what is queued.
    pub fn answer(&self) {
        // Acquire: pairs with the release of `ring`.
        self.bits.fetch_and(!MAIL, Ordering::AcqRel);
    }

    /// Marks that the loop is about to sleep. Returns false if something is queued; the loop must
    /// not sleep then, and is not marked.
    #[must_use]
    pub fn doze(&self) -> bool {
        let may = self.bits.fetch_or(ASLEEP, Ordering::AcqRel) & MAIL == 0;
        if !may {
            self.rise();
        }
        may
    }

    /// Marks that the loop sleeps from now on, even if something is queued. Returns true if
    /// something is: no sender will wake the loop for that.
    #[must_use]
    pub fn sleep_always(&self) -> bool {
        self.bits.fetch_or(ASLEEP, Ordering::AcqRel) & MAIL != 0
    }

    /// Marks that the loop is awake.
    pub fn rise(&self) {
        self.bits.fetch_and(!ASLEEP, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::{Arc, Mutex, Notify};
    use loom::thread;

    use super::*;

    /// One loop that sleeps whenever it may: it terminates in every order exactly if no wake-up is
    /// lost (loom reports a deadlock otherwise), having received what all senders sent.
    fn loses_no_wake_up(senders: usize) {
        let doorbell = Arc::new(Doorbell::default());
        let queue = Arc::new(Mutex::new(0));
        let eventfd = Arc::new(Notify::new());
        let send = |_| {
            let (doorbell, queue, eventfd) = (doorbell.clone(), queue.clone(), eventfd.clone());
            thread::spawn(move || {
                *queue.lock().expect("nothing panics") += 1;
                if doorbell.ring() {
                    eventfd.notify();
                }
            })
        };
        let threads: Vec<_> = (0..senders).map(send).collect();
        let mut received = 0;
        while received < senders {
            if doorbell.has_rung() {
                doorbell.answer();
                received += core::mem::take(&mut *queue.lock().expect("nothing panics"));
            } else if doorbell.doze() {
                eventfd.wait();
                doorbell.rise();
            }
        }
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }

    #[test]
    fn doorbell_loses_no_wake_up_of_one_sender() {
        loom::model(|| loses_no_wake_up(1));
    }

    /// All orders with up to two preemptions; without a bound this takes minutes.
    #[test]
    fn doorbell_loses_no_wake_up_of_two_senders() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| loses_no_wake_up(2));
    }
}
