//! A lane: the ends of two rings of descriptors, and the socket that wakes their consumers (D12).
//!
//! # Sleeping
//!
//! A side that is about to sleep sets a flag in its ring, looks at the ring once more, and waits
//! for the socket ([`Lane::doze`]). The other side's [`Lane::flush`] publishes its descriptors, and
//! sends one byte if the flag is set. `petasos_shm`'s `ring` explains why no wake-up is lost. A
//! byte is only a hint: the consumer looks at the ring after a byte, and also after a timeout.
//!
//! The producer clears the flag before it sends the byte, so an honest one sends at most one for
//! each doze. The lane counts the bytes beyond that ([`Lane::unasked_bytes`]). More than
//! [`UNASKED_BYTES_MAX`] of them are a violation.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use petasos_abi::{DESCRIPTOR_BYTES, Descriptor, Refusal, Side, Untrusted};
use petasos_shm::{Broken, Consumer, Ends, Pop, Producer, RegionError, RingShape};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use crate::socket::{self, poll_socket};

/// The most bytes that are read from a lane's socket in a turn.
pub const WAKE_BYTES_PER_TURN: usize = 64;
/// After so many bytes that nobody has asked for, the other side is detached.
pub const UNASKED_BYTES_MAX: u64 = 1 << 16;

/// The longest record that a ring carries, which is the shortest limit that a ring can have.
const RECORD_BYTES_MAX: usize = 64;

const _: () = assert!(DESCRIPTOR_BYTES <= petasos_shm::INLINE_BYTES_MAX, "it fits a slot");

/// Why a lane cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The other side has written what no honest one writes. Its fault: end the attachment.
    #[error("the other side has broken the ring's rules")]
    Broken,
    /// The other side has written a record that is no descriptor that it may send (D10). Its fault:
    /// end the attachment.
    #[error("the other side has sent {0}")]
    Refused(#[from] Refusal),
    /// It has sent too many bytes for nothing. Its fault: end the attachment.
    #[error("the other side has sent too many wake-ups")]
    Flood,
    /// It has closed its end, or ended. What it has pushed before can still be popped.
    #[error("the other side is gone")]
    Gone,
}

impl From<Broken> for LaneError {
    fn from(_: Broken) -> LaneError {
        LaneError::Broken
    }
}

/// Why a descriptor was not pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The consumer has not made room yet. Here is the descriptor; try again later.
    #[error("the ring is full")]
    Full(Descriptor),
    /// The other side has broken the ring's rules: end the attachment.
    #[error("the other side has broken the ring's rules")]
    Broken,
}

/// Why [`Lane::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The other side woke this one, or had pushed something already: look at the ring.
    Byte,
    /// The time is over. Look at the ring, too.
    Timeout,
}

/// One side's ends of a lane.
#[derive(Debug)]
pub struct Lane {
    side: Side,
    producer: Producer,
    consumer: Consumer,
    socket: OwnedFd,
    /// Something was pushed since the last flush.
    is_unpublished: bool,
    /// Bytes that the other side may still send: at most one for each doze.
    asked_bytes: u64,
    unasked_bytes: u64,
    /// What ended the lane. Only [`LaneError::Gone`] lets it be popped from.
    end: Option<LaneError>,
}

/// The shape of a lane's rings. Descriptors fit their slots, so the data part stays empty.
pub(crate) fn shape(slots: u32) -> RingShape {
    let record_bytes_max = RECORD_BYTES_MAX as u32;
    RingShape { slots, data_bytes: 2 * record_bytes_max, record_bytes_max }
}

impl Lane {
    /// The service's end of a new lane, and what the application needs for its own: the region's
    /// descriptor and the socket's.
    pub(crate) fn create(slots: u32) -> Result<(Lane, [OwnedFd; 2]), RegionError> {
        let (ends, region) = petasos_shm::create(shape(slots))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (ours, theirs) = pair.map_err(|error| {
            let attempt = "make a pair of sockets";
            petasos_shm::SystemError { attempt, error: error.into() }
        })?;
        Ok((Lane::new(Side::Service, ends, ours), [region, theirs]))
    }

    /// The application's end of a lane that the service has made.
    pub(crate) fn adopt(slots: u32, region: OwnedFd, socket: OwnedFd) -> Result<Lane, RegionError> {
        let ends = petasos_shm::adopt(region.as_fd(), shape(slots))?;
        Ok(Lane::new(Side::Application, ends, socket))
    }

    fn new(side: Side, ends: Ends, socket: OwnedFd) -> Lane {
        let Ends { producer, consumer } = ends;
        let (asked_bytes, unasked_bytes) = (0, 0);
        let (is_unpublished, end) = (false, None);
        Lane { side, producer, consumer, socket, is_unpublished, asked_bytes, unasked_bytes, end }
    }

    /// Puts a descriptor into the ring. The other side sees it after [`Lane::flush`].
    ///
    /// # Errors
    /// See [`PushError`].
    pub fn push(&mut self, descriptor: &Descriptor) -> Result<(), PushError> {
        match self.producer.push(&descriptor.to_bytes(), &[], DESCRIPTOR_BYTES) {
            Ok(()) => {
                self.is_unpublished = true;
                Ok(())
            }
            Err(petasos_shm::PushError::Full) => Err(PushError::Full(*descriptor)),
            Err(_) => {
                self.end = Some(LaneError::Broken);
                Err(PushError::Broken)
            }
        }
    }

    /// D12: shows the other side what was pushed, and wakes it if it sleeps. Returns whether it was
    /// woken.
    pub fn flush(&mut self) -> bool {
        if !core::mem::take(&mut self.is_unpublished) {
            return false;
        }
        self.producer.publish();
        let must_wake = self.producer.must_wake();
        if must_wake {
            // If the socket is full, it is readable anyway. That a peer is gone shows elsewhere.
            let _ = socket::send(self.socket.as_fd(), &[0]);
        }
        must_wake
    }

    /// Takes the next descriptor of the other side out of the ring. Call [`Lane::release`] after
    /// some of them.
    ///
    /// # Errors
    /// [`LaneError::Broken`] and [`LaneError::Refused`], from then on always.
    pub fn pop(&mut self) -> Result<Option<Descriptor>, LaneError> {
        let mut popped = Descriptor::default();
        Ok(self.pop_into(&mut popped)?.then_some(popped))
    }

    /// The same, written to where it is read. Says whether there was one.
    ///
    /// # Errors
    /// As for [`Lane::pop`]. Then there may be anything in `to`.
    #[inline]
    pub fn pop_into(&mut self, to: &mut Descriptor) -> Result<bool, LaneError> {
        if let Some(end) = self.end.filter(|end| *end != LaneError::Gone) {
            return Err(end);
        }
        let popped = self.pop_checked(to);
        if let Err(end) = popped {
            self.end = Some(end);
        }
        popped
    }

    /// D10: the record is copied first, and the copy judged.
    #[inline]
    fn pop_checked(&mut self, to: &mut Descriptor) -> Result<bool, LaneError> {
        let mut record = [0; RECORD_BYTES_MAX];
        let bytes = match self.consumer.pop(&mut record)? {
            Pop::Empty => return Ok(false),
            Pop::TooLong(bytes) => return Err(Refusal::Length(bytes).into()),
            Pop::Record(found) => found.len,
        };
        Untrusted::new(&record[..bytes]).check_into(self.side.other(), to)?;
        Ok(true)
    }

    /// Gives the places of all popped descriptors back to the other side.
    pub fn release(&mut self) {
        self.consumer.release();
    }

    /// Whether there is nothing to pop.
    pub fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    /// D12: says that this side is about to sleep until its socket is readable. If this returns
    /// false, descriptors have come and it must not sleep. After sleeping it calls
    /// [`Lane::rise`].
    #[must_use]
    pub fn doze(&mut self) -> bool {
        self.asked_bytes = self.asked_bytes.saturating_add(1);
        self.consumer.doze()
    }

    /// Says that this side is awake, and reads what woke it: at most [`WAKE_BYTES_PER_TURN`] bytes.
    ///
    /// # Errors
    /// [`LaneError::Gone`] and [`LaneError::Flood`].
    pub fn rise(&mut self) -> Result<(), LaneError> {
        self.consumer.rise();
        self.read_socket()
    }

    /// Sleeps until the other side wakes this one, or is gone, or the time is over. Returns at once
    /// if there is something to pop.
    ///
    /// # Errors
    /// [`LaneError::Gone`] and [`LaneError::Flood`].
    pub fn wait(&mut self, timeout: Duration) -> Result<Woken, LaneError> {
        if !self.doze() {
            return Ok(Woken::Byte);
        }
        let found = poll_socket(self.socket.as_fd(), PollFlags::IN, timeout);
        self.rise()?;
        Ok(if found.is_empty() { Woken::Timeout } else { Woken::Byte })
    }

    /// Whether the other side has closed its end or ended. No wake-up is taken.
    pub fn is_gone(&mut self) -> bool {
        let flags = PollFlags::RDHUP;
        let gone = self.end == Some(LaneError::Gone)
            || !poll_socket(self.socket.as_fd(), flags, Duration::ZERO).is_empty();
        if gone {
            let _ = self.ended(LaneError::Gone);
        }
        gone
    }

    /// Bytes that the other side has sent though this side did not sleep: none, if it is honest.
    pub fn unasked_bytes(&self) -> u64 {
        self.unasked_bytes
    }

    /// The pushing and popping side.
    pub fn side(&self) -> Side {
        self.side
    }

    fn read_socket(&mut self) -> Result<(), LaneError> {
        if let Some(end @ (LaneError::Gone | LaneError::Flood)) = self.end {
            return Err(end);
        }
        // Descriptors of files that come along are closed by the system.
        match recv(&self.socket, &mut [0u8; WAKE_BYTES_PER_TURN], RecvFlags::DONTWAIT) {
            Ok((_, count @ 1..)) => self.count(count as u64),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(()),
            Ok((_, 0)) | Err(_) => self.ended(LaneError::Gone),
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), LaneError> {
        let asked = bytes.min(self.asked_bytes);
        self.asked_bytes -= asked;
        self.unasked_bytes = self.unasked_bytes.saturating_add(bytes - asked);
        if self.unasked_bytes > UNASKED_BYTES_MAX { self.ended(LaneError::Flood) } else { Ok(()) }
    }

    fn ended(&mut self, end: LaneError) -> Result<(), LaneError> {
        // What was wrong with the ring is not forgotten when the other side leaves.
        self.end = self.end.or(Some(end));
        Err(end)
    }
}

impl AsFd for Lane {
    /// The socket: readable when this side is woken, or the other one is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
