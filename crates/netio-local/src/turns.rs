//! Decides which of the two transports is polled next.

use petasos_netio::RxBatch;

/// How long UDP may have to wait while the rings are busy: one for each turn, and one more for each
/// [`PATIENCE_BYTES`] that a turn receives.
///
/// A turn that receives from a ring takes 25 ns to 0.3 µs with small packets, and 5 µs with 32 KiB,
/// the most that a ring delivers in a turn, which count as 17. So UDP is polled every 3 to 40 µs.
/// That adds no more than its own round trip, and is far less than the time to overflow a receive
/// buffer of 4 MiB (600 µs at loopback's 58 Gbit/s). Polling an empty socket costs 0.2 µs, a
/// hundredth to a twentieth of that time.
pub(crate) const UDP_PATIENCE: u32 = 128;

/// See [`UDP_PATIENCE`].
const PATIENCE_BYTES: usize = 2048;

/// After this many turns in a row in which the rings receive nothing, they no longer count as busy:
/// some 10 µs, longer than a round trip through them.
const BUSY_TURNS: u32 = 512;

/// Whose turn it is to be polled.
#[derive(Default)]
pub(crate) struct Turns {
    /// How much longer UDP waits while the rings are busy.
    patience: u32,
    /// How long UDP will wait next time: halved if it received packets, doubled if not.
    interval: u32,
    /// Turns until the rings no longer count as busy.
    busy: u32,
    /// Whether the rings are polled first, because UDP received something the last time.
    pub(crate) rings_first: bool,
}

impl Turns {
    /// Begins a turn. Returns whether UDP is polled in it.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        if self.busy == 0 {
            return true;
        }
        self.busy -= 1;
        self.patience = self.patience.saturating_sub(1);
        self.patience == 0
    }

    #[inline]
    pub(crate) fn note_rings(&mut self, batch: &RxBatch<'_>) {
        self.rings_first = false;
        if !batch.chunks.is_empty() {
            let bytes: usize = batch.chunks.iter().map(|chunk| chunk.len as usize).sum();
            self.patience = self.patience.saturating_sub((bytes / PATIENCE_BYTES) as u32);
            self.busy = BUSY_TURNS;
        }
    }

    #[inline]
    pub(crate) fn note_udp(&mut self, batch: &RxBatch<'_>) {
        self.rings_first = !batch.chunks.is_empty();
        self.interval = match self.rings_first {
            true => self.interval / 2,
            false => (2 * self.interval).clamp(1, UDP_PATIENCE),
        };
        self.patience = self.interval;
    }
}
