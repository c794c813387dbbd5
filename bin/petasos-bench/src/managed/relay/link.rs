//! An application's or a service's end of a pair of rings, and how it waits.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use petasos_base::{SystemClock, Time};
use petasos_netio_shm::ShmConfig;
use petasos_netio_shm::rendezvous::{self, Connection};
use petasos_shm::{Ends, Pop, PushError, RingShape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::sched_yield;

use super::frame::FRAME_BYTES_MAX;
use crate::error::BenchError;
use crate::managed::waiting::SPIN;

/// One end of a pair of rings with the socket that wakes it.
pub struct Link {
    ends: Ends,
    socket: OwnedFd,
    /// Whether something was pushed that is not published.
    is_held_back: bool,
}

impl Link {
    /// Connects to the service at `address`.
    pub fn connect(address: SocketAddr) -> Result<Link, BenchError> {
        let rings = RingShape {
            slots: 1024,
            data_bytes: 1 << 20,
            record_bytes_max: FRAME_BYTES_MAX as u32,
        };
        let config =
            ShmConfig { rings, datagram_bytes_max: FRAME_BYTES_MAX, ..ShmConfig::default() };
        let nobody = SocketAddr::new(address.ip(), 0);
        Ok(Link::new(rendezvous::connect(nobody, address, &config)?))
    }

    /// The end of a connection.
    pub fn new(connection: Connection) -> Link {
        Link { ends: connection.ends, socket: connection.socket, is_held_back: false }
    }

    /// Writes a frame for the other side, which sees it after [`Link::publish`]; `false` if the
    /// ring is full.
    #[inline]
    pub fn push(&mut self, head: &[u8], body: &[u8]) -> Result<bool, BenchError> {
        match self.ends.producer.push(head, body, head.len() + body.len()) {
            Ok(()) => {
                self.is_held_back = true;
                Ok(true)
            }
            Err(PushError::Full) => Ok(false),
            Err(error) => Err(format!("a ring takes no frame: {error:?}").into()),
        }
    }

    /// Shows the other side what was pushed, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        if !std::mem::take(&mut self.is_held_back) {
            return;
        }
        self.ends.producer.publish();
        if self.ends.producer.must_wake() {
            // A socket that is full has bytes that wake the other side; one whose other side has
            // gone shows that when it is read.
            let _ = rustix::io::write(&self.socket, &[1]);
        }
    }

    /// Takes a frame, and copies it to `out`; `None` if there is none.
    #[inline]
    pub fn pop(&mut self, out: &mut [u8]) -> Result<Option<usize>, BenchError> {
        match self.ends.consumer.pop(out)? {
            Pop::Empty => Ok(None),
            Pop::TooLong(bytes) => Err(format!("a frame of {bytes} bytes").into()),
            Pop::Record(record) => Ok(Some(record.len)),
        }
    }

    /// Gives the places of popped frames back.
    #[inline]
    pub fn release(&mut self) {
        self.ends.consumer.release();
    }

    /// See [`petasos_shm::Consumer::doze`].
    pub fn doze(&mut self) -> bool {
        self.ends.consumer.doze()
    }

    /// Says that this side is awake, and takes the bytes that have woken it. Returns whether the
    /// other side is still there.
    pub fn rise(&mut self) -> bool {
        self.ends.consumer.rise();
        let mut bytes = [0; 64];
        loop {
            match rustix::io::read(&self.socket, &mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return error == rustix::io::Errno::WOULDBLOCK,
            }
        }
    }

    /// Sleeps until the other side wakes this one, at most for `longest`.
    ///
    /// # Errors
    /// If the other side has gone.
    pub fn sleep(&mut self, longest: Duration) -> Result<(), BenchError> {
        if self.doze() {
            sleep_for(&mut [PollFd::new(&self.socket, PollFlags::IN)], longest)?;
        }
        if self.rise() { Ok(()) } else { Err("the service has gone".into()) }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits for one of the descriptors, at most for `longest`.
pub fn sleep_for(fds: &mut [PollFd<'_>], longest: Duration) -> Result<(), BenchError> {
    let seconds = longest.as_secs() as i64;
    let timeout = Timespec { tv_sec: seconds, tv_nsec: i64::from(longest.subsec_nanos()) };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// When to look again, and when to sleep.
pub struct Waiting {
    clock: SystemClock,
    idle_since: Option<Time>,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting { clock: SystemClock::default(), idle_since: None }
    }

    /// There was work.
    #[inline]
    pub fn worked(&mut self) {
        self.idle_since = None;
    }

    /// There was none: gives up the core to a neighbour, and returns whether it is time to sleep.
    pub fn must_sleep(&mut self) -> bool {
        let now = self.clock.now();
        let since = *self.idle_since.get_or_insert(now);
        if now - since >= SPIN {
            self.idle_since = None;
            return true;
        }
        sched_yield();
        false
    }
}
