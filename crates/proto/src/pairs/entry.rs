//! One entry of the table.

use petasos_base::Time;
use petasos_wire::TRANSMISSION_NUMBERS;

use super::types::{Asking, AttachmentId, Member, PairId, WorkerSession};

/// The latest sendings that a pair remembers (RT10).
const REMEMBERED: usize = 8;

/// A first packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) attachment: AttachmentId,
    /// The epoch that it has named (RT30).
    pub(super) epoch: u16,
    pub(super) number: u64,
    pub(super) at: Time,
    /// It was rejected by a code that is certain (RT14).
    pub(super) is_rejected: bool,
}

/// The latest sendings of a pair.
#[derive(Debug, Default)]
pub(super) struct Sendings {
    latest: [Option<Sending>; REMEMBERED],
    /// All of them, also those that are forgotten.
    count: u32,
}

/// A pair, or the place of the next one.
#[derive(Debug)]
pub(super) struct Entry<C> {
    pub(super) tag: u32,
    pub(super) request: u64,
    pub(super) state: State,
    /// There is one until the pair has ended.
    pub(super) context: Option<C>,
    /// Of the pair, also after its end.
    pub(super) sendings: Sendings,
    /// When the earliest of its items in the wheel is due.
    pub(super) timed_at: Time,
    /// It is in the queue of those that send.
    pub(super) is_ready: bool,
}

/// RT11.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Asked(Asked),
    Bound(WorkerSession),
    Ended,
}

/// A pair that nobody has answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) is_claim: bool,
    pub(super) attachment: AttachmentId,
    /// Sendings, without those that followed a change of the router (RT13).
    pub(super) counted: u32,
    /// The next one follows a change of the router.
    pub(super) is_moved: bool,
    pub(super) repeat_at: Time,
    /// It is given up then if nothing comes.
    pub(super) end_at: Time,
    pub(super) timeout_at: Time,
}

impl Sendings {
    pub(super) fn push(&mut self, sending: Sending) {
        self.latest[self.count as usize % REMEMBERED] = Some(sending);
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The sending with this transmission.
    pub(super) fn by_echo(&self, echo: u32) -> Option<&Sending> {
        self.latest.iter().flatten().find(|sending| transmission(sending) == echo)
    }

    pub(super) fn by_echo_mut(&mut self, echo: u32) -> Option<&mut Sending> {
        self.latest.iter_mut().flatten().find(|sending| transmission(sending) == echo)
    }

    /// Whether every sending was rejected with certainty. Those that are forgotten were not.
    pub(super) fn are_rejected(&self) -> bool {
        let all_known = self.count as usize <= REMEMBERED;
        all_known && self.latest.iter().flatten().all(|sending| sending.is_rejected)
    }
}

fn transmission(sending: &Sending) -> u32 {
    (sending.number % u64::from(TRANSMISSION_NUMBERS)) as u32
}

impl Asked {
    pub(super) fn new(attachment: AttachmentId, asking: Asking) -> Asked {
        let Asking { is_claim, timeout_at, .. } = asking;
        let (counted, is_moved) = (0, false);
        let [repeat_at, end_at] = [Time::NEVER; 2];
        Asked { is_claim, attachment, counted, is_moved, repeat_at, end_at, timeout_at }
    }

    /// When something has to be done if nothing comes.
    pub(super) fn due(&self) -> Time {
        self.repeat_at.min(self.end_at).min(self.timeout_at)
    }
}

impl<C> Entry<C> {
    pub(super) fn new() -> Entry<C> {
        Entry {
            tag: 0,
            request: 0,
            state: State::Ended,
            context: None,
            sendings: Sendings::default(),
            timed_at: Time::NEVER,
            is_ready: false,
        }
    }

    /// Whether a packet answers a sending of the pair that went by the attachment of its sender.
    pub(super) fn has_sent(&self, echo: u32, from: Member) -> bool {
        let sending = self.sendings.by_echo(echo);
        sending.is_some_and(|sending| sending.attachment == from.attachment)
    }

    pub(super) fn is(&self, pair: PairId) -> bool {
        self.request == pair.request && self.context.is_some()
    }
}
