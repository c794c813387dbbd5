//! What workers announce, what others say for them, and what operators want.

use petasos_router::WorkerId;

use super::World;
use crate::settings;
use crate::support::feedback;

impl World {
    pub(super) fn change_bound(&mut self) {
        if let Some(id) = self.some_worker() {
            let bound = self.rng.below(6) as u16;
            self.workers.get_mut(&id).expect("it is a member").bound = bound;
            self.tell(id);
        }
    }

    pub(super) fn speak_for_a_stranger(&mut self) {
        let Some(id) = self.some_worker() else { return };
        let worker = &self.workers[&id];
        let sequence = worker.sequence + 1000;
        let received = self.router.worker(id).expect("it is a member").account.given() + 1;
        for told in [
            feedback(sequence, received, received, 4095),
            feedback(sequence, worker.received + 1, worker.received, 4095),
        ] {
            assert!(self.router.handle_feedback(self.now, id, &told).is_err());
        }
    }

    pub(super) fn command(&mut self) {
        let Some(id) = self.some_worker() else { return };
        match self.rng.below(9) {
            8 => self.adjust(),
            6 => _ = self.router.handle_disconnect(self.now, id),
            7 if self.rng.chance(0.2) => {
                self.router.handle_end(id).expect("it was a member");
                self.workers.remove(&id);
            }
            7 => _ = self.router.handle_reconnect(id),
            0 => _ = self.router.drain(id, self.rng.chance(0.3)),
            1 => _ = self.router.set_weight(id, self.rng.below(120) as u8),
            2 if self.rng.chance(0.3) => _ = self.router.handle_leave(id),
            3 => self.router.handle_failure(self.now, id, 1),
            _ => _ = self.router.set_primary(self.rng.chance(0.9).then_some(id)),
        }
    }

    /// The operator sets something else.
    fn adjust(&mut self) {
        let to = settings::random(&mut self.rng).adjustment();
        let is_right = self.router.config().adjusted(to).check();
        assert_eq!(self.router.adjust(to), is_right);
        self.ids().into_iter().for_each(|id| self.allow(id));
    }

    /// A worker may have as many as it has told, or as the policy lets it have.
    pub(super) fn allow(&mut self, id: WorkerId) {
        let allowed = self.bound(self.workers[&id].told.1);
        let worker = self.workers.get_mut(&id).expect("it is a member");
        worker.allowed = worker.allowed.max(allowed);
    }
}
