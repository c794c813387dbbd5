//! Which packets of a batch travel together.
//!
//! A *span* is a sequence of adjacent packets in the batch with one route and one length. A *run*
//! is what one message to the kernel carries: spans of one route and one length in the order of the
//! batch, and perhaps one shorter packet at the end. Invariants: each packet is in exactly one span
//! or rejected; the packets of a run, and the runs of a route, are in the order of the batch; runs
//! are ordered by their first packet; a run has at most [`RUN_PACKETS_MAX`] packets and
//! [`RUN_BYTES_MAX`] bytes.

use arrayvec::ArrayVec;
use petasos_netio::{Route, TX_BATCH_MAX, TxPacket};

use crate::routes::{RouteEntry, RouteTable};

/// How many datagrams every kernel with GSO accepts in one message.
pub(crate) const RUN_PACKETS_MAX: usize = 64;

/// Payload bytes that one message may carry on any path: 65535, less the longest pair of headers.
pub(crate) const RUN_BYTES_MAX: usize = 65_535 - 48;

const NO_SPAN: u8 = u8::MAX;

// Positions in a batch are stored in a byte, sets of them in 64 bits.
const _: () = assert!(TX_BATCH_MAX <= 64 && TX_BATCH_MAX < NO_SPAN as usize);

struct Span {
    start: u8,
    end: u8,
    /// The run's next span, or [`NO_SPAN`].
    next: u8,
}

/// Packets that one message carries.
pub(crate) struct Run {
    /// The route of all packets.
    pub route: Route,
    /// Payload bytes of each packet, except that the last may be shorter.
    pub segment_bytes: usize,
    /// Number of packets: 1 to [`RUN_PACKETS_MAX`].
    pub packets: usize,
    /// Payload bytes in all.
    pub bytes: usize,
    first_span: u8,
    last_span: u8,
    /// Whether a shorter packet has ended the run.
    closed: bool,
}

/// A batch, cut into runs. It is reused from batch to batch, because moving it would cost more than
/// filling it.
#[derive(Default)]
pub(crate) struct Plan {
    runs: ArrayVec<Run, TX_BATCH_MAX>,
    spans: ArrayVec<Span, TX_BATCH_MAX>,
    /// One bit per packet that cannot be sent unfragmented; most of these can never be sent.
    rejected: u64,
}

impl Plan {
    /// Cuts `packets`, at most [`TX_BATCH_MAX`], and forgets the previous batch. Without `trains`
    /// every packet is its own run.
    #[inline]
    pub(crate) fn cut(&mut self, packets: &[TxPacket<'_>], routes: &mut RouteTable, trains: bool) {
        self.runs.clear();
        self.spans.clear();
        self.rejected = 0;
        let batch = routes.next_batch();
        let mut start = 0;
        while let Some(first) = packets.get(start) {
            let len = first.len();
            let entry = routes.get_mut(first.route);
            let Some(entry) = entry.filter(|entry| len > 0 && len <= entry.whole_bytes_max) else {
                self.rejected |= 1 << start;
                start += 1;
                continue;
            };
            let count = if trains { span_packets(&packets[start..], first.route, len) } else { 1 };
            let span = Span { start: start as u8, end: (start + count) as u8, next: NO_SPAN };
            let open = (trains && entry.run_batch == batch).then_some(entry.run);
            if !open.is_some_and(|run| self.join(run, &span, len)) {
                self.open(first.route, &span, len, batch, entry);
            }
            self.spans.push(span);
            start += count;
        }
    }

    /// The runs, ordered by their first packet.
    #[inline]
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The position of a run's first packet.
    pub(crate) fn first_packet(&self, run: &Run) -> usize {
        self.spans[run.first_span as usize].start as usize
    }

    /// The positions of a run's packets, as ranges in ascending order.
    #[inline]
    pub(crate) fn ranges(&self, run: &Run) -> impl Iterator<Item = core::ops::Range<usize>> {
        let mut next = run.first_span;
        core::iter::from_fn(move || {
            let span = self.spans.get(next as usize)?;
            next = span.next;
            Some(span.start as usize..span.end as usize)
        })
    }

    /// Which of the first `count` packets cannot be sent unfragmented, one bit each.
    #[inline]
    pub(crate) fn rejected_before(&self, count: usize) -> u64 {
        let mask = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        self.rejected & mask
    }

    /// Adds the span that is about to be pushed to run number `run`, if it fits there.
    fn join(&mut self, run: u8, span: &Span, len: usize) -> bool {
        let run = &mut self.runs[run as usize];
        let count = (span.end - span.start) as usize;
        let tail = count == 1 && len < run.segment_bytes;
        let fits = run.packets + count <= RUN_PACKETS_MAX
            && run.bytes + count * len <= RUN_BYTES_MAX
            && (len == run.segment_bytes || tail);
        if run.closed || !fits {
            return false;
        }
        self.spans[run.last_span as usize].next = self.spans.len() as u8;
        run.last_span = self.spans.len() as u8;
        run.packets += count;
        run.bytes += count * len;
        run.closed = tail;
        true
    }

    /// Starts a run with the span that is about to be pushed.
    #[inline]
    fn open(&mut self, route: Route, span: &Span, len: usize, batch: u64, entry: &mut RouteEntry) {
        entry.run_batch = batch;
        entry.run = self.runs.len() as u8;
        let packets = (span.end - span.start) as usize;
        let span = self.spans.len() as u8;
        self.runs.push(Run {
            route,
            segment_bytes: len,
            packets,
            bytes: packets * len,
            first_span: span,
            last_span: span,
            closed: false,
        });
    }
}

/// How many packets at the start of `packets` go to `route`, have `len` bytes, and fit one run.
#[inline]
fn span_packets(packets: &[TxPacket<'_>], route: Route, len: usize) -> usize {
    let count_max = if len * RUN_PACKETS_MAX <= RUN_BYTES_MAX {
        RUN_PACKETS_MAX
    } else {
        (RUN_BYTES_MAX / len).max(1)
    };
    let candidates = &packets[1..packets.len().min(count_max)];
    let same = |packet: &&TxPacket<'_>| packet.route == route && packet.len() == len;
    1 + candidates.iter().take_while(same).count()
}

#[cfg(test)]
mod tests;
