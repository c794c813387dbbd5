//! One link: the rings to one peer, and the socket beside them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_netio::TxPacket;
use petasos_shm::{Consumer, Producer, PushError};
use rustix::net::{RecvFlags, SendFlags};

use crate::rendezvous::Connection;

/// Attempts in a row that find a peer's ring full before packets to it are dropped.
pub const STALL_TURNS_MAX: u32 = 4096;

/// The most messages taken from a link's socket at once; the rest waits for the next look.
const MESSAGES_MAX: usize = 16;

/// Why a packet was not put into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The ring is full: try again later.
    Full,
    /// The ring has been full for too long: drop the packet.
    Stalled,
    /// The packet cannot be sent: drop it.
    Impossible,
    /// The peer has violated the ring's rules.
    Broken,
}

pub(crate) struct Link {
    pub(crate) consumer: Consumer,
    producer: Producer,
    socket: OwnedFd,
    /// Where the peer can be reached: chosen by this side, or claimed by the peer.
    pub(crate) peer: SocketAddr,
    /// Largest datagram payload, in bytes.
    pub(crate) datagram_bytes_max: usize,
    /// The peer's end of the socket is closed; what is in the ring is still delivered.
    pub(crate) hung_up: bool,
    /// The peer has broken the ring's rules.
    pub(crate) broken: bool,
    /// Records were published since [`Link::confirm`] last checked whether the peer sleeps.
    pub(crate) unconfirmed: bool,
    /// Records were pushed since the last publication.
    unpublished: bool,
    /// Attempts in a row that found the ring full.
    full_turns: u32,
}

impl Link {
    pub(crate) fn new(connection: Connection) -> Link {
        let Connection { ends, socket, peer, datagram_bytes_max } = connection;
        Link {
            consumer: ends.consumer,
            producer: ends.producer,
            socket,
            peer,
            datagram_bytes_max,
            hung_up: false,
            broken: false,
            unconfirmed: false,
            unpublished: false,
            full_turns: 0,
        }
    }

    /// Puts a packet into the ring without publishing it.
    #[inline]
    pub(crate) fn push(&mut self, packet: &TxPacket<'_>) -> Result<(), Unsent> {
        let len = packet.len();
        if len > self.datagram_bytes_max {
            return Err(Unsent::Impossible);
        }
        let pushed = self.producer.push(packet.head, packet.body, len);
        self.note(pushed)
    }

    /// Puts as many whole datagrams of a train into the ring as fit one record, without publishing
    /// them. Returns how many. Each has `segment_bytes`, which the caller has checked.
    pub(crate) fn push_train(
        &mut self,
        train: &[u8],
        segment_bytes: usize,
    ) -> Result<usize, Unsent> {
        let len_max = self.producer.record_bytes_max() / segment_bytes * segment_bytes;
        let record = &train[..train.len().min(len_max)];
        let segment_bytes = segment_bytes.min(record.len());
        let pushed = self.producer.push(record, &[], segment_bytes);
        self.note(pushed).map(|()| record.len().div_ceil(segment_bytes))
    }

    #[inline]
    fn note(&mut self, pushed: Result<(), PushError>) -> Result<(), Unsent> {
        match pushed {
            Ok(()) => {
                self.unpublished = true;
                self.full_turns = 0;
                Ok(())
            }
            Err(error) => Err(self.unsent(error)),
        }
    }

    #[cold]
    fn unsent(&mut self, error: PushError) -> Unsent {
        match error {
            PushError::Full if self.full_turns >= STALL_TURNS_MAX => Unsent::Stalled,
            PushError::Full => {
                self.full_turns += 1;
                Unsent::Full
            }
            PushError::Broken => {
                self.broken = true;
                Unsent::Broken
            }
            _ => Unsent::Impossible,
        }
    }

    /// Makes the pushed records visible to the peer. Returns whether that woke it.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if !self.unpublished {
            return false;
        }
        self.unpublished = false;
        self.producer.publish();
        let asleep = self.producer.seems_asleep();
        if asleep {
            self.wake();
        }
        asleep
    }

    /// Wakes the peer if it fell asleep while something was published. Returns whether it did.
    pub(crate) fn confirm(&mut self) -> bool {
        self.unconfirmed = false;
        let asleep = self.producer.must_wake();
        if asleep {
            self.wake();
        }
        asleep
    }

    #[cold]
    fn wake(&self) {
        // If the socket is full, it is readable anyway. That a peer is gone is noticed elsewhere.
        let _ = rustix::net::send(&self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Whether packets can use this link, as far as its socket shows now. This may consume a
    /// wake-up, but none is missed: its callers have the rings polled before they sleep.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.read_socket();
        !self.hung_up && !self.broken
    }

    /// Reads wake-ups from the socket, and notes if the peer is gone.
    pub(crate) fn read_socket(&mut self) {
        for _ in 0..MESSAGES_MAX {
            match rustix::net::recv(&self.socket, &mut [0u8; 8], RecvFlags::DONTWAIT) {
                Ok((_, 1..)) => {}
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return,
                Ok((_, 0)) | Err(_) => {
                    self.hung_up = true;
                    return;
                }
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
