//! What operators see of a plane, and what they change while packets come.

use petasos_router::{Adjustment, ConfigError, WorkerId, WorkerState};

use crate::clients::ClientCounts;
use crate::config::waiting_within;
use crate::plane::Plane;
use crate::stats::{RejectionStats, TierStats};

impl Plane {
    /// Goes by other settings from now on. As many requests may wait as there is memory for.
    ///
    /// # Errors
    /// The settings are wrong. Nothing has changed.
    pub fn adjust(&mut self, to: Adjustment) -> Result<(), ConfigError> {
        // What is too large is refused, not reduced.
        self.core.config().adjusted(to).check()?;
        let waiting_max = waiting_within(to.waiting_max, self.frames.frame_bytes());
        self.core.adjust(Adjustment { waiting_max, ..to })?;
        self.frames.make_room(waiting_max);
        self.waiting_max = waiting_max;
        self.start_tier();
        Ok(())
    }

    /// The settings in force that can change.
    pub fn adjustment(&self) -> Adjustment {
        self.core.config().adjustment()
    }

    /// Sets a worker's weight, in percent of a full one's. Returns whether it is a member.
    pub fn set_weight(&mut self, worker: WorkerId, weight: u8) -> bool {
        self.core.set_weight(worker, weight)
    }

    /// The members by their numbers, and what is known of each.
    pub fn member_states(&self) -> impl Iterator<Item = (u16, WorkerState)> {
        self.members().filter_map(|(id, number)| Some((number, self.worker(id)?)))
    }

    /// The member with a number.
    pub fn member(&self, worker: u16) -> Option<WorkerId> {
        self.members().find(|(_, number)| *number == worker).map(|(id, _)| id)
    }

    /// The number of the primary.
    pub fn primary(&self) -> Option<u16> {
        self.members.get(self.core.primary()?).map(|member| member.worker)
    }

    /// Bytes of requests that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.frames.bytes()
    }

    /// How many clients are attached.
    pub fn clients(&self) -> usize {
        self.clients.live()
    }

    /// What a client has sent, and how many of its requests wait.
    pub fn client(&self, client: u32) -> Option<(ClientCounts, usize)> {
        self.clients.get(client).map(|client| (client.counts, client.waiting))
    }

    /// What the tier before it has done, if it has one.
    pub fn tier_stats(&self) -> Option<TierStats> {
        self.tier.as_ref().map(|tiered| tiered.tier.stats())
    }

    /// Rejections by code.
    pub fn rejections(&self) -> &RejectionStats {
        &self.rejections
    }
}
