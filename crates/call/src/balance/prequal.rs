//! Prequal (Wydrowski et al., NSDI 2024): each call uses the best probe of a pool of recent probes
//! of random servers, by the hot-cold lexicographic rule.
//!
//! In this system, responses contain what the answer to a probe would contain (R7). A server that
//! has answered recently is therefore not probed: its response counts as the probe's answer.
//! Sampling stays random, so that the pool does not only contain the servers that are used anyway.
//! The rest follows section 4 of the paper: three probes per call, one removal per call, reuse of
//! probes if the pool would run empty, and each sent call counts at once in the probe that chose
//! its server.

use petasos_base::{Rng, Time};

use super::pool::{POOL, Pool, Probe, Quantile};
use super::{Report, Server, power_of_two};

/// The number of random servers to sample per call (the paper's probing rate).
const PROBES_PER_CALL: usize = 3;
/// Probes to remove per call, in addition to used-up and expired ones.
const REMOVALS_PER_CALL: u32 = 1;
/// The paper's δ: the surplus of added over removed probes.
const SURPLUS: f64 = 1.0;
/// If the pool has fewer probes than this, calls use power of two choices.
const POOL_MIN: usize = 2;
/// A report that is newer than this replaces a probe.
const FRESH_NANOS: u64 = 2_000_000;
/// After this time, an unanswered probe is abandoned, and the server may be probed again.
const ANSWER_NANOS: u64 = 1_000_000_000;

/// The state of one channel. Memory: 16 probes, and a few words per server.
#[derive(Clone, Debug, Default)]
pub(super) struct Prequal {
    pool: Pool,
    quantile: Quantile,
    /// Indexed by server number.
    heard: Vec<Heard>,
    /// Servers to be probed; each has `probing` set.
    wanted: Vec<u32>,
    /// How often a new probe may be used, for the servers of the last pick.
    uses: f64,
    capacity: usize,
}

/// The latest report of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// Time, running calls and typical latency, if it has reported any.
    last: Option<(Time, u32, u32)>,
    /// Since when a probe is requested or under way.
    probing: Option<Time>,
}

impl Prequal {
    pub(super) fn pick(&mut self, servers: &[Server], now: Time, rng: &mut Rng) -> Option<usize> {
        self.fit(servers.len());
        self.sample(servers, now, rng);
        self.pool.remove_aged(now);
        let picked = self.choose(servers, rng);
        if let Some(picked) = picked {
            self.count(servers[picked].number);
        }
        for _ in 0..REMOVALS_PER_CALL {
            self.remove_one();
        }
        picked
    }

    pub(super) fn handle_report(&mut self, number: u32, report: Report, now: Time) {
        let (running, time_us) = signals(report);
        self.heard(number).last = Some((now, running, time_us));
        self.pool.refresh(number, running, time_us, now);
    }

    pub(super) fn handle_probed(&mut self, number: u32, report: Report, now: Time, rng: &mut Rng) {
        self.heard(number).probing = None;
        self.handle_report(number, report, now);
        self.admit(number, rng);
    }

    pub(super) fn handle_probe_failed(&mut self, number: u32) {
        self.heard(number).probing = None;
        self.pool.remove_server(number);
    }

    pub(super) fn handle_gone(&mut self, number: u32) {
        *self.heard(number) = Heard::default();
        self.pool.remove_server(number);
        self.wanted.retain(|&wanted| wanted != number);
    }

    pub(super) fn poll_probe(&mut self) -> Option<u32> {
        self.wanted.pop()
    }

    fn remove_one(&mut self) {
        if self.pool.len() > POOL_MIN {
            self.pool.remove_one(self.quantile.hot_above());
        }
    }

    /// The paper's reuse: max(1, (1 + δ) / ((1 − m/n) · probes − removals)). If there are few
    /// servers, the pool holds only half of them, so that several channels do not all choose the
    /// best one.
    fn fit(&mut self, servers: usize) {
        self.capacity = servers.div_ceil(2).clamp(POOL_MIN, POOL);
        let missing = 1.0 - self.capacity as f64 / servers.max(1) as f64;
        let surplus = missing * PROBES_PER_CALL as f64 - f64::from(REMOVALS_PER_CALL);
        let uses = (1.0 + SURPLUS) / surplus;
        self.uses = if surplus > 0.0 && uses < POOL as f64 { uses.max(1.0) } else { POOL as f64 };
    }

    /// Samples random servers: uses their recent reports, or requests probes.
    fn sample(&mut self, servers: &[Server], now: Time, rng: &mut Rng) {
        let Some(last) = servers.len().checked_sub(1) else { return };
        for _ in 0..PROBES_PER_CALL {
            let number = servers[super::index(last + 1, rng)].number;
            let heard = self.heard(number);
            match heard.last {
                Some((at, ..)) if now.nanos_since(at) <= FRESH_NANOS => self.admit(number, rng),
                _ => self.want(number, now),
            }
        }
    }

    fn want(&mut self, number: u32, now: Time) {
        let heard = self.heard(number);
        if heard.probing.is_none_or(|since| now.nanos_since(since) > ANSWER_NANOS) {
            heard.probing = Some(now);
            self.wanted.push(number);
        }
    }

    /// Counts a call to a server on top of its last report.
    fn count(&mut self, number: u32) {
        if let Some((_, running, _)) = &mut self.heard(number).last {
            *running += 1;
        }
    }

    /// Adds a server's latest report to the pool.
    fn admit(&mut self, number: u32, rng: &mut Rng) {
        let Some((at, running, time_us)) = self.heard(number).last else { return };
        self.quantile.add(running);
        // Round at random, as the paper does, so that the mean stays right.
        let whole = self.uses.max(1.0);
        let uses = whole as u32 + u32::from(rng.chance(whole.fract()));
        let probe = Probe { number, running, time_us, at, uses };
        self.pool.insert(probe, self.capacity);
    }

    fn choose(&mut self, servers: &[Server], rng: &mut Rng) -> Option<usize> {
        while self.pool.len() >= POOL_MIN {
            let number = self.pool.take_best(self.quantile.hot_above())?;
            let picked = servers.iter().position(|server| server.number == number);
            if let Some(picked) = picked.filter(|&at| servers[at].has_room) {
                return Some(picked);
            }
            self.pool.remove_server(number);
        }
        power_of_two(servers, rng)
    }

    fn heard(&mut self, number: u32) -> &mut Heard {
        let at = number as usize;
        if self.heard.len() <= at {
            self.heard.resize(at + 1, Heard::default());
        }
        &mut self.heard[at]
    }
}

/// Running calls and latency. A server that reports no load counts as idle, and is judged by its
/// latency.
fn signals(report: Report) -> (u32, u32) {
    match report.load {
        Some(load) => (u32::from(load.running), load.time_us),
        None => (0, u32::try_from(report.latency.as_micros()).unwrap_or(u32::MAX)),
    }
}
