//! What wakes a runtime's thread from its sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::Doorbell;
use rustix::event::{EventfdFlags, eventfd};

/// A bell that other threads ring. Its descriptor is readable when the thread has to wake.
pub struct Bell {
    doorbell: Doorbell,
    wake: OwnedFd,
}

impl Bell {
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> std::io::Result<Bell> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { doorbell: Doorbell::default(), wake })
    }

    /// There is something for the thread. Takes a system call only if it sleeps.
    pub fn ring(&self) {
        if self.doorbell.ring() {
            // A counter that is full is readable already.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Whether somebody has rung. To be called before what there is is looked for.
    #[inline]
    pub fn answer(&self) -> bool {
        let has_rung = self.doorbell.has_rung();
        if has_rung {
            self.doorbell.answer();
        }
        has_rung
    }

    /// Whether the thread may sleep: nobody has rung.
    pub fn doze(&self) -> bool {
        self.doorbell.doze()
    }

    /// The thread is awake again.
    pub fn rise(&self) {
        self.doorbell.rise();
    }

    /// Makes the descriptor unreadable. To be called after a sleep, before what there is is looked
    /// for.
    pub fn hush(&self) {
        // There may be nothing to read.
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
