//! Steps that change runtimes.

use petasos_admin as proto;
use petasos_base::SystemClock;
use petasos_service::HubId;

use super::change::{Begun, Changer};
use super::undo::Undo;
use super::{StepError, World};
use crate::policies::NAME_BYTES_MAX;
use crate::runtime::moving::why_not;
use crate::runtime::set::State;

impl Changer<'_, '_> {
    pub(super) fn add_runtime(&mut self, step: &proto::AddRuntime) -> Result<String, StepError> {
        let name = step.dedicated_to();
        if name.len() > NAME_BYTES_MAX {
            return Err(StepError::NameTooLong);
        }
        let dedicated_to = (!name.is_empty()).then_some(name);
        let id = self.world.set.add(dedicated_to).map_err(StepError::Runtime)?;
        self.undo(Undo::Runtime(id));
        let mut done = match dedicated_to {
            Some(name) => format!("added runtime {} for `{name}`", id.0),
            None => format!("added runtime {}", id.0),
        };
        if let Some(cpu) = step.cpu() {
            self.world.set.pin(id, Some(cpu)).map_err(StepError::Runtime)?;
            done += &format!(" on processor {cpu}");
        }
        Ok(done)
    }

    pub(super) fn pin_runtime(&mut self, step: &proto::PinRuntime) -> Result<String, StepError> {
        let id = self.runtime(step.id())?;
        let before = self.world.set.pin(id, step.cpu()).map_err(StepError::Runtime)?;
        self.undo(Undo::Pin(id, before));
        Ok(match step.cpu() {
            Some(cpu) => format!("runtime {} runs on processor {cpu}", id.0),
            None => format!("runtime {} runs on any processor", id.0),
        })
    }

    pub(super) fn remove_runtime(&mut self, id: u32) -> Result<String, StepError> {
        let id = self.runtime(id)?;
        if self.world.set.thread(id).is_none() {
            return Err(StepError::FirstRuntime);
        }
        self.begin(Begun::Leave(id));
        Ok(format!("runtime {} is removed when its applications have left it", id.0))
    }

    pub(super) fn move_application(
        &mut self,
        step: &proto::MoveApplication,
    ) -> Result<String, StepError> {
        let number = self.world.find(step.application())?;
        let to = self.runtime(step.runtime())?;
        let named = self.name_of(number);
        let runtime = self.world.runtime_of(number).expect("it was just found");
        if runtime.id() == to {
            return Err(StepError::NotMoved(format!("{named} is at runtime {} already", to.0)));
        }
        if self.is_to_move(number) {
            return Err(StepError::NotMoved(format!("{named} moves by an earlier step")));
        }
        let runtime = self.world.runtime_of(number).expect("it was just found");
        if let Some(why) = why_not(number, runtime) {
            return Err(StepError::NotMoved(format!("{named} cannot move: {why}")));
        }
        self.begin(Begun::Move(number, to));
        Ok(format!("{named} moves to runtime {}", to.0))
    }

    /// A runtime that applications may get.
    fn runtime(&self, id: u32) -> Result<HubId, StepError> {
        let row = self.world.set.row(HubId(id)).ok_or(StepError::NoRuntime(id))?;
        match row.state {
            State::Runs => Ok(row.id),
            State::Leaves | State::Spare => Err(StepError::NoRuntime(id)),
        }
    }
}

impl World<'_> {
    /// Begins what the steps of a plan have led to.
    pub(super) fn begin(&mut self, begun: Vec<Begun>) {
        let (now, drain) = (SystemClock::default().now(), self.set.drain);
        // Those that go somewhere do so before their runtime is left for anywhere.
        let (moves, leaves): (Vec<_>, Vec<_>) =
            begun.into_iter().partition(|begun| matches!(begun, Begun::Move(..)));
        for begun in moves.into_iter().chain(leaves) {
            match begun {
                Begun::Move(number, to) => {
                    let runtime = self.runtime_of(number);
                    let moving = runtime
                        .and_then(|runtime| runtime.begin_moving(number, Some(to), now + drain));
                    self.set.moving.extend(moving);
                }
                Begun::Leave(id) => {
                    self.set.begin_leaving(id);
                    let mut others = self.others.iter_mut();
                    let left = others.find(|runtime| runtime.id() == id);
                    let moving = left.map(|runtime| runtime.move_all(now, drain));
                    self.set.moving.extend(moving.into_iter().flatten());
                }
            }
        }
    }
}
