//! What the pairs of a link know together of the path between a client and a worker
//! (`docs/spec/route.md`, RT12).
//!
//! Pairs are short, and a session that begins anew each time would know nothing. So they begin with
//! what the others of their link have learnt, and leave what they have. Round trips through the
//! router are not among that.
//!
//! Pairs whose requests or responses have several packets *share* the link's window and pace: each
//! has one of `parts`, a power of two that is no less than the number of pairs. As it changes, each
//! pair's window is scaled ([`ClientSession::share`](crate::ClientSession::share)): so *k* pairs
//! send no more than one session would, and no pair is touched for each that comes or goes. What
//! takes one packet each way does not share.
//!
//! Likewise the link, not the pair, has a share of this end's receive queue (W26), of which each
//! pair pulls its part: so one that begins need not find out how much it may pull, and many short
//! ones do not count as many holders.

use crate::congestion::{Congestion, CongestionConfig};
use crate::params::Credits;
use crate::rtt::{RoundTrip, Timeout};
use crate::{Membership, SessionParams, Sharer, TimerConfig};

/// Beyond these, pairs have the same part as if there were so many: less than a packet, as a rule.
const PARTS_MAX: u16 = 1 << 12;

/// The path of a link. See the module's documentation.
#[derive(Clone, Debug)]
pub struct LinkPath {
    pub(crate) round_trip: RoundTrip,
    pub(crate) timeout: Timeout,
    /// Of all of the link's pairs together.
    pub(crate) congestion: Congestion,
    /// Pairs that share.
    sharers: u32,
    parts: u16,
    /// Of its pairs, but for names.
    params: SessionParams,
    /// The packets that its pairs may pull at a time, all together.
    pull_credits: Credits,
    membership: Membership,
}

impl LinkPath {
    /// Of a link without history, whose pairs have these parameters, but for names.
    ///
    /// # Panics
    /// If `congestion` is not valid.
    pub fn new(
        timers: &TimerConfig,
        congestion: &CongestionConfig,
        params: &SessionParams,
    ) -> LinkPath {
        LinkPath {
            round_trip: RoundTrip::default(),
            timeout: Timeout::new(timers),
            congestion: Congestion::new(congestion, params.credits_max),
            sharers: 0,
            parts: 1,
            params: *params,
            pull_credits: Credits::new(params.credits),
            membership: Membership::default(),
        }
    }

    /// Into how many parts the link is divided.
    #[inline]
    pub fn parts(&self) -> u16 {
        self.parts
    }

    /// Pairs that share the link.
    pub fn sharers(&self) -> u32 {
        self.sharers
    }

    /// The smoothed round trip in nanoseconds, `None` before the first sample.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.round_trip.smoothed_ns()
    }

    /// Which epoch's holder the link is, as of a session
    /// ([`ClientSession::membership`](crate::ClientSession::membership)).
    #[inline]
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// A packet that one of the pairs has pulled has arrived.
    #[inline]
    pub fn on_arrival(&mut self) {
        self.pull_credits.on_arrival();
    }

    /// The packets that each of the pairs that share may pull at a time.
    #[inline]
    pub(crate) fn pull_credits_each(&self) -> u32 {
        (self.pull_credits.get() / u32::from(self.parts)).max(1)
    }

    pub(crate) fn begin(&mut self) {
        self.sharers += 1;
        if self.sharers > u32::from(self.parts) && self.parts < PARTS_MAX {
            self.parts *= 2;
        }
    }

    /// A pair that had one of so many parts has ended.
    pub(crate) fn end(&mut self, learnt: &Congestion, parts: u16) {
        self.congestion.copy_from(learnt);
        self.congestion.scale(1, parts);
        self.sharers -= 1;
        // Not at once, so that a number that goes up and down changes nothing.
        if self.sharers <= u32::from(self.parts / 4) {
            self.parts = (self.parts / 2).max(1);
        }
    }
}

/// A new share takes effect with the next pull.
impl Sharer for LinkPath {
    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn take_share(&mut self, holders: u32) {
        self.pull_credits.aim_at(self.params.share(holders));
    }

    fn leave_share(&mut self) {
        self.pull_credits = Credits::new(self.params.credits);
    }
}
