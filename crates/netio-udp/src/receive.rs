//! The receive memory, and how many datagrams to ask for.
//!
//! A call that asks for several datagrams pays for one failed attempt if fewer have arrived. So a
//! quiet socket is asked for one datagram. The number doubles while every buffer asked for is
//! filled, with few frames; it falls back to one when a buffer stays empty, and when the loop
//! sleeps.

use std::io;

use arrayvec::ArrayVec;
use petasos_netio::{IoStats, Origin, RxBatch, RxChunk};

use crate::routes::RouteTable;
use crate::socket::{GsoSocket, segment_bytes};
use crate::sys::{Arrival, RECEIVE_MESSAGES_MAX, SocketAddress};

/// Bytes of one receive buffer: more than the longest datagram, and than the longest train.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// This many frames are enough work for one turn. Their answers are sent before more frames are
/// received, so that both ends work at the same time.
const FRAMES_ENOUGH: u64 = 32;

/// The receiving half of the backend.
pub(crate) struct Receiver {
    /// [`RECEIVE_MESSAGES_MAX`] buffers, one after another.
    memory: Box<[u8]>,
    buffer_bytes: usize,
    arrivals: ArrayVec<Arrival, RECEIVE_MESSAGES_MAX>,
    chunks: ArrayVec<RxChunk, RECEIVE_MESSAGES_MAX>,
    /// Where each chunk comes from.
    origins: ArrayVec<Origin, RECEIVE_MESSAGES_MAX>,
    /// Datagrams to ask for next: 1 to [`RECEIVE_MESSAGES_MAX`].
    asked: usize,
    /// The socket's drop counter when it was last read.
    drops: u32,
    latest: Latest,
}

/// Where the latest datagram came from. Most datagrams come from the same peer as the one before,
/// and a comparison costs less than a lookup in the table.
struct Latest {
    source: SocketAddress,
    origin: Origin,
    /// The table's [`RouteTable::changes`] at that time.
    changes: u64,
}

impl Latest {
    const NONE: Latest =
        Latest { source: SocketAddress::EMPTY, origin: Origin::STRANGER, changes: 0 };

    #[inline]
    fn origin_of(&mut self, source: &SocketAddress, routes: &RouteTable) -> Origin {
        if *source != self.source || self.changes != routes.changes() {
            let (origin, changes) = (routes.origin_of(source), routes.changes());
            *self = Latest { source: *source, origin, changes };
        }
        self.origin
    }
}

impl Receiver {
    pub(crate) fn new(buffer_bytes: usize) -> Receiver {
        Receiver {
            memory: vec![0; buffer_bytes * RECEIVE_MESSAGES_MAX].into_boxed_slice(),
            buffer_bytes,
            arrivals: ArrayVec::new(),
            chunks: ArrayVec::new(),
            origins: ArrayVec::new(),
            asked: 1,
            drops: 0,
            latest: Latest::NONE,
        }
    }

    /// Asks for one datagram next, because it is unknown how many will come.
    pub(crate) fn expect_few(&mut self) {
        self.asked = 1;
    }

    /// Receives datagrams with one system call.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        socket: &GsoSocket,
        routes: &RouteTable,
        stats: &mut IoStats,
    ) -> RxBatch<'_> {
        stats.rx_syscalls += 1;
        let (memory, arrivals) = (&mut self.memory, &mut self.arrivals);
        match socket.receive_messages(memory, self.buffer_bytes, self.asked, arrivals) {
            Ok(()) => self.take_arrivals(routes, stats),
            Err(error) => {
                self.asked = 1;
                match error.kind() {
                    io::ErrorKind::WouldBlock => stats.rx_syscalls_empty += 1,
                    _ => stats.rx_errors += 1,
                }
                RxBatch::EMPTY
            }
        }
    }

    #[inline]
    fn take_arrivals(&mut self, routes: &RouteTable, stats: &mut IoStats) -> RxBatch<'_> {
        let filled = self.arrivals.len() == self.asked;
        let before = stats.rx_frames;
        self.chunks.clear();
        self.origins.clear();
        for (index, arrival) in self.arrivals.iter().enumerate() {
            if let Some(drops) = arrival.control.drops {
                stats.rx_overflows += u64::from(drops.wrapping_sub(self.drops));
                self.drops = drops;
            }
            if arrival.truncated {
                stats.rx_truncated += 1;
            } else if arrival.len > 0 {
                let segment_bytes = segment_bytes(arrival);
                stats.rx_frames += arrival.len.div_ceil(segment_bytes) as u64;
                stats.rx_bytes += arrival.len as u64;
                self.origins.push(self.latest.origin_of(&arrival.source, routes));
                self.chunks.push(RxChunk {
                    offset: (index * self.buffer_bytes) as u32,
                    len: arrival.len as u32,
                    segment_bytes: segment_bytes as u32,
                    ecn: arrival.control.ecn,
                });
            }
        }
        let enough = stats.rx_frames - before >= FRAMES_ENOUGH;
        self.asked = match (filled, enough) {
            (true, false) => (self.asked * 2).min(RECEIVE_MESSAGES_MAX),
            (true, true) => self.asked,
            (false, _) => 1,
        };
        RxBatch { memory: &self.memory, chunks: &self.chunks, origins: &self.origins }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::SocketAddr;

    use super::*;

    fn pair() -> (GsoSocket, GsoSocket) {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bind = || GsoSocket::bind(address, 1 << 20).expect("loopback has a free port");
        (bind(), bind())
    }

    fn routes() -> RouteTable {
        RouteTable::new(1)
    }

    fn send(from: &GsoSocket, to: &GsoSocket, bytes: &[u8], segment_bytes: Option<u16>) {
        from.send(Some(to.local_address()), &[IoSlice::new(bytes)], segment_bytes)
            .expect("loopback takes a datagram");
    }

    #[test]
    fn asks_for_more_while_all_buffers_fill_and_for_one_after_that() {
        let (from, to) = pair();
        let mut receiver = Receiver::new(BUFFER_BYTES);
        let mut stats = IoStats::default();
        (0..20).for_each(|byte| send(&from, &to, &[byte], None));
        let mut batches = Vec::new();
        while stats.rx_syscalls_empty == 0 {
            batches.push(receiver.receive(&to, &routes(), &mut stats).chunks.len());
        }
        assert_eq!(batches, [1, 2, 4, 8, 5, 0]);
        assert_eq!(receiver.asked, 1);
        assert_eq!((stats.rx_syscalls, stats.rx_frames, stats.rx_bytes), (6, 20, 20));
    }

    #[test]
    fn where_datagrams_come_from_follows_the_routes() {
        let (from, to) = pair();
        let mut receiver = Receiver::new(BUFFER_BYTES);
        let (mut stats, mut routes) = (IoStats::default(), routes());
        let mut origin = |routes: &RouteTable| {
            send(&from, &to, &[1], None);
            loop {
                if let [origin] = receiver.receive(&to, routes, &mut stats).origins {
                    return *origin;
                }
            }
        };
        assert_eq!(origin(&routes), Origin::STRANGER);
        let route = routes.insert(from.local_address(), 100).expect("there is room");
        assert_eq!(origin(&routes), Origin(route.0));
        assert_eq!(origin(&routes), Origin(route.0));
        routes.release(route);
        assert_eq!(origin(&routes), Origin::STRANGER);
    }

    #[test]
    fn does_not_ask_for_more_than_a_train_at_a_time() {
        let (from, to) = pair();
        let mut receiver = Receiver::new(BUFFER_BYTES);
        let mut stats = IoStats::default();
        let few = FRAMES_ENOUGH as usize / 4;
        let mut batches = |frames: usize, trains: usize| {
            (0..trains).for_each(|_| send(&from, &to, &vec![7; frames * 100], Some(100)));
            let until = stats.rx_frames + (frames * trains) as u64;
            let mut batches = Vec::new();
            while stats.rx_frames < until {
                batches.push(receiver.receive(&to, &routes(), &mut stats).chunks.len());
            }
            receiver.expect_few();
            batches
        };
        assert_eq!(batches(FRAMES_ENOUGH as usize, 4), [1, 1, 1, 1]);
        assert_eq!(batches(few, 7), [1, 2, 4], "short ones, until there are enough frames");
    }

    #[test]
    fn truncated_datagrams_are_counted_and_dropped() {
        let (from, to) = pair();
        let mut receiver = Receiver::new(64);
        let mut stats = IoStats::default();
        send(&from, &to, &[1; 65], None);
        send(&from, &to, &[2; 64], None);
        let first: Vec<_> =
            receiver.receive(&to, &routes(), &mut stats).frames().map(|f| f.bytes.len()).collect();
        assert!(first.is_empty());
        let second: Vec<_> = receiver
            .receive(&to, &routes(), &mut stats)
            .frames()
            .map(|f| f.bytes.to_vec())
            .collect();
        assert_eq!(second, [[2; 64]]);
        assert_eq!((stats.rx_truncated, stats.rx_frames), (1, 1));
    }

    #[test]
    fn an_empty_datagram_is_no_frame() {
        let (from, to) = pair();
        let mut receiver = Receiver::new(BUFFER_BYTES);
        let mut stats = IoStats::default();
        send(&from, &to, &[], None);
        assert!(receiver.receive(&to, &routes(), &mut stats).chunks.is_empty());
        assert_eq!((stats.rx_frames, stats.rx_syscalls_empty), (0, 0));
    }

    #[test]
    fn overflows_of_the_socket_buffer_are_counted() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let (from, _) = pair();
        let to = GsoSocket::bind(address, 4096).expect("loopback has a free port");
        let mut receiver = Receiver::new(BUFFER_BYTES);
        let mut stats = IoStats::default();
        (0..200).for_each(|_| send(&from, &to, &[7; 1000], None));
        while stats.rx_syscalls_empty == 0 {
            receiver.receive(&to, &routes(), &mut stats);
        }
        // The count rides on datagrams that were queued after the drops.
        send(&from, &to, &[7; 1000], None);
        receiver.receive(&to, &routes(), &mut stats);
        assert_eq!(stats.rx_frames + stats.rx_overflows, 201);
        assert!(stats.rx_overflows > 0);
    }
}
