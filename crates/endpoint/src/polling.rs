//! How the loop waits: spinning, with or without regard for others, sleeping, or driven from
//! outside.
//!
//! A loop sleeps in `poll(2)` on the packet I/O's descriptor and the mailbox's eventfd, until its
//! next timer. No wake-up is lost: right before the poll the packet I/O is told
//! ([`PacketIo::prepare_to_sleep`]), and from then on its descriptor is readable if anything has
//! arrived or arrives; the mailbox's protocol protects mail.
//!
//! If an outside event loop drives the loop, it always counts as asleep, so that the first mail
//! makes the descriptor readable. [`Endpoint::run_ready`] makes the descriptor unreadable *before*
//! it takes the mail. For packets, each turn of the loop ends that state, so at its end it tells
//! the packet I/O again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use core::time::Duration;

use arrayvec::ArrayVec;
use petasos_base::{Clock, Time};
use petasos_netio::PacketIo;
use rustix::event::{PollFd, PollFlags, epoll, poll};

use crate::config::Polling;
use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::outside::WATCHED_MAX;
use crate::timespec::timespec_of;

impl<S> Endpoint<S> {
    /// Turns the loop, waiting according to [`crate::EndpointConfig::polling`], until `until`
    /// returns true. `until` is called after every turn, and so before every sleep.
    pub fn run(&mut self, until: impl FnMut(&mut S, &mut Context<S>) -> bool) {
        self.run_until(Time::NEVER, until);
    }

    /// Like [`Endpoint::run`], for at most `timeout`. Returns whether `until` has returned true.
    pub fn run_for(
        &mut self,
        timeout: Duration,
        until: impl FnMut(&mut S, &mut Context<S>) -> bool,
    ) -> bool {
        let deadline = self.clock().now() + timeout;
        self.run_until(deadline, until)
    }

    fn run_until(
        &mut self,
        deadline: Time,
        mut until: impl FnMut(&mut S, &mut Context<S>) -> bool,
    ) -> bool {
        let mut idle_since = Time::NEVER;
        let at_once = self.cx.core.config.polling == Polling::Adaptive { spin: Duration::ZERO };
        let mut frames = if at_once { self.io().stats().rx_frames } else { 0 };
        loop {
            let busy = self.run_once();
            if busy {
                // Handlers may have taken long; a turn without events has not.
                self.cx.core.now = self.clock().now();
            }
            let (state, context) = (&mut self.state, &mut self.cx);
            let now = context.now();
            let reached = until(state, context);
            if reached || now >= deadline {
                self.rest_outside();
                return reached;
            }
            idle_since = if busy { Time::NEVER } else { idle_since.min(now) };
            let sleepy = match busy {
                true => at_once && self.had_one(&mut frames),
                false => self.has_spun(idle_since),
            };
            if sleepy && self.sleep(deadline) {
                idle_since = Time::NEVER;
                if let Some(yielder) = &mut self.yielder {
                    yielder.slept(self.clock.now() - now);
                }
            } else if !busy && let Some(yielder) = &mut self.yielder {
                yielder.rest(|| self.clock.now());
            }
        }
    }

    /// Whether exactly one frame has arrived since `frames` were counted. Probably no other is
    /// there: a loop that does not spin would make a useless system call to ask for more, and if
    /// there are more, its sleep ends at once.
    fn had_one(&self, frames: &mut u64) -> bool {
        let received = self.io().stats().rx_frames;
        received - core::mem::replace(frames, received) == 1
    }

    /// Whether the loop has spun long enough since `idle_since`.
    fn has_spun(&self, idle_since: Time) -> bool {
        match self.cx.core.config.polling {
            Polling::Spin => false,
            Polling::External => true,
            Polling::Adaptive { spin } => self.cx.core.now >= idle_since + spin,
            Polling::Yield { .. } => {
                let now = self.cx.core.now;
                let spin = self.yielder.as_ref().map_or(Duration::ZERO, |it| it.spin(now));
                now >= idle_since + spin
            }
        }
    }

    /// Sleeps until packets, mail, a timer or `deadline`. Returns false if it did not sleep: a
    /// packet I/O without a descriptor has its peers on this same thread or must be polled, and
    /// virtual time stands still.
    pub(crate) fn sleep(&mut self, deadline: Time) -> bool {
        let wake_at = self.next_turn_at().min(deadline);
        let wait_ns = wake_at.nanos_since(self.clock().now());
        let real = matches!(self.clock(), Clock::System(_));
        if !real || wait_ns == 0 || self.io().descriptor().is_none() || !self.prepare_to_sleep() {
            return false;
        }
        let packets = self.io().descriptor().expect("there was one before");
        let timeout = (wake_at != Time::NEVER).then(|| timespec_of(wait_ns));
        let packets = PollFd::from_borrowed_fd(packets, PollFlags::IN);
        let outside = &self.cx.core.outside;
        let mut fds = ArrayVec::<PollFd<'_>, { 2 + WATCHED_MAX }>::new();
        fds.push(packets);
        fds.extend(outside.watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // An interrupted or failed poll only ends the sleep early, which is harmless.
        match outside.mailbox() {
            None => {
                let _ = poll(&mut fds, timeout.as_ref());
            }
            Some(mailbox) => {
                // A loop that always counts as asleep must not be marked as awake either.
                let may = if outside.external { !mailbox.has_mail() } else { mailbox.doze() };
                if !may {
                    return false;
                }
                fds.push(PollFd::new(mailbox.as_ref(), PollFlags::IN));
                let _ = poll(&mut fds, timeout.as_ref());
                if !outside.external {
                    mailbox.rise();
                }
                if fds.last().is_some_and(|mail| !mail.revents().is_empty()) {
                    mailbox.hush();
                }
            }
        }
        drop(fds);
        self.cx.core.stats.sleeps += 1;
        true
    }

    /// A descriptor that is readable when the loop should turn because packets or mail have
    /// arrived, for event loops that wait for descriptors. For timers, [`Endpoint::next_turn_at`]
    /// is needed as well. From this call on the loop counts as asleep between turns: drive it with
    /// [`Endpoint::run_ready`].
    ///
    /// # Errors
    /// The system's, if it has no file descriptor; `Unsupported` if the packet I/O has none.
    pub fn descriptor(&mut self) -> io::Result<OwnedFd> {
        let mailbox = self.cx.core.outside.open_mailbox()?;
        let packets = self.io().descriptor().ok_or(io::ErrorKind::Unsupported)?;
        let joint = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        add(&joint, packets)?;
        add(&joint, mailbox.as_ref().as_fd())?;
        for fd in &self.cx.core.outside.watched {
            add(&joint, fd.as_fd())?;
        }
        self.cx.core.outside.joint = Some(joint.try_clone()?);
        self.cx.core.outside.external = true;
        mailbox.sleep_always();
        self.rest_outside();
        Ok(joint)
    }

    /// Makes packets make the descriptor readable from now on, if the loop is driven by it.
    fn rest_outside(&mut self) {
        if self.cx.core.outside.external && !self.prepare_to_sleep() {
            // Packets have already arrived, which nothing else will report: so write the eventfd.
            self.cx
                .core
                .outside
                .mailbox()
                .expect("it was opened with the descriptor")
                .ring_outside();
        }
    }

    /// Turns the loop until nothing happens, at most `turns_max` times. Returns when to turn again
    /// even if the descriptor does not become readable: at once if the number of turns was reached,
    /// [`Time::NEVER`] if no timer is set. [`Endpoint::until`] converts it to a duration.
    pub fn run_ready(&mut self, turns_max: u32) -> Time {
        if let Some(mailbox) = self.cx.core.outside.mailbox() {
            mailbox.hush();
        }
        for _ in 0..turns_max {
            if !self.run_once() && self.prepare_to_sleep() {
                return self.next_turn_at();
            }
        }
        self.cx.core.now
    }

    /// The time from now until `time`; `None` for [`Time::NEVER`].
    pub fn until(&self, time: Time) -> Option<Duration> {
        (time != Time::NEVER).then(|| time - self.clock().now())
    }
}

impl<S> Context<S> {
    /// Lets a sleep end when `fd` is readable. What reads it clears that before the next sleep.
    ///
    /// # Errors
    /// The system's, if it cannot wait for it; `QuotaExceeded` if it is one too many.
    pub fn watch(&mut self, fd: OwnedFd) -> io::Result<()> {
        let outside = &mut self.core.outside;
        if outside.watched.is_full() {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if let Some(joint) = &outside.joint {
            add(joint, fd.as_fd())?;
        }
        outside.watched.push(fd);
        Ok(())
    }

    /// Watches none of the descriptors of [`Context::watch`] any more.
    pub fn watch_nothing(&mut self) {
        let outside = &mut self.core.outside;
        for fd in outside.watched.drain(..) {
            if let Some(joint) = &outside.joint {
                // It was added, so this does not fail.
                let _ = epoll::delete(joint, &fd);
            }
        }
    }
}

fn add(joint: &OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    epoll::add(joint, fd, data, epoll::EventFlags::IN)?;
    Ok(())
}
