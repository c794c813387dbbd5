//! Swift: the window follows the round trip's distance to a target.
//!
//! Kumar et al., SIGCOMM 2020, algorithm 1. Swift splits the round trip into the delays of the
//! fabric and of the endpoints, and keeps a window for each. Petasos measures one round trip, so it
//! has one window, whose target has to allow for the hosts ([`SwiftConfig::base_target_ns`]).

use petasos_base::Time;

use super::range::{CongestionConfigError, DELAY_NS_MAX, check, is_fraction};
use super::window::Window;
use super::{Controller, Feedback, Output};

/// Parameters of Swift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwiftConfig {
    /// The round trip to aim at, before scaling, in nanoseconds: propagation, the hosts' share,
    /// and enough queueing to keep the bottleneck busy.
    pub base_target_ns: u64,
    /// What each switch adds to the target, in nanoseconds (topology-based scaling).
    pub hop_ns: u64,
    /// Switches on the path, one way.
    pub hops: u32,
    /// The most that flow-based scaling adds to the target, in nanoseconds. Smaller windows mean
    /// that more flows share the bottleneck and that their bursts coincide.
    pub flow_range_ns: u64,
    /// The window at and below which flow-based scaling adds all of its range, in packets.
    pub flow_window_min: f64,
    /// The window at and above which it adds nothing, in packets (above `flow_window_min`).
    pub flow_window_max: f64,
    /// Additive increase, in packets per round trip (above 0).
    pub additive: f64,
    /// Multiplicative decrease: which part of the relative excess is cut (above 0, at most 1).
    pub beta: f64,
    /// The most that is cut per round trip, as a fraction (above 0, below 1).
    pub decrease_max: f64,
    /// By how many packets each lost packet shortens the window; `decrease_max` limits the sum per
    /// round trip. Infinity is the paper's choice: `decrease_max`, however many were lost. With a
    /// finite value, sparse random loss is not mistaken for a full queue.
    pub loss_packets: f64,
    /// The window never falls below this, in packets (above 0, at most 1).
    pub window_min: f64,
    /// The window of a new session, in packets (from `window_min`).
    pub window_initial: f64,
    /// Timeouts in a row after which the window falls to its minimum (from 1).
    pub timeouts_max: u32,
}

impl Default for SwiftConfig {
    fn default() -> SwiftConfig {
        SwiftConfig {
            base_target_ns: 30_000,
            hop_ns: 1_000,
            hops: 3,
            flow_range_ns: 30_000,
            flow_window_min: 0.1,
            flow_window_max: 16.0,
            additive: 1.0,
            beta: 0.8,
            decrease_max: 0.5,
            loss_packets: 4.0,
            window_min: 0.01,
            window_initial: 8.0,
            timeouts_max: 5,
        }
    }
}

impl SwiftConfig {
    pub(super) fn validate(&self) -> Result<(), CongestionConfigError> {
        check("base_target_ns", (1..=DELAY_NS_MAX).contains(&self.base_target_ns))?;
        check("hop_ns", self.hop_ns <= DELAY_NS_MAX)?;
        check("hops", self.hops <= 255)?;
        check("flow_range_ns", self.flow_range_ns <= DELAY_NS_MAX)?;
        let (least, most) = (self.flow_window_min, self.flow_window_max);
        check("flow_window_min", least > 0.0)?;
        check("flow_window_max", least < most && most.is_finite())?;
        check("additive", self.additive > 0.0 && self.additive.is_finite())?;
        check("beta", is_fraction(self.beta))?;
        check("decrease_max", is_fraction(self.decrease_max) && self.decrease_max < 1.0)?;
        check("loss_packets", self.loss_packets > 0.0)?;
        check("window_min", is_fraction(self.window_min))?;
        check("window_initial", self.window_initial >= self.window_min)?;
        check("timeouts_max", self.timeouts_max > 0)
    }
}

/// If a path's shortest round trip is more than this many configured targets, and more than a
/// millisecond, the path is longer than its configuration assumed, and would be throttled to
/// nothing although there is no queue. Such a path aims at its shortest round trip plus the
/// configured target. Queues alone do not make a path look that long: they were kept near the
/// target from the first packet on. (A target relative to the shortest round trip on every path
/// would favour the sessions that started early.)
const LONG_PATH: u64 = 4;
const LONG_PATH_NS_MIN: u64 = 1_000_000;

/// The state of Swift for one session.
#[derive(Clone, Debug)]
pub(super) struct Swift {
    config: SwiftConfig,
    window: Window,
    packet_bytes: u32,
    /// Whether the session has not met congestion yet, and so doubles its window each round trip.
    opening: bool,
    timeouts: u32,
    rtt_ns: u64,
    /// The shortest round trip ever seen, for [`LONG_PATH`].
    rtt_least_ns: u64,
    /// When the latest round of decreases began, and how far they may go.
    cut_at: Time,
    cut_to: f64,
    /// Factors of flow-based scaling: `flow_slope / sqrt(window) - flow_offset`.
    flow_slope_ns: f64,
    flow_offset_ns: f64,
}

impl Swift {
    pub(super) fn new(config: SwiftConfig, packet_bytes: u32, max_packets: u32) -> Swift {
        let at = |window: f64| 1.0 / window.sqrt();
        let span = at(config.flow_window_min) - at(config.flow_window_max);
        let flow_slope_ns = config.flow_range_ns as f64 / span;
        Swift {
            window: Window::new(config.window_initial, config.window_min, max_packets),
            packet_bytes,
            opening: true,
            timeouts: 0,
            rtt_ns: 0,
            rtt_least_ns: u64::MAX,
            cut_at: Time::ZERO,
            cut_to: 0.0,
            flow_slope_ns,
            flow_offset_ns: flow_slope_ns * at(config.flow_window_max),
            config,
        }
    }

    /// The round trip to aim at, with a window of `packets`.
    pub(super) fn target_ns(&self, packets: f64) -> u64 {
        let config = &self.config;
        let unscaled = config.base_target_ns + config.hop_ns * u64::from(config.hops);
        let flow = self.flow_slope_ns / packets.sqrt() - self.flow_offset_ns;
        unscaled + flow.clamp(0.0, config.flow_range_ns as f64) as u64
    }

    /// What the path's own length adds to the target, if it is far longer than configured.
    fn path_ns(&self) -> u64 {
        let long_ns = (LONG_PATH * self.config.base_target_ns).max(LONG_PATH_NS_MIN);
        let seen = self.rtt_least_ns != u64::MAX;
        if seen && self.rtt_least_ns > long_ns { self.rtt_least_ns } else { 0 }
    }

    /// Cuts the window by `fraction`, but by no more than `decrease_max` per round trip.
    fn cut(&mut self, now: Time, fraction: f64) {
        self.opening = false;
        if self.may_begin_cut(now) {
            self.cut_at = now;
            self.cut_to = self.window.packets() * (1.0 - self.config.decrease_max);
        }
        let packets = self.window.packets() * (1.0 - fraction.min(1.0));
        self.window.set(packets.max(self.cut_to.min(self.window.packets())));
    }

    fn may_begin_cut(&self, now: Time) -> bool {
        now.nanos_since(self.cut_at) >= self.rtt_ns
    }
}

impl Controller for Swift {
    fn on_sample(&mut self, now: Time, feedback: &Feedback) {
        self.timeouts = 0;
        let rtt_ns = feedback.rtt_ns;
        self.rtt_least_ns = self.rtt_least_ns.min(rtt_ns);
        let target_ns = self.path_ns() + self.target_ns(self.window.packets());
        if rtt_ns < target_ns {
            self.rtt_ns = rtt_ns;
            let step = if self.opening { self.window.packets() } else { self.config.additive };
            self.window.grow(step, feedback.packets);
        } else if !feedback.served {
            self.rtt_ns = rtt_ns;
            if self.may_begin_cut(now) {
                let excess = (rtt_ns - target_ns) as f64 / rtt_ns as f64;
                self.cut(now, self.config.beta * excess);
            }
        }
    }

    fn on_loss(&mut self, now: Time, packets: u32) {
        let lost = self.config.loss_packets * f64::from(packets);
        self.cut(now, lost / self.window.packets());
    }

    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.config.timeouts_max {
            self.window.set(self.config.window_min);
        } else {
            self.cut(now, self.config.decrease_max);
        }
    }

    fn output(&self) -> Output {
        let full = self.window.is_full();
        // A queue beyond the target is already being cut down. A pace derived from the round trip
        // of a past burst would keep a small window silent for many round trips.
        let target_ns = self.target_ns(self.window.packets());
        let rtt_ns = self.rtt_ns.min(target_ns);
        // The next good sample ends a row of timeouts.
        let unused_below_ns = if self.timeouts == 0 { target_ns } else { 0 };
        Output {
            window_packets: self.window.whole(),
            pace: self.window.pace(self.packet_bytes, rtt_ns),
            clear_below_ns: if full { self.target_ns(self.window.max()) } else { 0 },
            clear_marks: u32::MAX,
            unused_below_ns,
        }
    }

    fn scale(&mut self, factor: f64) {
        if !self.window.is_full() {
            self.window.set(self.window.packets() * factor);
            self.cut_to *= factor;
        }
    }
}
