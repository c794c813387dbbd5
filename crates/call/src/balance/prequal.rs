//! Prequal (Wydrowski et al., NSDI 2024): a pool of recent probes of random servers, from which
//! each call takes the best by the hot-cold lexicographic rule.
//!
//! Here responses carry what a probe's answer would (R7), so a server that answered lately is not
//! probed: what it said counts as the answer. Sampling stays random, so that the pool is no
//! collection of the servers that are used anyhow. All else is as in the paper's section 4: three
//! probes per call, one removal per call, probes used several times if the pool would run dry, and
//! a call that is sent counts at once in the probe that chose its server.

use petasos_base::{Rng, Time};

use super::pool::{POOL, Pool, Probe, Quantile};
use super::{Report, Server, power_of_two};

/// Random servers looked at per call (the paper's probing rate).
const PROBES_PER_CALL: usize = 3;
/// Probes removed per call, beyond those used up or too old.
const REMOVALS_PER_CALL: u32 = 1;
/// The paper's δ: how much more probes are to come in than go out.
const SURPLUS: f64 = 1.0;
/// Below this many probes in the pool, calls go by power of two.
const POOL_MIN: usize = 2;
/// What a server said within this time is as good as a probe's answer.
const FRESH_NANOS: u64 = 2_000_000;
/// A probe without an answer is given up after this time, and the server may be probed again.
const ANSWER_NANOS: u64 = 1_000_000_000;

/// The state of one channel. Memory: 16 probes, and a few words per server.
#[derive(Clone, Debug, Default)]
pub(super) struct Prequal {
    pool: Pool,
    quantile: Quantile,
    /// By server number.
    heard: Vec<Heard>,
    /// Servers to be probed; each is `probing`.
    wanted: Vec<u32>,
    /// How often a new probe is used, for the servers of the last pick.
    uses: f64,
    capacity: usize,
}

/// The last word of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// Time, calls running and typical time, if it said something.
    last: Option<(Time, u32, u32)>,
    /// Since when a probe is wanted or under way.
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

    /// The paper's reuse: max(1, (1 + δ) / ((1 − m/n) · probes − removals)). A pool holds half of
    /// few servers, so that calls of several channels do not all meet at the best one.
    fn fit(&mut self, servers: usize) {
        self.capacity = servers.div_ceil(2).clamp(POOL_MIN, POOL);
        let missing = 1.0 - self.capacity as f64 / servers.max(1) as f64;
        let surplus = missing * PROBES_PER_CALL as f64 - f64::from(REMOVALS_PER_CALL);
        let uses = (1.0 + SURPLUS) / surplus;
        self.uses = if surplus > 0.0 && uses < POOL as f64 { uses.max(1.0) } else { POOL as f64 };
    }

    /// Looks at random servers: takes what they said lately, or asks for a probe.
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

    /// A call goes to a server, which will run one more than it last said.
    fn count(&mut self, number: u32) {
        if let Some((_, running, _)) = &mut self.heard(number).last {
            *running += 1;
        }
    }

    /// Puts a server's last word into the pool.
    fn admit(&mut self, number: u32, rng: &mut Rng) {
        let Some((at, running, time_us)) = self.heard(number).last else { return };
        self.quantile.add(running);
        // The paper rounds at random, so that the mean is kept.
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

/// Calls running and time. A server that says nothing counts as idle, and is judged by latency.
fn signals(report: Report) -> (u32, u32) {
    match report.load {
        Some(load) => (u32::from(load.running), load.time_us),
        None => (0, u32::try_from(report.latency.as_micros()).unwrap_or(u32::MAX)),
    }
}
