//! A pair that is bound to a worker: a session of one slot (RT12).

use petasos_base::Time;
use petasos_proto::ClientSession;
use petasos_proto::pairs::{PairId, WorkerSession};
use petasos_wire::WorkerBlock;

use super::links::LinkId;
use crate::core::CallContext;
use crate::sealed_links::SealId;
use crate::sessions::SessionId;

/// See the module's documentation. When the pair has ended, the session is bound to another.
pub(crate) struct Bound<S> {
    pub(crate) session: ClientSession<CallContext<S>>,
    pub(crate) pair: PairId,
    /// The attachment by which the call was made.
    pub(crate) of: SessionId,
    pub(crate) worker: WorkerSession,
    pub(crate) link: LinkId,
    /// What seals its packets; `None` in a group in plaintext.
    pub(crate) seal: Option<SealId>,
    /// Whether the first packet was only a claim: until the request is sent it cannot run.
    pub(crate) is_claim: bool,
    /// Distinguishes it in timers from earlier ones at its place.
    pub(crate) generation: u32,
    /// When the worker was last heard (RT14).
    pub(crate) heard_at: Time,
    /// As of sessions: see `ClientEntry`.
    pub(crate) dirty: bool,
    pub(crate) parked: bool,
    pub(crate) timer_at: Time,
    pub(crate) rearm_before: Time,
}

impl<S> Bound<S> {
    /// Whether an answer names this session.
    #[inline]
    pub(crate) fn is_named_by(&self, block: WorkerBlock) -> bool {
        (self.worker.session, self.worker.tag) == (block.session, block.tag)
    }

    /// Notes that the timer fires at `at`.
    pub(crate) fn set_timer(&mut self, at: Time) {
        self.timer_at = at;
        self.rearm_before = match at {
            Time::NEVER => Time::NEVER,
            at => Time::from_nanos(at.as_nanos().saturating_sub(self.session.timer_ns())),
        };
    }
}
