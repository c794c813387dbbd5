//! Timely: the sending rate follows the gradient of the round trip.
//!
//! Mittal et al., SIGCOMM 2015, with the weighted update of Zhu et al. (CoNEXT 2016, "patched
//! Timely"), as in eRPC.

use petasos_base::Time;

use super::range::{CongestionConfigError, DELAY_NS_MAX, check, is_fraction};
use super::{Controller, Feedback, Output, Pace};

/// Parameters of Timely. The default is eRPC's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelyConfig {
    /// Weight of the newest round-trip difference in the average (above 0, at most 1).
    pub alpha: f64,
    /// Multiplicative decrease (above 0, at most 1).
    pub beta: f64,
    /// The unit of gradients, and the least time between full steps, in nanoseconds (from 1).
    /// Shorter round trips are not taken into account.
    pub rtt_min_ns: u64,
    /// Round trips below this increase the rate whatever the gradient, in nanoseconds.
    pub low_ns: u64,
    /// Round trips above this decrease the rate whatever the gradient, in nanoseconds (above
    /// `low_ns`, at most 1 s).
    pub high_ns: u64,
    /// The step of additive increase, in bytes per second (above 0).
    pub add_bytes_per_s: f64,
    /// The rate never falls below this, in bytes per second (above 0, at most the link's).
    pub rate_min_bytes_per_s: f64,
    /// After this many falling round trips in a row, the steps are five times as long. Only the
    /// update as first published has this mode; that of Zhu et al. does not.
    pub hyperactive_after: u32,
    /// Whether to use the update of Zhu et al., which has a unique fixed point.
    pub patched: bool,
    /// The fraction of the rate that a loss takes away, once per round trip (0 to 1). Timely and
    /// eRPC have none (0): their switches had more buffer than `low_ns` takes to fill.
    pub loss_decrease: f64,
}

impl Default for TimelyConfig {
    fn default() -> TimelyConfig {
        TimelyConfig {
            alpha: 0.46,
            beta: 0.26,
            rtt_min_ns: 2_000,
            low_ns: 50_000,
            high_ns: 1_000_000,
            add_bytes_per_s: 5e6,
            rate_min_bytes_per_s: 15e6,
            hyperactive_after: 5,
            patched: true,
            loss_decrease: 0.25,
        }
    }
}

impl TimelyConfig {
    pub(super) fn validate(&self, link_bytes_per_s: u64) -> Result<(), CongestionConfigError> {
        check("alpha", is_fraction(self.alpha))?;
        check("beta", is_fraction(self.beta))?;
        check("rtt_min_ns", (1..=DELAY_NS_MAX).contains(&self.rtt_min_ns))?;
        check("high_ns", self.low_ns < self.high_ns && self.high_ns <= DELAY_NS_MAX)?;
        check("low_ns", self.low_ns > 0)?;
        check("add_bytes_per_s", self.add_bytes_per_s > 0.0 && self.add_bytes_per_s <= 1e12)?;
        let link = link_bytes_per_s as f64;
        let rate_min = self.rate_min_bytes_per_s;
        check("rate_min_bytes_per_s", rate_min > 0.0 && rate_min <= link)?;
        check("loss_decrease", (0.0..=1.0).contains(&self.loss_decrease))
    }
}

/// The state of Timely for one session.
#[derive(Clone, Debug)]
pub(super) struct Timely {
    config: TimelyConfig,
    link: f64,
    rate: f64,
    /// 0 before the first sample.
    rtt_ns: u64,
    difference_ns: f64,
    falling: u32,
    updated_at: Time,
    cut_at: Time,
}

impl Timely {
    /// Starts at the link's rate (eRPC, section 5.2.2).
    pub(super) fn new(config: TimelyConfig, link_bytes_per_s: u64) -> Timely {
        let link = link_bytes_per_s as f64;
        Timely {
            config,
            link,
            rate: link,
            rtt_ns: 0,
            difference_ns: 0.0,
            falling: 0,
            updated_at: Time::ZERO,
            cut_at: Time::ZERO,
        }
    }

    /// The rate after a sample, before it is limited.
    fn step(&self, rtt_ns: f64, weight: f64) -> f64 {
        let config = &self.config;
        let (low, high) = (config.low_ns as f64, config.high_ns as f64);
        let add = config.add_bytes_per_s * weight;
        let decrease = config.beta * weight;
        let gradient = self.difference_ns / config.rtt_min_ns as f64;
        if rtt_ns < low {
            self.rate + add
        } else if rtt_ns > high {
            self.rate * (1.0 - decrease * (1.0 - high / rtt_ns))
        } else if config.patched {
            let share = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
            let error = (rtt_ns - low) / low;
            self.rate * (1.0 - decrease * share * error) + add * (1.0 - share)
        } else if gradient <= 0.0 {
            let hyperactive = self.falling >= config.hyperactive_after;
            self.rate + if hyperactive { 5.0 * add } else { add }
        } else {
            self.rate * (1.0 - decrease * gradient)
        }
    }

    fn set_rate(&mut self, rate: f64) {
        // At most halved by one sample, as eRPC does; the link's rate is met exactly.
        self.rate = rate.max(self.rate * 0.5).min(self.link);
        self.rate = self.rate.max(self.config.rate_min_bytes_per_s);
    }
}

impl Controller for Timely {
    fn on_sample(&mut self, now: Time, feedback: &Feedback) {
        let rtt_ns = feedback.rtt_ns;
        if rtt_ns < self.config.rtt_min_ns || (feedback.served && rtt_ns >= self.config.low_ns) {
            return;
        }
        let before_ns = if self.rtt_ns == 0 { rtt_ns } else { self.rtt_ns };
        let difference = rtt_ns as f64 - before_ns as f64;
        self.falling = if difference < 0.0 { self.falling.saturating_add(1) } else { 0 };
        let alpha = self.config.alpha;
        self.difference_ns = (1.0 - alpha) * self.difference_ns + alpha * difference;
        let elapsed_ns = now.nanos_since(self.updated_at) as f64;
        let weight = (elapsed_ns / self.config.rtt_min_ns as f64).min(1.0);
        self.set_rate(self.step(rtt_ns as f64, weight));
        self.rtt_ns = rtt_ns;
        self.updated_at = now;
    }

    fn on_loss(&mut self, now: Time, _packets: u32) {
        if self.config.loss_decrease > 0.0 && now.nanos_since(self.cut_at) >= self.rtt_ns {
            self.cut_at = now;
            self.set_rate(self.rate * (1.0 - self.config.loss_decrease));
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.cut_at = now;
        self.set_rate(self.rate * 0.5);
    }

    fn output(&self) -> Output {
        let congested = self.rate < self.link;
        let clear_below_ns = if congested { 0 } else { self.config.low_ns };
        Output {
            window_packets: u32::MAX,
            pace: congested.then(|| Pace::from_bytes_per_s(self.rate)),
            clear_below_ns,
            clear_marks: u32::MAX,
            // The algorithm sets a rate, not a window, so it is unknown how much of it is used.
            unused_below_ns: clear_below_ns,
        }
    }

    fn scale(&mut self, factor: f64) {
        if self.rate < self.link {
            let rate = (self.rate * factor).min(self.link);
            self.rate = rate.max(self.config.rate_min_bytes_per_s);
        }
    }
}
