//! Turns a batch of packets into system calls.
//!
//! Small packets are copied next to each other, so that a run is one piece: the kernel's cost per
//! piece is higher than the copy's. Larger packets are not copied. Each run is one message, and all
//! messages of a batch are one system call, unless the kernel stops in between.
//!
//! If the send queue fills in the middle of a batch, the prefix that is reported as sent ends at
//! the first packet that was not. Packets behind it that left with an earlier run (to another peer)
//! are then passed in again and sent twice. Datagrams may be duplicated anyway, and a duplicate
//! costs less than a loss.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use petasos_netio::{IoStats, Route, TX_BATCH_MAX, TxPacket};

use crate::plan::{Plan, RUN_BYTES_MAX, RUN_PACKETS_MAX, Run};
use crate::routes::RouteTable;
use crate::socket::{Discovery, GsoSocket};
use crate::sys::Message;

/// Where messages are sent: the socket, or a script of errors in tests.
pub(crate) trait Sink {
    /// Sends a prefix of `messages` and returns its length, at least 1. An error is the first's.
    fn send(&mut self, messages: &[Message<'_>]) -> io::Result<usize>;

    /// The largest datagram payload, in bytes, that leaves this host for `peer` unfragmented.
    fn path_bytes_max(&self, peer: SocketAddr) -> io::Result<usize>;

    /// Turns on or off that datagrams are fragmented as ICMP messages have reported. Returns
    /// whether it is on now.
    fn cut(&mut self, on: bool) -> bool;
}

impl Sink for GsoSocket {
    #[inline]
    fn send(&mut self, messages: &[Message<'_>]) -> io::Result<usize> {
        self.send_messages(messages)
    }

    fn path_bytes_max(&self, peer: SocketAddr) -> io::Result<usize> {
        let header_bytes = if peer.is_ipv4() { 20 + 8 } else { 40 + 8 };
        // The loopback interface's MTU is larger than an IP packet can be.
        let mtu = self.path_mtu(peer)?.min(65_535);
        Ok(mtu.saturating_sub(header_bytes).max(1))
    }

    fn cut(&mut self, on: bool) -> bool {
        let mode = if on { Discovery::Cuts } else { Discovery::Learns };
        self.set_discovery(mode).is_ok() && on
    }
}

/// The sending half of the backend.
pub(crate) struct Transmitter {
    /// Room for a batch of copied packets.
    staging: Box<[u8]>,
    plan: Plan,
    /// Whether trains are sent as one message.
    gso: bool,
}

/// Packets up to this length are copied.
const COPIED_BYTES_MAX: usize = 512;

/// Pieces of a batch: a head and a body per packet.
type Pieces<'a> = ArrayVec<IoSlice<'a>, { 2 * TX_BATCH_MAX }>;

/// Where each run's pieces start, and at the end where the last run's end.
type PieceBounds = ArrayVec<u8, { TX_BATCH_MAX + 1 }>;

/// The state that the steps of one transmission share.
struct Batch<'t, S> {
    sink: &'t mut S,
    routes: &'t mut RouteTable,
    packets: &'t [TxPacket<'t>],
    plan: &'t Plan,
    stats: &'t mut IoStats,
    gso: &'t mut bool,
}

impl Transmitter {
    pub(crate) fn new(gso: bool) -> Transmitter {
        let staging = vec![0; TX_BATCH_MAX * COPIED_BYTES_MAX].into_boxed_slice();
        Transmitter { staging, plan: Plan::default(), gso }
    }

    /// Whether trains are sent as one message.
    pub(crate) fn gso(&self) -> bool {
        self.gso
    }

    /// Sends a prefix of `packets` and returns its length.
    #[inline]
    pub(crate) fn transmit<S: Sink>(
        &mut self,
        sink: &mut S,
        routes: &mut RouteTable,
        packets: &[TxPacket<'_>],
        stats: &mut IoStats,
    ) -> usize {
        let mut taken = 0;
        for chunk in packets.chunks(TX_BATCH_MAX) {
            let count = self.transmit_chunk(sink, routes, chunk, stats);
            taken += count;
            if count < chunk.len() {
                break;
            }
        }
        taken
    }

    /// Sends a train without a copy, in one system call. `None` if that is impossible or failed;
    /// nothing has been sent then.
    #[inline]
    pub(crate) fn transmit_train<S: Sink>(
        &mut self,
        sink: &mut S,
        routes: &RouteTable,
        (route, bytes, segment_bytes): (Route, &[u8], usize),
        stats: &mut IoStats,
    ) -> Option<usize> {
        let entry = routes.get(route).filter(|entry| segment_bytes <= entry.whole_bytes_max)?;
        let packets = bytes.len().div_ceil(segment_bytes);
        let fits = packets == 1
            || (self.gso
                && (1..=RUN_PACKETS_MAX).contains(&packets)
                && bytes.len() <= RUN_BYTES_MAX);
        if !fits {
            return None;
        }
        let pieces = [IoSlice::new(bytes)];
        let segment_bytes = (packets > 1).then_some(segment_bytes as u16);
        let destination = Some(&entry.encoded);
        stats.tx_syscalls += 1;
        sink.send(&[Message { destination, pieces: &pieces, segment_bytes }]).ok()?;
        stats.tx_frames += packets as u64;
        stats.tx_bytes += bytes.len() as u64;
        Some(packets)
    }

    fn transmit_chunk<S: Sink>(
        &mut self,
        sink: &mut S,
        routes: &mut RouteTable,
        packets: &[TxPacket<'_>],
        stats: &mut IoStats,
    ) -> usize {
        self.plan.cut(packets, routes, self.gso);
        let plan = &self.plan;
        let (mut pieces, mut bounds) = (Pieces::new(), PieceBounds::new());
        gather(plan, packets, &mut self.staging, &mut pieces, &mut bounds);
        let gso = &mut self.gso;
        let mut batch = Batch { sink, routes, packets, plan, stats, gso };
        let taken = batch.send_runs(&pieces, &bounds);
        let rejected = plan.rejected_before(taken);
        if rejected != 0 {
            batch.settle_rejected(rejected);
        }
        taken
    }
}

impl<S: Sink> Batch<'_, S> {
    /// Sends the runs in order. Returns how many packets of the batch were sent or dropped.
    #[inline]
    fn send_runs(&mut self, pieces: &[IoSlice<'_>], bounds: &[u8]) -> usize {
        let runs = self.plan.runs();
        let mut next = 0;
        while next < runs.len() {
            match self.send_messages(next, pieces, bounds) {
                Ok(count) => {
                    runs[next..next + count].iter().for_each(|run| self.count_sent(run));
                    next += count;
                }
                Err(error) => {
                    if let Err(unsent) = self.settle(&runs[next], &error) {
                        let later = runs.get(next + 1).map(|run| self.plan.first_packet(run));
                        return later.map_or(unsent, |later| later.min(unsent));
                    }
                    next += 1;
                }
            }
        }
        self.packets.len()
    }

    /// One system call for as many runs, from number `first` on, as the kernel takes at once.
    #[inline]
    fn send_messages(
        &mut self,
        first: usize,
        pieces: &[IoSlice<'_>],
        bounds: &[u8],
    ) -> io::Result<usize> {
        let mut messages: ArrayVec<Message<'_>, TX_BATCH_MAX> = ArrayVec::new();
        for (run, bounds) in self.plan.runs().iter().zip(bounds.windows(2)).skip(first) {
            let entry = self.routes.get(run.route).expect("a planned run has a route");
            messages.push(Message {
                destination: Some(&entry.encoded),
                pieces: &pieces[bounds[0] as usize..bounds[1] as usize],
                segment_bytes: (run.packets > 1).then_some(run.segment_bytes as u16),
            });
        }
        self.stats.tx_syscalls += 1;
        self.sink.send(&messages)
    }

    /// Handles a failed run. `Err` is the position of the first packet that has to wait; with `Ok`,
    /// all packets of the run were sent or dropped.
    #[cold]
    fn settle(&mut self, run: &Run, error: &io::Error) -> Result<(), usize> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => {
                self.stats.tx_full += 1;
                return Err(self.plan.first_packet(run));
            }
            Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP) if run.packets > 1 => {
                let fits = self.fits_interface(run);
                return self.resend_as_singles(run, fits);
            }
            // The interface's MTU has become too small for one of the packets, and the kernel
            // fragments only single datagrams. The next train is tried again: a refusal costs
            // little compared with single sends.
            Some(libc::EMSGSIZE) if run.packets > 1 => return self.resend_as_singles(run, false),
            _ => {}
        }
        self.stats.tx_errors += run.packets as u64;
        Ok(())
    }

    /// Sends the packets of a run that was refused as a train one by one. If one of them succeeds
    /// although the train `should_pass`, the kernel or the device cannot handle trains, and no more
    /// trains are sent.
    fn resend_as_singles(&mut self, run: &Run, should_pass: bool) -> Result<(), usize> {
        for position in self.plan.ranges(run).flatten() {
            let packet = &self.packets[position];
            let entry = self.routes.get(run.route).expect("a planned run has a route");
            let pieces = [IoSlice::new(packet.head), IoSlice::new(packet.body)];
            let destination = Some(&entry.encoded);
            let message = Message { destination, pieces: &pieces, segment_bytes: None };
            self.stats.tx_syscalls += 1;
            match self.sink.send(&[message]) {
                Ok(_) => {
                    *self.gso &= !should_pass;
                    self.stats.tx_frames += 1;
                    self.stats.tx_bytes += packet.len() as u64;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => {
                        self.stats.tx_full += 1;
                        return Err(position);
                    }
                    _ => self.stats.tx_errors += 1,
                },
            }
        }
        Ok(())
    }

    /// Sends those `rejected` packets, one bit each, whose paths are in doubt, and lets the kernel
    /// fragment them as it has learnt from ICMP. The others can never be sent.
    #[cold]
    fn settle_rejected(&mut self, mut rejected: u64) {
        let mut cuts = false;
        while rejected != 0 {
            let packet = &self.packets[rejected.trailing_zeros() as usize];
            rejected &= rejected - 1;
            let entry = self.routes.get(packet.route);
            let doubted = entry.filter(|entry| (1..=entry.taken_bytes_max).contains(&packet.len()));
            let sent = doubted.is_some_and(|entry| {
                cuts = cuts || self.sink.cut(true);
                let pieces = [IoSlice::new(packet.head), IoSlice::new(packet.body)];
                let destination = Some(&entry.encoded);
                self.stats.tx_syscalls += 1;
                let message = Message { destination, pieces: &pieces, segment_bytes: None };
                self.sink.send(&[message]).is_ok()
            });
            self.stats.tx_errors += u64::from(!sent);
            self.stats.tx_frames += u64::from(sent);
            self.stats.tx_bytes += if sent { packet.len() as u64 } else { 0 };
        }
        if cuts {
            self.sink.cut(false);
        }
    }

    /// Whether the run's datagrams fit the present MTU of the interface to its peer.
    fn fits_interface(&self, run: &Run) -> bool {
        let entry = self.routes.get(run.route).expect("a planned run has a route");
        let widest = self.sink.path_bytes_max(entry.peer).unwrap_or(usize::MAX);
        run.segment_bytes <= widest
    }

    #[inline]
    fn count_sent(&mut self, run: &Run) {
        self.stats.tx_frames += run.packets as u64;
        self.stats.tx_bytes += run.bytes as u64;
    }
}

/// Collects the pieces of each run of `plan`, and where they start. Copies small packets into
/// `staging`, which has room for a batch of them.
#[inline]
fn gather<'a>(
    plan: &Plan,
    packets: &[TxPacket<'a>],
    mut staging: &'a mut [u8],
    pieces: &mut Pieces<'a>,
    bounds: &mut PieceBounds,
) {
    bounds.push(0);
    for run in plan.runs() {
        if run.segment_bytes <= COPIED_BYTES_MAX {
            let (copy, rest) = staging.split_at_mut(run.bytes);
            copy_run(plan, run, packets, copy);
            pieces.push(IoSlice::new(copy));
            staging = rest;
        } else {
            for packet in plan.ranges(run).flat_map(|range| &packets[range]) {
                let parts = [packet.head, packet.body].into_iter().filter(|part| !part.is_empty());
                pieces.extend(parts.map(IoSlice::new));
            }
        }
        bounds.push(pieces.len() as u8);
    }
}

/// Copies the packets of a run next to each other.
#[inline]
fn copy_run(plan: &Plan, run: &Run, packets: &[TxPacket<'_>], copy: &mut [u8]) {
    let mut rest = copy;
    for range in plan.ranges(run) {
        for packet in &packets[range] {
            rest = append(rest, packet.head);
            if !packet.body.is_empty() {
                rest = append(rest, packet.body);
            }
        }
    }
}

/// Copies `from` to the start of `to`, and returns the rest of `to`.
#[inline]
fn append<'a>(to: &'a mut [u8], from: &[u8]) -> &'a mut [u8] {
    let (place, rest) = to.split_at_mut(from.len());
    place.copy_from_slice(from);
    rest
}

#[cfg(test)]
mod tests;
