//! An attachment, as far as asking by it is concerned: numbers, times and the budget of
//! repetitions.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::{FIRST_NUMBERS, TRANSMISSION_NUMBERS};

use super::PairConfig;
use super::entry::Sendings;
use super::types::{AskError, AttachmentId};
use crate::rtt::RoundTrip;

/// What repetitions cost, in first packets (RT13).
const REPETITION_COST: u32 = 10;
/// As many repetitions as may be made at once.
const BURST: u32 = 10;
/// The time that is worth a repetition.
const EARNED_EACH_NS: u64 = 4_000_000;

#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) id: AttachmentId,
    /// The epoch that first packets name (RT30).
    pub(super) epoch: u16,
    /// The number of the next first packet (RT3).
    next: u64,
    /// From first packet to answer.
    round_trip: RoundTrip,
    /// First packets that were sent and not repeated, and time; a repetition takes
    /// [`REPETITION_COST`].
    budget: u32,
    /// Time before this is in the budget.
    budgeted_at: Time,
    /// Pairs that ask by it.
    pub(super) asked: u32,
    pub(super) asked_max: u32,
}

impl Attachment {
    pub(super) fn new(id: AttachmentId, asked_max: u32, epoch: u16) -> Attachment {
        let (round_trip, budget) = (RoundTrip::default(), BURST * REPETITION_COST);
        let budgeted_at = Time::ZERO;
        Attachment { id, epoch, next: 1, round_trip, budget, budgeted_at, asked: 0, asked_max }
    }

    /// Whether another pair may ask by it.
    pub(super) fn admit(&self) -> Result<(), AskError> {
        match () {
            () if self.is_worn() => Err(AskError::Worn),
            () if self.asked >= self.asked_max => Err(AskError::Full),
            () => Ok(()),
        }
    }

    /// Half of the numbers are used.
    pub(super) fn is_worn(&self) -> bool {
        self.next >= FIRST_NUMBERS / 2
    }

    /// A number whose transmission differs from those of the pair's sendings that are under way.
    pub(super) fn number(&mut self, sendings: &Sendings) -> u64 {
        loop {
            let number = self.next;
            self.next += 1;
            let transmission = (number % u64::from(TRANSMISSION_NUMBERS)) as u32;
            if sendings.by_echo(transmission).is_none() {
                return number;
            }
        }
    }

    /// Notes a first packet that is no repetition.
    pub(super) fn note_first(&mut self) {
        self.budget = (self.budget + 1).min(BURST * REPETITION_COST);
    }

    /// Whether a pair that was sent so often may be repeated. Half of the budget is for pairs that
    /// were sent once.
    pub(super) fn may_repeat(&mut self, sendings: u32, now: Time) -> bool {
        let earned = now.nanos_since(self.budgeted_at) / EARNED_EACH_NS;
        if earned > 0 {
            let earned = earned.min(u64::from(BURST)) as u32 * REPETITION_COST;
            self.budget = (self.budget + earned).min(BURST * REPETITION_COST);
            self.budgeted_at = now;
        }
        let reserve = if sendings > 1 { BURST / 2 * REPETITION_COST } else { 0 };
        let may = self.budget >= reserve + REPETITION_COST;
        self.budget -= u32::from(may) * REPETITION_COST;
        may
    }

    pub(super) fn sample(&mut self, sent_at: Time, now: Time) {
        self.round_trip.sample(now.nanos_since(sent_at));
    }

    /// How long the first of a pair's packets is waited for.
    pub(super) fn ask(&self, config: &PairConfig) -> Duration {
        let four = |smoothed: u64| Duration::from_nanos(smoothed.saturating_mul(4));
        let ask = self.round_trip.smoothed_ns().map_or(config.ask_initial, four);
        ask.clamp(config.ask_min, config.ask_max)
    }
}
