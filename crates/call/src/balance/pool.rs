//! Prequal's probe pool, and the quantile that tells hot servers from cold ones (its section 4).

use petasos_base::Time;

/// Probes in the pool at most (the paper's 16).
pub(super) const POOL: usize = 16;
/// A probe that is older says nothing any more (the paper's second).
pub(super) const AGE_MAX_NANOS: u64 = 1_000_000_000;
/// Calls running at a server are judged against this many servers' answers.
const WINDOW: usize = 64;
/// Servers with more calls running than this share of answers had are hot: 2^(−1/4), the paper's.
const HOT_QUANTILE: f64 = 0.84;

/// What a server said about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// The server's number.
    pub number: u32,
    /// Calls running there, and those sent there since, by this channel.
    pub running: u32,
    /// Its typical time.
    pub time_us: u32,
    /// When it said so.
    pub at: Time,
    /// Picks that it may still serve.
    pub uses: u32,
}

/// The probes that a pick chooses from: at most [`POOL`], one per server.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    probes: Vec<Probe>,
    /// Removals take the worst and the oldest in turns.
    worst_next: bool,
}

impl Pool {
    /// Adds a probe; an older one of the same server, or else of a pool of `capacity` the oldest,
    /// makes place.
    pub(super) fn insert(&mut self, probe: Probe, capacity: usize) {
        self.remove_server(probe.number);
        while self.probes.len() >= capacity.clamp(1, POOL) {
            self.remove_oldest();
        }
        self.probes.push(probe);
    }

    /// Newer news of a server whose probe is in the pool.
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

    /// Removes the worst probe or the oldest one, in turns: so the pool neither keeps what nobody
    /// wants nor what is out of date.
    pub(super) fn remove_one(&mut self, hot_above: u32) {
        if self.worst_next {
            let worst = (0..self.probes.len()).max_by_key(|&at| rank(&self.probes[at], hot_above));
            worst.map(|at| self.probes.swap_remove(at));
        } else {
            self.remove_oldest();
        }
        self.worst_next = !self.worst_next;
    }

    /// Takes the best probe: counts its use and the call that goes to its server, and removes it
    /// after its last use.
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

/// The hot-cold lexicographic rule, least is best: a cold server before any hot one; of the cold
/// ones the fastest, of the hot ones that with the fewest calls.
fn rank(probe: &Probe, hot_above: u32) -> (bool, u32, u32) {
    if probe.running > hot_above {
        (true, probe.running, probe.time_us)
    } else {
        (false, probe.time_us, probe.running)
    }
}

/// The calls running that the latest probes told of, in a window, for a quantile.
#[derive(Clone, Debug, Default)]
pub(super) struct Quantile {
    /// In order of arrival, a ring once it is full.
    ring: Vec<u32>,
    /// Where the next goes in a full ring.
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
