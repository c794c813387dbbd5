//! How a thread that has packets rests: it spins as long as that is worth it, and then sleeps until
//! something arrives.

use core::time::Duration;

use petasos_base::{Clock, Time, Yielder};
use petasos_endpoint::Mailbox;
use petasos_netio::PacketIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Since when a thread has had nothing to do.
pub(crate) struct Idle {
    since: Option<Time>,
    yielder: Yielder,
}

impl Idle {
    /// Of a thread that spins for so long at most: less where nothing comes meanwhile, and not
    /// while others want the processor (ADR 18).
    pub(crate) fn new(spin: Duration) -> Idle {
        Idle { since: None, yielder: Yielder::new(spin) }
    }

    /// After each turn, which began at `now`: spins, or lets `sleep` do so, which returns whether
    /// it has slept.
    pub(crate) fn rest(
        &mut self,
        clock: &Clock,
        now: Time,
        is_busy: bool,
        sleep: impl FnOnce() -> bool,
    ) {
        if is_busy {
            self.since = None;
        } else if now - *self.since.get_or_insert(now) < self.yielder.spin(now) {
            self.yielder.rest(|| clock.now());
        } else {
            if sleep() {
                self.yielder.slept(clock.now() - now);
            }
            self.since = None;
        }
    }
}

/// Sleeps until packets or mail arrive, or until a time. Returns whether it did.
pub(crate) fn sleep<T>(
    io: &mut impl PacketIo,
    mail: &Mailbox<T>,
    clock: &Clock,
    wake_at: Time,
) -> bool {
    let wait_ns = wake_at.nanos_since(clock.now());
    if wait_ns == 0 || !io.prepare_to_sleep() || !mail.doze() {
        return false;
    }
    let timeout = (wake_at != Time::NEVER).then(|| Duration::from_nanos(wait_ns));
    // No timer is further away than the system's numbers go.
    let timeout = timeout.and_then(|wait| Timespec::try_from(wait).ok());
    // One that nobody can wait for is asked again and again.
    let Some(packets) = io.descriptor() else {
        mail.rise();
        return false;
    };
    let mut fds =
        [PollFd::from_borrowed_fd(packets, PollFlags::IN), PollFd::new(mail, PollFlags::IN)];
    // An interrupted or failed poll only ends the sleep early, which is harmless.
    let _ = poll(&mut fds, timeout.as_ref());
    mail.rise();
    if !fds[1].revents().is_empty() {
        mail.hush();
    }
    true
}
