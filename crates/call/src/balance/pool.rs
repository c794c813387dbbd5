//! Prequal's probe pool, and the quantile that divides servers into hot and cold (section 4 of the
//! paper).

use petasos_base::Time;

/// The most probes in the pool (16, as in the paper).
pub(super) const POOL: usize = 16;
/// Probes that are older than this are dropped (one second, as in the paper).
pub(super) const AGE_MAX_NANOS: u64 = 1_000_000_000;
/// The number of latest answers from which the quantile of running calls is computed.
const WINDOW: usize = 64;
/// A server is hot if it has more running calls than this share of the answers: 2^(−1/4), as in the
/// paper.
const HOT_QUANTILE: f64 = 0.84;

/// The load that a server reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// The server's number.
    pub number: u32,
    /// The running calls that the server reported, plus those that this channel has sent there
    /// since.
    pub running: u32,
    /// The typical latency that the server reported.
    pub time_us: u32,
    /// When it was reported.
    pub at: Time,
    /// How many more picks may use it.
    pub uses: u32,
}

/// The probes for picks: at most [`POOL`], one per server.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    probes: Vec<Probe>,
    /// Removals alternate between the worst and the oldest probe.
    worst_next: bool,
}

impl Pool {
    /// Adds a probe. It replaces an older one of the same server. If the pool has reached
    /// `capacity`, it replaces the oldest one.
    pub(super) fn insert(&mut self, probe: Probe, capacity: usize) {
        self.remove_server(probe.number);
        while self.probes.len() >= capacity.clamp(1, POOL) {
            self.remove_oldest();
        }
        self.probes.push(probe);
    }

    /// Updates the probe of a server that has reported again, if it is in the pool.
    pub(super) fn refresh(&mut self, number: u32, running: u32, time_us: u32, at: Time) {
        if let Some(probe) = self.probes.iter_mut().find(|probe| probe.number == number) {
            *probe = Probe { running, time_us, at, ..*probe };
        }
    }

    pub(super) fn remove_server(&mut self, number: u32) {
        self.probes.retain(|probe| probe.number != number);
    }

    pub(super) fn remove_aged(&mut self, now: Time) {
        self.probes.retain(|probe| now.nanos_since(probe.at) <= AGE_MAX_NANOS);
    }

    pub(super) fn len(&self) -> usize {
        self.probes.len()
    }

    /// Removes the worst or the oldest probe, alternately, so that neither bad nor outdated probes
    /// accumulate.
    pub(super) fn remove_one(&mut self, hot_above: u32) {
        if self.worst_next {
            let worst = (0..self.probes.len()).max_by_key(|&at| rank(&self.probes[at], hot_above));
            worst.map(|at| self.probes.swap_remove(at));
        } else {
            self.remove_oldest();
        }
        self.worst_next = !self.worst_next;
    }

    /// Uses the best probe: counts the use and the call to its server, and removes the probe after
    /// its last use.
    pub(super) fn take_best(&mut self, hot_above: u32) -> Option<u32> {
        let best = (0..self.probes.len()).min_by_key(|&at| rank(&self.probes[at], hot_above))?;
        let probe = &mut self.probes[best];
        let number = probe.number;
        probe.running += 1;
        probe.uses = probe.uses.saturating_sub(1);
        if probe.uses == 0 {
            self.probes.swap_remove(best);
        }
        Some(number)
    }

    fn remove_oldest(&mut self) {
        let oldest = (0..self.probes.len()).min_by_key(|&at| self.probes[at].at);
        oldest.map(|at| self.probes.swap_remove(at));
    }
}

/// The hot-cold lexicographic rule; the smallest rank is best. Cold servers come before hot ones.
/// Among cold servers the fastest is best, among hot ones the one with the fewest calls.
fn rank(probe: &Probe, hot_above: u32) -> (bool, u32, u32) {
    if probe.running > hot_above {
        (true, probe.running, probe.time_us)
    } else {
        (false, probe.time_us, probe.running)
    }
}

/// A window of the running calls in the latest reports, for computing a quantile.
#[derive(Clone, Debug, Default)]
pub(super) struct Quantile {
    /// In order of arrival. Once full, it is a ring buffer.
    ring: Vec<u32>,
    /// The position of the next entry in a full ring.
    next: usize,
    /// The same numbers in ascending order.
    sorted: Vec<u32>,
}

impl Quantile {
    pub(super) fn add(&mut self, running: u32) {
        if self.ring.len() < WINDOW {
            self.ring.push(running);
        } else {
            let gone = core::mem::replace(&mut self.ring[self.next], running);
            self.next = (self.next + 1) % WINDOW;
            self.sorted.remove(self.sorted.partition_point(|&other| other < gone));
        }
        self.sorted.insert(self.sorted.partition_point(|&other| other < running), running);
    }

    /// A server with more calls running than this is hot.
    pub(super) fn hot_above(&self) -> u32 {
        let at = (self.sorted.len() as f64 * HOT_QUANTILE) as usize;
        self.sorted.get(at).copied().unwrap_or(u32::MAX)
    }
}
