//! DCTCP-style control: the window is cut in proportion to the marked packets (RFC 8257).
//!
//! Unlike in the RFC, the window may fall below one packet; the packet is then paced as in Swift. A
//! hundred senders of one packet each are too many for a marking threshold of tens of packets.

use petasos_base::Time;

use super::range::{CongestionConfigError, check, is_fraction};
use super::window::Window;
use super::{Controller, Feedback, Output};

/// Parameters of DCTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpConfig {
    /// Weight of the newest round trip's marks in their average (above 0, at most 1): RFC 8257's
    /// g, 1/16.
    pub gain: f64,
    /// Additive increase, in packets per round trip (above 0).
    pub additive: f64,
    /// The window never falls below this, in packets (above 0, at most 1).
    pub window_min: f64,
    /// The window of a new session, in packets (from `window_min`).
    pub window_initial: f64,
}

impl Default for DctcpConfig {
    fn default() -> DctcpConfig {
        DctcpConfig { gain: 1.0 / 16.0, additive: 1.0, window_min: 0.01, window_initial: 8.0 }
    }
}

impl DctcpConfig {
    pub(super) fn validate(&self) -> Result<(), CongestionConfigError> {
        check("gain", is_fraction(self.gain))?;
        check("additive", self.additive > 0.0 && self.additive.is_finite())?;
        check("window_min", is_fraction(self.window_min))?;
        check("window_initial", self.window_initial >= self.window_min)
    }
}

/// The state of DCTCP for one session.
#[derive(Clone, Debug)]
pub(super) struct Dctcp {
    config: DctcpConfig,
    window: Window,
    packet_bytes: u32,
    /// The window up to which slow start doubles.
    threshold: f64,
    /// Average fraction of marked packets: the RFC's alpha.
    alpha: f64,
    rtt_ns: u64,
    /// Packets of the present observation window: those still to return, those that have returned,
    /// and the marked ones among these.
    left: u32,
    returned: u32,
    marked: u32,
    /// Whether the window has been cut in this observation window.
    cut: bool,
}

impl Dctcp {
    pub(super) fn new(config: DctcpConfig, packet_bytes: u32, max_packets: u32) -> Dctcp {
        Dctcp {
            window: Window::new(config.window_initial, config.window_min, max_packets),
            packet_bytes,
            threshold: f64::INFINITY,
            // RFC 8257, section 4.2: the first mark counts as much as a loss.
            alpha: 1.0,
            rtt_ns: 0,
            left: 0,
            returned: 0,
            marked: 0,
            cut: false,
            config,
        }
    }

    /// Cuts the window by `fraction`, unless this observation window has already seen a cut.
    fn cut(&mut self, fraction: f64) {
        if !self.cut {
            self.cut = true;
            self.window.set(self.window.packets() * (1.0 - fraction));
            self.threshold = self.window.packets();
        }
    }

    /// Ends an observation window: everything in flight at its beginning has returned.
    fn end_observation(&mut self, in_flight: u32) {
        let fraction = f64::from(self.marked.min(self.returned)) / f64::from(self.returned.max(1));
        self.alpha += self.config.gain * (fraction - self.alpha);
        if self.alpha < ALPHA_NONE {
            self.alpha = 0.0;
        }
        self.left = in_flight;
        (self.returned, self.marked) = (0, 0);
        self.cut = false;
    }
}

impl Controller for Dctcp {
    fn on_sample(&mut self, _now: Time, feedback: &Feedback) {
        if !feedback.served || self.rtt_ns == 0 {
            self.rtt_ns = feedback.rtt_ns.min(PACED_RTT_NS_MAX);
        }
        self.returned = self.returned.saturating_add(feedback.packets);
        self.marked = self.marked.saturating_add(feedback.marked);
        if feedback.marked > 0 {
            self.cut(self.alpha / 2.0);
        } else if !self.cut {
            let opening = self.window.packets() < self.threshold;
            let step = if opening { self.window.packets() } else { self.config.additive };
            self.window.grow(step, feedback.packets);
        }
        self.left = self.left.saturating_sub(feedback.packets);
        if self.left == 0 {
            self.end_observation(feedback.in_flight);
        }
    }

    fn on_loss(&mut self, _now: Time, _packets: u32) {
        self.cut(0.5);
    }

    fn on_timeout(&mut self, _now: Time) {
        // RFC 5681, section 3.1: one packet, and slow start up to half of what was in use.
        self.threshold = (self.window.packets() / 2.0).max(1.0);
        self.window.set(self.window.packets().min(1.0));
        // Nothing is in flight for which the observation could wait.
        (self.left, self.returned, self.marked, self.cut) = (0, 0, 0, false);
    }

    fn output(&self) -> Output {
        let clear = self.window.is_full() && self.alpha == 0.0 && !self.cut;
        let clear_below_ns = if clear { u64::MAX } else { 0 };
        Output {
            window_packets: self.window.whole(),
            pace: self.window.pace(self.packet_bytes, self.rtt_ns),
            clear_below_ns,
            clear_marks: 0,
            // The fraction of marks is an average over all packets, so all of them have to be
            // counted.
            unused_below_ns: clear_below_ns,
        }
    }

    fn scale(&mut self, factor: f64) {
        if !self.window.is_full() {
            self.window.set(self.window.packets() * factor);
            self.threshold *= factor;
        }
    }
}

/// Longer round trips come from a descheduled peer, not from a queue. A pace derived from them
/// would silence a small window for seconds.
const PACED_RTT_NS_MAX: u64 = 10_000_000;
/// An average of marks below this counts as none: the cut that it would cause is 1 in 2048.
const ALPHA_NONE: f64 = 1.0 / 1024.0;
