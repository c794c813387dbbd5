//! The flag between senders and a loop that sometimes sleeps.
//!
//! Both facts, "there is mail" and "the loop sleeps", are bits of *one* atomic, changed by
//! read-modify-write operations only; so all changes have one order, and no fence between two
//! locations is needed:
//!
//! - A sender queues its message, then sets `MAIL`. If that finds `ASLEEP` set and `MAIL` clear,
//!   the sender wakes the loop. (If `MAIL` was set, an earlier sender has done so, or the loop has
//!   seen `MAIL` and did not sleep.)
//! - The loop sets `ASLEEP`. If that finds `MAIL` set, it clears `ASLEEP` and does not sleep.
//! - The loop clears `MAIL`, then takes what is queued. A message queued after that sets `MAIL`
//!   again.
//!
//! No wake-up is lost: of a sender's `MAIL` and the loop's `ASLEEP`, one comes second and sees the
//! other. The model checker goes through the orders below; run it with
//! `RUSTFLAGS="--cfg loom" cargo test -p petasos-base --lib doorbell`.

use crate::sync::{AtomicU32, Ordering};

const MAIL: u32 = 1;
const ASLEEP: u32 = 2;

/// One loop's flag; senders share it.
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
    /// Says that something is queued. True if the caller has to wake the loop.
    #[must_use]
    pub fn ring(&self) -> bool {
        // Release: pairs with the acquire of `answer`, so that the loop finds what was queued.
        let before = self.bits.fetch_or(MAIL, Ordering::AcqRel);
        before & (MAIL | ASLEEP) == ASLEEP
    }

    /// Whether something may be queued. The loop's once-per-turn look; [`Doorbell::answer`]
    /// orders what follows, so this one need not.
    #[inline]
    pub fn has_rung(&self) -> bool {
        self.bits.load(Ordering::Relaxed) & MAIL != 0
    }

    /// The loop is about to take what is queued.
    pub fn answer(&self) {
        // Acquire: pairs with the release of `ring`.
        self.bits.fetch_and(!MAIL, Ordering::AcqRel);
    }

    /// The loop wants to sleep; it may if this returns true.
    #[must_use]
    pub fn doze(&self) -> bool {
        let may = self.bits.fetch_or(ASLEEP, Ordering::AcqRel) & MAIL == 0;
        if !may {
            self.rise();
        }
        may
    }

    /// The loop sleeps from now on whatever comes. True if something has come already, for which
    /// no sender will wake it.
    #[must_use]
    pub fn sleep_always(&self) -> bool {
        self.bits.fetch_or(ASLEEP, Ordering::AcqRel) & MAIL != 0
    }

    /// The loop is awake.
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
