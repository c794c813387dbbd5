//! Messages from other threads to a loop that owns its state.
//!
//! A [`Mailbox`] is a queue, a [`Doorbell`] and an eventfd. The loop checks the doorbell once per
//! turn (one load). Only if it has rung does the loop take the lock, once for all waiting messages.
//! The eventfd is written only when the loop has said that it sleeps.
//!
//! Who may touch what: any thread calls [`Mailbox::post`] and [`Mailbox::wake`]; everything else
//! belongs to the loop's thread. Closing loses nothing: each message is either taken by the loop,
//! returned to its sender, or returned by [`Mailbox::close`]. The lock is never held while code of
//! the application runs, so that it is never poisoned.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use petasos_base::Doorbell;
use rustix::event::{EventfdFlags, eventfd};

/// See the module's documentation.
pub struct Mailbox<T> {
    /// `None` once closed.
    queue: Mutex<Option<VecDeque<T>>>,
    doorbell: Doorbell,
    eventfd: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty one.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Mailbox<T>> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox {
            queue: Mutex::new(Some(VecDeque::new())),
            doorbell: Doorbell::default(),
            eventfd,
        })
    }

    /// Posts a message, and wakes the loop if it sleeps.
    ///
    /// # Errors
    /// If the loop is gone, the message is returned.
    pub fn post(&self, message: T) -> Result<(), T> {
        match &mut *self.lock() {
            None => return Err(message),
            Some(queue) => queue.push_back(message),
        }
        self.wake();
        Ok(())
    }

    /// Makes the loop turn, with or without a message.
    pub fn wake(&self) {
        if self.doorbell.ring() {
            self.write();
        }
    }

    /// Whether the doorbell has rung since the last [`Mailbox::take`].
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.doorbell.has_rung()
    }

    /// Swaps `emptied` with the queue of waiting messages.
    pub fn take(&self, emptied: &mut VecDeque<T>) {
        self.doorbell.answer();
        if let Some(queue) = &mut *self.lock() {
            core::mem::swap(queue, emptied);
        }
    }

    /// Says that the loop is about to sleep on [`Mailbox::as_fd`]. If this returns false, mail has
    /// arrived and the loop must not sleep. After waking, the loop calls [`Mailbox::rise`].
    #[must_use]
    pub fn doze(&self) -> bool {
        self.doorbell.doze()
    }

    /// Says that the loop is awake: the eventfd is no longer written.
    pub fn rise(&self) {
        self.doorbell.rise();
    }

    /// From now on the loop counts as asleep: the first message always makes the eventfd readable.
    pub fn sleep_always(&self) {
        if self.doorbell.sleep_always() {
            self.write();
        }
    }

    /// Makes the eventfd readable, without a message.
    pub fn ring_outside(&self) {
        self.write();
    }

    /// Makes the eventfd unreadable until the next wake-up.
    pub fn hush(&self) {
        // An error means that it was not readable, which is the goal.
        let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
    }

    /// Refuses messages from now on, and returns those that wait.
    pub fn close(&self) -> VecDeque<T> {
        self.lock().take().unwrap_or_default()
    }

    fn write(&self) {
        // The only possible error says that the counter is at its maximum, and then the
        // descriptor is readable already.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<T>>> {
        self.queue.lock().expect("nothing panics under the lock")
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(mailbox: &Mailbox<u32>) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(mailbox, PollFlags::IN)];
        poll(&mut fds, Some(&at_once)).expect("an eventfd can be polled") == 1
    }

    #[test]
    fn the_eventfd_is_written_only_for_a_sleeper_and_only_once() {
        let mailbox = Mailbox::new().expect("the system has descriptors");
        mailbox.post(1).expect("it is open");
        assert!(mailbox.has_mail() && !readable(&mailbox));
        assert!(!mailbox.doze(), "there is mail");
        let mut mail = VecDeque::new();
        mailbox.take(&mut mail);
        assert_eq!(mail.drain(..).collect::<Vec<_>>(), [1]);
        assert!(!mailbox.has_mail() && mailbox.doze());
        mailbox.post(2).expect("it is open");
        mailbox.post(3).expect("it is open");
        assert!(readable(&mailbox));
        mailbox.rise();
        mailbox.hush();
        assert!(!readable(&mailbox) && mailbox.has_mail());
    }

    #[test]
    fn closing_returns_what_waits_and_refuses_the_rest() {
        let mailbox = Mailbox::new().expect("the system has descriptors");
        mailbox.post(1).expect("it is open");
        assert_eq!(mailbox.close(), [1]);
        assert_eq!(mailbox.post(3), Err(3));
    }
}
