//! Which of the two is asked for packets next.

use petasos_netio::RxBatch;

/// How long UDP may have to wait while the rings are busy: one for each turn, and one more for
/// each [`PATIENCE_BYTES`] that a turn brings.
///
/// A turn that receives from a ring takes 25 ns to 0.3 µs with small packets, and 5 µs with the
/// 32 KiB that a ring gives at most, which count as 17: so UDP is asked every 3 to 40 µs. That is
/// no more than its own round trip adds, and far less than a receive buffer of 4 MiB takes to
/// overflow (600 µs at the 58 Gbit/s that loopback reaches). An empty look at the socket costs
/// 0.2 µs, a hundredth to a twentieth of that time.
pub(crate) const UDP_PATIENCE: u32 = 128;

/// See [`UDP_PATIENCE`].
const PATIENCE_BYTES: usize = 2048;

/// Turns in a row in which the rings bring nothing after which they no longer count as busy: some
/// 10 µs, longer than a round trip through them.
const BUSY_TURNS: u32 = 512;

/// Whose turn it is to be asked for packets.
#[derive(Default)]
pub(crate) struct Turns {
    /// What is left of UDP's patience while the rings are busy.
    patience: u32,
    /// What UDP's next patience will be: halved by packets, doubled by their absence.
    interval: u32,
    /// Turns until the rings no longer count as busy.
    busy: u32,
    /// The rings are asked first: UDP brought something the last time.
    pub(crate) rings_first: bool,
}

impl Turns {
    /// Begins a turn. Returns whether UDP is asked at all.
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
