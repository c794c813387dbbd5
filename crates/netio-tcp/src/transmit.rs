//! The path of packets to the sockets.

use std::io::IoSlice;

use arrayvec::ArrayVec;
use petasos_netio::{Route, TX_BATCH_MAX, TxPacket};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::io::TcpIo;
use crate::record::{HEAD_BYTES, RECORD_BYTES_MAX, head};
use crate::routes::NONE;

/// A record's head, and the two pieces of a packet.
const PIECES: usize = 3;

/// Where packets on a route can go now.
enum Outlet {
    /// A connection whose socket may take something.
    Open(u32),
    /// There is a connection, but its socket is full or still connecting.
    Full,
    /// There is no connection, nor will there be one at once.
    None,
}

impl TcpIo {
    /// Sends a prefix of `run`, packets on one route. Returns its length.
    #[inline]
    pub(crate) fn transmit_run(&mut self, route: Route, run: &[TxPacket<'_>]) -> usize {
        let mut taken = 0;
        while taken < run.len() {
            let rest = &run[taken..];
            let fitting = rest.iter().take(TX_BATCH_MAX).take_while(|packet| self.fits(packet));
            let count = fitting.count();
            if count == 0 {
                self.stats.tx_errors += 1;
                taken += 1;
                continue;
            }
            let sent = match self.way(route) {
                Outlet::Open(index) => self.send(index, &rest[..count]),
                Outlet::Full => 0,
                Outlet::None => self.drop_packets(count),
            };
            taken += sent;
            if sent < count {
                self.stats.tx_full += 1;
                break;
            }
        }
        taken
    }

    /// Sends a prefix of a train. Returns its length in datagrams.
    #[inline]
    pub(crate) fn transmit_records(
        &mut self,
        route: Route,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> usize {
        if segment_bytes > self.config.datagram_bytes_max {
            // All except perhaps the last are too long.
            let mut taken = 0;
            for head in bytes.chunks(segment_bytes) {
                let count = self.transmit_run(route, &[TxPacket { route, head, body: &[] }]);
                taken += count;
                if count == 0 {
                    break;
                }
            }
            return taken;
        }
        let per_record = RECORD_BYTES_MAX / segment_bytes;
        let mut taken = 0;
        for record in bytes.chunks(per_record * segment_bytes) {
            let datagrams = record.len().div_ceil(segment_bytes);
            let sent = match self.way(route) {
                Outlet::Open(index) => self.send_record(index, record, segment_bytes),
                Outlet::Full => false,
                Outlet::None => self.drop_packets(datagrams) > 0,
            };
            if !sent {
                self.stats.tx_full += 1;
                break;
            }
            taken += datagrams;
        }
        taken
    }

    #[inline]
    fn fits(&self, packet: &TxPacket<'_>) -> bool {
        (1..=self.config.datagram_bytes_max).contains(&packet.len())
    }

    /// The way of packets on `route`. It begins with what is left of the packet before.
    #[inline]
    fn way(&mut self, route: Route) -> Outlet {
        let index = self.routes.get(route).map_or(NONE, |entry| entry.connection);
        match self.connections.get_mut(index) {
            Some(connection) if !connection.is_dialling => {
                match connection.flush(&mut self.stats.tx_syscalls) {
                    Ok(true) => Outlet::Open(index),
                    Ok(false) => Outlet::Full,
                    Err(_) => {
                        self.lose(index);
                        Outlet::None
                    }
                }
            }
            _ => self.way_by_dialling(route),
        }
    }

    /// The way on a route whose peer has to be dialled first.
    #[cold]
    fn way_by_dialling(&mut self, route: Route) -> Outlet {
        match self.routes.get(route).map(|entry| entry.connection) {
            None => return Outlet::None,
            Some(NONE) => self.dial(route),
            Some(index) => self.finish_dialling(index),
        }
        let index = self.routes.get(route).map_or(NONE, |entry| entry.connection);
        match self.connections.get_mut(index) {
            None => Outlet::None,
            Some(connection) if connection.is_dialling => Outlet::Full,
            Some(connection) => match connection.flush(&mut self.stats.tx_syscalls) {
                Ok(true) => Outlet::Open(index),
                _ => Outlet::Full,
            },
        }
    }

    /// Sends as many of `packets` as the socket takes; at most [`TX_BATCH_MAX`] are offered.
    #[inline]
    fn send(&mut self, index: u32, packets: &[TxPacket<'_>]) -> usize {
        let gathered = self.config.gathering.is_on();
        let Some(connection) = self.connections.get_mut(index) else { return 0 };
        let calls = &mut self.stats.tx_syscalls;
        let Ok(sent) = send_packets(connection, packets, gathered, calls) else {
            self.lose(index);
            return self.drop_packets(packets.len());
        };
        self.stats.tx_frames += sent as u64;
        self.stats.tx_bytes +=
            packets[..sent].iter().map(|packet| packet.len() as u64).sum::<u64>();
        sent
    }

    /// Sends a train as one record. Returns whether the socket has taken any of it.
    #[inline]
    fn send_record(&mut self, index: u32, record: &[u8], segment_bytes: usize) -> bool {
        let gathered = self.config.gathering.is_on();
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let datagrams = record.len().div_ceil(segment_bytes);
        let head = head(record.len(), segment_bytes.min(record.len()));
        let pieces = [IoSlice::new(&head), IoSlice::new(record)];
        let Ok(written) = connection.write(&pieces, gathered, &mut self.stats.tx_syscalls) else {
            self.lose(index);
            return self.drop_packets(datagrams) > 0;
        };
        let all = written == HEAD_BYTES + record.len();
        connection.note_sent(written, all);
        if written == 0 {
            return false;
        }
        if !all {
            connection.keep_unsent(&pieces, written);
        }
        self.stats.tx_frames += datagrams as u64;
        self.stats.tx_bytes += record.len() as u64;
        true
    }

    /// Counts packets that are dropped because there is no connection. They count as sent.
    #[cold]
    fn drop_packets(&mut self, count: usize) -> usize {
        self.stats.tx_errors += count as u64;
        self.tcp_stats.drops_unlinked += count as u64;
        count
    }
}

/// Offers `packets` to a connection's socket. Returns how many of them are sent, or will be: what
/// the socket did not take of the last one is kept.
#[inline]
fn send_packets(
    connection: &mut Connection,
    packets: &[TxPacket<'_>],
    gathered: bool,
    calls: &mut u64,
) -> Result<usize, Errno> {
    let heads: ArrayVec<[u8; HEAD_BYTES], TX_BATCH_MAX> =
        packets.iter().map(|packet| head(packet.len(), packet.len())).collect();
    let pieces: ArrayVec<IoSlice<'_>, { TX_BATCH_MAX * PIECES }> = heads
        .iter()
        .zip(packets)
        .flat_map(|(head, packet)| [&head[..], packet.head, packet.body].map(IoSlice::new))
        .collect();
    let written = connection.write(&pieces, gathered, calls)?;
    let mut left = written;
    for (at, packet) in packets.iter().enumerate() {
        let bytes = HEAD_BYTES + packet.len();
        if left < bytes {
            connection.note_sent(written, false);
            if left > 0 {
                connection.keep_unsent(&pieces[at * PIECES..(at + 1) * PIECES], left);
            }
            return Ok(at + usize::from(left > 0));
        }
        left -= bytes;
    }
    connection.note_sent(written, true);
    Ok(packets.len())
}
