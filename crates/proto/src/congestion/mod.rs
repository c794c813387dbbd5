//! Congestion control of a client session: how many packets may be in flight, and how fast.
//!
//! A [`Congestion`] is one session's state. It performs no I/O and reads no clock: the session
//! reports what happened to its packets ([`Congestion::on_sample`], [`Congestion::on_loss`],
//! [`Congestion::on_timeout`]), and asks for a window and a pace before it sends. Waiting for the
//! pace is up to the embedding code, which parks *sessions* in a timing wheel, never packets
//! (`docs/congestion.md`).
//!
//! Invariant: the fields that the hot path reads (`window_packets`, `pace`, the bounds of the
//! bypass) are copies of the algorithm's latest output, refreshed after each update. So a packet of
//! an uncongested session costs two comparisons, whichever algorithm runs, and does not touch the
//! algorithm's own memory.

mod config;
mod dctcp;
mod pace;
mod range;
mod swift;
mod timely;
mod window;

#[cfg(test)]
mod tests;

use petasos_base::Time;

pub use config::{AlgorithmConfig, CongestionConfig};
pub use dctcp::DctcpConfig;
pub use pace::{Pace, Pacer};
pub use range::CongestionConfigError;
pub use swift::SwiftConfig;
pub use timely::TimelyConfig;

use dctcp::Dctcp;
use swift::Swift;
use timely::Timely;

/// What returned packets show: one exact round trip, and the packets that returned since the
/// previous one.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// Exact round trip of one transmission, in nanoseconds.
    pub rtt_ns: u64,
    /// Packets that returned since the last feedback, including the one with the round trip.
    pub packets: u32,
    /// How many of those carried a congestion mark (at most `packets`).
    pub marked: u32,
    /// Packets of the session that are still in flight.
    pub in_flight: u32,
    /// The round trip includes a handler's time, so it is only an upper bound for the path: it can
    /// show that the path is free, never that it is congested.
    pub served: bool,
}

/// One algorithm, for one session. Its output changes only in the three `on_*` methods.
trait Controller {
    /// Packets returned.
    fn on_sample(&mut self, now: Time, feedback: &Feedback);

    /// `packets` (at least 1) were found lost, because later ones came back.
    fn on_loss(&mut self, now: Time, packets: u32);

    /// Nothing came back for a whole retransmission timeout.
    fn on_timeout(&mut self, now: Time);

    /// What the session may do until the next input.
    fn output(&self) -> Output;

    /// The session has `factor` times the part of its path that it had, as others share it. One
    /// that has not met congestion stays so: its part is as large as it ever may be.
    fn scale(&mut self, factor: f64);
}

/// What an algorithm allows.
#[derive(Clone, Copy, Debug)]
struct Output {
    /// Packets in flight, from 1.
    window_packets: u32,
    /// `None` if the window alone suffices.
    pace: Option<Pace>,
    /// Round trips below this, with at most `clear_marks` marked packets, would change nothing: the
    /// session already may send as much as it ever may.
    clear_below_ns: u64,
    clear_marks: u32,
    /// The same bound for a session that uses at most a quarter of its window.
    unused_below_ns: u64,
}

/// The congestion control of one session. See the module's documentation.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Congestion {
    clear_below_ns: u64,
    clear_marks: u32,
    window_packets: u32,
    unused_below_ns: u64,
    pace: Option<Pace>,
    /// The pace for when the algorithm sets none: `None` with the pacing bypass.
    pace_least: Option<Pace>,
    rate_bypass: bool,
    algorithm: Algorithm,
}

/// Boxed, so that a session without congestion control does not reserve memory for an algorithm.
#[derive(Clone, Debug)]
enum Algorithm {
    None,
    Timely(Box<Timely>),
    Swift(Box<Swift>),
    Dctcp(Box<Dctcp>),
}

impl Congestion {
    /// A session that is not known to be congested. `window_max_packets` (at least 1) is the most
    /// that the receiver may ever grant; a window of that size means "not congested".
    ///
    /// # Panics
    /// If `config` is not valid. [`CongestionConfig::validate`] checks it beforehand.
    pub fn new(config: &CongestionConfig, window_max_packets: u32) -> Congestion {
        config.validate().expect("congestion control is configured within its ranges");
        let (max, bytes) = (window_max_packets, config.packet_bytes);
        let link = config.link_bytes_per_s;
        let algorithm = match config.algorithm {
            AlgorithmConfig::None => Algorithm::None,
            AlgorithmConfig::Timely(timely) => Algorithm::Timely(Timely::new(timely, link).into()),
            AlgorithmConfig::Swift(swift) => Algorithm::Swift(Swift::new(swift, bytes, max).into()),
            AlgorithmConfig::Dctcp(dctcp) => Algorithm::Dctcp(Dctcp::new(dctcp, bytes, max).into()),
        };
        let link = Pace::from_bytes_per_s(link as f64);
        let mut congestion = Congestion {
            clear_below_ns: u64::MAX,
            clear_marks: u32::MAX,
            unused_below_ns: u64::MAX,
            window_packets: u32::MAX,
            pace: None,
            pace_least: (!config.pacing_bypass).then_some(link),
            rate_bypass: config.rate_bypass,
            algorithm,
        };
        congestion.refresh();
        congestion
    }

    /// Whether a round trip of `rtt_ns`, with `marked` packets and `used` packets in flight, would
    /// change nothing: the session is not congested and the sample shows no congestion (the rate
    /// bypass). Such a sample need not be reported.
    ///
    /// A session that uses at most a quarter of its window does not widen it, because a wider
    /// window would not reflect what is known about the path (RFC 7661, section 4.4). With
    /// thousands of sessions most samples are of this kind, and the state of their algorithms is in
    /// no cache.
    #[inline(always)]
    pub fn is_clear(&self, rtt_ns: u64, marked: u32, used: u32) -> bool {
        let unused = used <= self.window_packets / 4;
        let below_ns = if unused { self.unused_below_ns } else { self.clear_below_ns };
        rtt_ns < below_ns && marked <= self.clear_marks
    }

    /// Reports that packets returned at `now`. Returns whether window or pace may have changed.
    #[inline(always)]
    pub fn on_sample(&mut self, now: Time, feedback: &Feedback) -> bool {
        let Feedback { rtt_ns, packets, marked, in_flight, .. } = *feedback;
        let news = !self.is_clear(rtt_ns, marked, in_flight.saturating_add(packets));
        if news {
            self.update(now, Input::Sample(feedback));
        }
        news
    }

    /// Reports that `packets` (at least 1) were found lost at `now`, because later ones came back.
    #[cold]
    pub fn on_loss(&mut self, now: Time, packets: u32) {
        self.update(now, Input::Loss(packets));
    }

    /// Reports that a retransmission timeout passed at `now`.
    #[cold]
    pub fn on_timeout(&mut self, now: Time) {
        self.update(now, Input::Timeout);
    }

    /// How many packets may be in flight with `credits` from the receiver; at least 1 if there are
    /// any. A window below one packet is one packet with a pace.
    #[inline(always)]
    pub fn window_packets(&self, credits: u32) -> u32 {
        credits.min(self.window_packets)
    }

    /// The pace for data in either direction: a pull is charged with the bytes that it makes the
    /// server send. `None` means unpaced: nothing needs to be charged.
    #[inline(always)]
    pub fn pace(&self) -> Option<Pace> {
        self.pace
    }

    /// Takes over what `other` has learnt, without allocating if both have the same algorithm.
    pub(crate) fn copy_from(&mut self, other: &Congestion) {
        match (&mut self.algorithm, &other.algorithm) {
            (Algorithm::Timely(to), Algorithm::Timely(from)) => (**to).clone_from(from),
            (Algorithm::Swift(to), Algorithm::Swift(from)) => (**to).clone_from(from),
            (Algorithm::Dctcp(to), Algorithm::Dctcp(from)) => (**to).clone_from(from),
            (to, from) => to.clone_from(from),
        }
        (self.pace_least, self.rate_bypass) = (other.pace_least, other.rate_bypass);
        (self.window_packets, self.pace) = (other.window_packets, other.pace);
        (self.clear_below_ns, self.clear_marks) = (other.clear_below_ns, other.clear_marks);
        self.unused_below_ns = other.unused_below_ns;
    }

    /// The path is shared differently: the part is `to / from` of what it was.
    pub(crate) fn scale(&mut self, from: u16, to: u16) {
        let factor = f64::from(to) / f64::from(from);
        match &mut self.algorithm {
            Algorithm::None => return,
            Algorithm::Timely(timely) => timely.scale(factor),
            Algorithm::Swift(swift) => swift.scale(factor),
            Algorithm::Dctcp(dctcp) => dctcp.scale(factor),
        }
        self.refresh();
    }

    /// Bytes of memory behind this value, except for its own size.
    pub fn footprint_bytes(&self) -> usize {
        match &self.algorithm {
            Algorithm::None => 0,
            Algorithm::Timely(timely) => size_of_val(&**timely),
            Algorithm::Swift(swift) => size_of_val(&**swift),
            Algorithm::Dctcp(dctcp) => size_of_val(&**dctcp),
        }
    }

    /// The only dispatch on the algorithm. It is off the common path.
    #[inline(never)]
    fn update(&mut self, now: Time, input: Input<'_>) {
        match &mut self.algorithm {
            Algorithm::None => return,
            Algorithm::Timely(timely) => input.give(timely.as_mut(), now),
            Algorithm::Swift(swift) => input.give(swift.as_mut(), now),
            Algorithm::Dctcp(dctcp) => input.give(dctcp.as_mut(), now),
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let output = match &self.algorithm {
            Algorithm::None => Output::UNLIMITED,
            Algorithm::Timely(timely) => timely.output(),
            Algorithm::Swift(swift) => swift.output(),
            Algorithm::Dctcp(dctcp) => dctcp.output(),
        };
        self.clear_below_ns = if self.rate_bypass { output.clear_below_ns } else { 0 };
        self.clear_marks = output.clear_marks;
        self.unused_below_ns = if self.rate_bypass { output.unused_below_ns } else { 0 };
        self.window_packets = output.window_packets;
        self.pace = output.pace.or(self.pace_least);
    }
}

impl Output {
    const UNLIMITED: Output = Output {
        window_packets: u32::MAX,
        pace: None,
        clear_below_ns: u64::MAX,
        clear_marks: u32::MAX,
        unused_below_ns: u64::MAX,
    };
}

/// What happened to a session.
enum Input<'a> {
    Sample(&'a Feedback),
    Loss(u32),
    Timeout,
}

impl Input<'_> {
    fn give<C: Controller>(self, controller: &mut C, now: Time) {
        match self {
            Input::Sample(feedback) => controller.on_sample(now, feedback),
            Input::Loss(packets) => controller.on_loss(now, packets),
            Input::Timeout => controller.on_timeout(now),
        }
    }
}
