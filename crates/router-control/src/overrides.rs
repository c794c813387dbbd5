//! What an operator has set for workers: it holds for a number, also when its endpoint joins anew.

use std::collections::BTreeMap;

use petasos_router::WorkerId;
use petasos_router_plane::Plane;

/// What was set for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Override {
    is_draining: bool,
    /// Instead of what it has announced.
    weight: Option<u8>,
}

/// By number. Bounded as numbers are: one that may be another worker's is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Overrides(BTreeMap<u16, Override>);

impl Overrides {
    /// Gives a worker nothing more, or again. Returns whether it is a member.
    pub(crate) fn drain(&mut self, plane: &mut Plane, worker: u16, is_draining: bool) -> bool {
        let Some(id) = plane.member(worker) else { return false };
        self.0.entry(worker).or_default().is_draining = is_draining;
        plane.drain(id, is_draining)
    }

    /// Sets a worker's weight. Returns whether it is a member.
    pub(crate) fn weigh(&mut self, plane: &mut Plane, worker: u16, weight: u8) -> bool {
        let Some(id) = plane.member(worker) else { return false };
        self.0.entry(worker).or_default().weight = Some(weight);
        plane.set_weight(id, weight)
    }

    /// The endpoint with a number has joined anew.
    pub(crate) fn apply(&self, plane: &mut Plane, id: WorkerId, worker: u16) {
        let Some(&Override { is_draining, weight }) = self.0.get(&worker) else { return };
        if is_draining {
            plane.drain(id, true);
        }
        if let Some(weight) = weight {
            plane.set_weight(id, weight);
        }
    }

    pub(crate) fn forget(&mut self, worker: u16) {
        self.0.remove(&worker);
    }
}
