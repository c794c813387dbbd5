//! Calls as a target of load, in a loop of the generator's thread.

use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use petasos::Loop;
use petasos_load::{Driver, wait_readable};

/// The loop of this thread, which lets its calls go on.
#[derive(Debug)]
pub struct InLoop {
    event_loop: Rc<Loop>,
    /// Readable when there is something to do.
    descriptor: OwnedFd,
    /// How long the loop may rest.
    rest: Option<Duration>,
}

impl InLoop {
    /// For calls of this loop.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(event_loop: Rc<Loop>) -> io::Result<InLoop> {
        let descriptor = event_loop.descriptor()?;
        Ok(InLoop { event_loop, descriptor, rest: None })
    }
}

impl Driver for InLoop {
    fn turn(&mut self) {
        self.rest = self.event_loop.turn_ready(1);
    }

    fn wait(&mut self, timeout: Duration) {
        let rest = self.rest.map_or(timeout, |rest| rest.min(timeout));
        if !rest.is_zero() {
            wait_readable(&self.descriptor, rest);
        }
    }
}
