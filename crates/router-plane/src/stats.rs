//! Counters of a plane.

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
