//! Counters of a plane.

use petasos_wire::RejectCode;

petasos_base::counters! {
    /// Rejections by code (RT25).
    pub struct RejectionStats {
        /// Of an epoch that is not taken.
        again,
        /// The queue, or the client's share of it, was full; or it waited as long as it may.
        queue_full,
        /// The call's deadline has passed.
        expired,
        /// Nobody may take it.
        no_worker,
        /// No such policy.
        unknown_policy,
    }
}

impl RejectionStats {
    /// Counts a rejection.
    pub(crate) fn count(&mut self, code: RejectCode) {
        *match code {
            RejectCode::QueueFull => &mut self.queue_full,
            RejectCode::Expired => &mut self.expired,
            RejectCode::NoWorker => &mut self.no_worker,
            RejectCode::UnknownPolicy => &mut self.unknown_policy,
            // Routers reject with no other code.
            _ => &mut self.again,
        } += 1;
    }
}

petasos_base::counters! {
    /// What a tier has done. What it has passed on, the plane counts.
    pub struct TierStats {
        /// First packets that went to a worker at once.
        given,
        /// First packets that were parked.
        parked,
        /// Of these, those that went to a worker later.
        unparked,
        /// Of these, those that were handed back, since they were too old or nobody was free.
        returned,
        /// Feedback that was heeded.
        feedback,
        /// First packets that were dropped although their number was taken, since others, at the
        /// same time, were faster.
        contended,
        /// Of all packets, those that were not passed on.
        taken,
        /// Of these, those that were sent.
        sent,
    }
}

petasos_base::counters! {
    /// What a plane has dropped, and what it has sent. What becomes of requests that are taken is
    /// in the core's counts.
    pub struct PlaneStats {
        /// Packets that are none, or of a kind that no router takes.
        malformed,
        /// First packets that are void (RT1, RT2, RT4).
        void,
        /// First packets of no client, with another tag, from another address, or for one (RT26).
        from_strangers,
        /// First packets whose number was taken before, or is too old (RT3).
        repeated,
        /// First packets that were given to workers.
        given,
        /// Of these, those that had to wait.
        waited,
        /// Rejections (RT25).
        rejected,
        /// Rejections that were not sent, since the epoch of what they reject is not taken any
        /// more, and its secret gone (RT30).
        unsealed,
        /// Requests that waited when their client was detached.
        orphaned,
        /// Probes (RT22).
        probes,
        /// Feedback that is void, of no worker, with other marks, or from another address (RT22).
        void_feedback,
        /// Turns that received nothing because too much waited to be sent.
        backed_up,
    }
}
