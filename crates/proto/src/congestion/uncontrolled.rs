//! The hook that a client session calls as long as it holds no [`super::Congestion`].
//!
//! The session calls [`CongestionControl::on_sample`] for every packet that returns an exact
//! round trip, [`CongestionControl::on_loss`] for packets found lost, and asks
//! [`CongestionControl::window_packets`] before each transmission, beside the receiver's credits.

/// What one returned packet tells.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Exact round trip of one transmission, in nanoseconds.
    pub rtt_ns: u64,
    /// Whether the network marked congestion on the way to the server.
    pub marked: bool,
    /// Packets in flight on the session when it returned.
    pub in_flight: u32,
}

/// A session's congestion control, at the client.
pub trait CongestionControl {
    /// A packet returned.
    fn on_sample(&mut self, sample: Sample);

    /// `packets` were found lost.
    fn on_loss(&mut self, packets: u32);

    /// How many packets may be in flight, given what the receiver grants.
    fn window_packets(&self, credits: u32) -> u32;

    /// The pace in bytes per second at which packets may leave; `None` is unpaced.
    fn pace_bytes_per_s(&self) -> Option<u64>;
}

/// No congestion control: the receiver's credits alone limit the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncontrolled;

impl CongestionControl for Uncontrolled {
    #[inline]
    fn on_sample(&mut self, _sample: Sample) {}

    #[inline]
    fn on_loss(&mut self, _packets: u32) {}

    #[inline]
    fn window_packets(&self, credits: u32) -> u32 {
        credits
    }

    #[inline]
    fn pace_bytes_per_s(&self) -> Option<u64> {
        None
    }
}
