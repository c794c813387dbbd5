//! Changes of datapaths that can be undone.
//!
//! A [`Changer`] does one thing after the other, and notes for each how it is undone. If a step
//! fails, all is undone, the last first.

use std::sync::Arc;

use petasos_admin as proto;
use petasos_engine::{Application as Number, ChangeError, Place, Policy};
use petasos_service::{Application, BindError, Digest, HubId};

use super::ready::Ready;
use super::undo::Undo;
use super::{ChangeFailed, Known, StepError, World, is_same};
use crate::member::Heaps;
use crate::plugins::LeftPlugin;
use crate::policies::Rule;
use crate::quotas::Quotas;

/// A change that was made.
pub struct Changed {
    /// What each step has done.
    pub done: Vec<String>,
    /// What undoes it, from the end. None if it cannot be undone.
    pub undo: Option<Vec<Undo>>,
}

/// Does the steps of a plan, or none of them. `ready` is what was made for each before, if anything
/// was.
///
/// # Errors
/// See [`ChangeFailed`].
pub fn change(
    world: &mut World<'_>,
    steps: &[proto::Step],
    ready: Vec<Ready>,
) -> Result<Changed, ChangeFailed> {
    let mut changer = Changer::look(world);
    let mut done = Vec::new();
    let mut ready = ready.into_iter();
    for (index, step) in steps.iter().enumerate() {
        changer.ready = ready.next().unwrap_or_default();
        match changer.step(step) {
            Ok(line) => done.push(line),
            Err(error) => {
                let not_undone = changer.roll_back();
                let left = std::mem::take(&mut changer.left);
                drop(changer);
                world.control.forget_unused();
                world.control.remember_left(left);
                let (step, steps, error) = (index + 1, steps.len(), Box::new(error));
                return Err(ChangeFailed { step, steps, error, not_undone });
            }
        }
    }
    let undo = changer.begun.is_empty().then(|| std::mem::take(&mut changer.undo));
    let evicted = std::mem::take(&mut changer.evicted);
    let begun = std::mem::take(&mut changer.begun);
    let left = std::mem::take(&mut changer.left);
    drop(changer);
    world.begin(begun);
    if let Some(keeper) = &world.control.keeper
        && !evicted.into_iter().all(|digest| keeper.forget(digest))
    {
        done.push("too much is written: files of evicted schemas are left, evict again".to_owned());
    }
    world.control.forget_unused();
    // What was of them goes with what undoes the change.
    world.control.remember_left(left);
    Ok(Changed { done, undo })
}

/// Changes a world, and remembers how it was.
pub(super) struct Changer<'c, 'w> {
    pub(super) world: &'c mut World<'w>,
    undo: Vec<Undo>,
    /// What was made for the step that is done.
    pub(super) ready: Ready,
    /// Schemas whose files are removed once all steps are done.
    evicted: Vec<Digest>,
    begun: Vec<Begun>,
    /// Plug-ins that are unloaded or replaced, or put out of place by undoing.
    pub(super) left: Vec<LeftPlugin>,
}

/// What is begun once all steps are done: it cannot be undone.
pub(super) enum Begun {
    /// An application moves to a runtime.
    Move(Number, HubId),
    /// A runtime is left by its applications.
    Leave(HubId),
}

impl<'c, 'w> Changer<'c, 'w> {
    /// One that has changed nothing.
    pub(super) fn look(world: &'c mut World<'w>) -> Changer<'c, 'w> {
        let (undo, evicted, begun, left) = Default::default();
        Changer { world, undo, ready: Ready::Nothing, evicted, begun, left }
    }
}

impl Changer<'_, '_> {
    /// An application that is there.
    pub(super) fn application(&mut self, number: Number) -> &mut Application<Heaps> {
        self.world.application(number).expect("none goes during a change")
    }

    /// Notes how something is undone that was done just now.
    pub(super) fn undo(&mut self, undo: Undo) {
        self.undo.push(undo);
    }

    /// Notes what is begun once all steps are done.
    pub(super) fn begin(&mut self, begun: Begun) {
        self.begun.push(begun);
    }

    /// Whether an application moves once all steps are done.
    pub(super) fn is_to_move(&self, number: Number) -> bool {
        self.begun.iter().any(|begun| matches!(begun, Begun::Move(of, _) if *of == number))
    }

    /// How an application is called in texts.
    pub(super) fn name_of(&mut self, number: Number) -> String {
        format!("`{}` ({})", self.application(number).name(), number.0)
    }

    /// What is known of the engines of an application, the one next to it first.
    pub(super) fn engines(&mut self, number: Number) -> Vec<Known> {
        let application = self.world.application(number).expect("none goes during a change");
        let datapath = application.datapath();
        let policies = (0..datapath.len()).filter_map(|place| datapath.policy(place));
        let policies: Vec<_> = policies.cloned().collect();
        policies.iter().map(|policy| self.world.control.known(policy).clone()).collect()
    }

    /// Places an engine.
    pub(super) fn attach(
        &mut self,
        number: Number,
        place: Place,
        known: Known,
    ) -> Result<(), StepError> {
        let policy = known.made.policy.clone();
        self.world.control.know(known);
        let attached = self.application(number).attach(place, policy.clone());
        self.noted(number, attached)?;
        self.undo.push(Undo::Detach(number, place, policy));
        Ok(())
    }

    /// Takes an engine out.
    pub(super) fn detach(&mut self, number: Number, place: Place) -> Result<(), StepError> {
        let policy = self.application(number).datapath().policy(place).cloned();
        let detached = self.application(number).detach(place);
        let left = self.noted(number, detached)?;
        let policy = policy.expect("there was an engine to detach");
        self.undo.push(Undo::Attach(number, place, policy, left));
        Ok(())
    }

    /// Puts an engine of another policy in the place of one.
    pub(super) fn replace(
        &mut self,
        number: Number,
        place: Place,
        known: Known,
    ) -> Result<(), StepError> {
        let policy = known.made.policy.clone();
        self.world.control.know(known);
        let before = self.application(number).datapath().policy(place).cloned();
        let replaced = self.application(number).replace(place, policy.clone());
        let replaced = self.noted(number, replaced)?;
        let before = before.expect("there was an engine to replace");
        self.undo.push(Undo::Replace(number, place, before, replaced, policy));
        Ok(())
    }

    /// Moves an engine.
    pub(super) fn reorder(
        &mut self,
        number: Number,
        from: Place,
        to: Place,
    ) -> Result<(), StepError> {
        let policy = self.application(number).datapath().policy(from).cloned();
        let moved = self.application(number).reorder(from, to);
        self.noted(number, moved)?;
        let policy = policy.expect("there was an engine to move");
        self.undo.push(Undo::Move(number, to, from, policy));
        Ok(())
    }

    /// Puts other rules in the place of those that there are.
    pub(super) fn set_rules(&mut self, rules: Vec<Rule>) {
        let mut policies = self.world.control.policies().clone();
        // Only how they were at first counts.
        if !self.undo.iter().any(|undo| matches!(undo, Undo::Rules(_))) {
            self.undo.push(Undo::Rules(policies.rules().to_vec()));
        }
        policies.set(rules);
        self.world.control.set_policies(policies);
    }

    /// Lets quotas be changed.
    pub(super) fn quotas(&mut self) -> &mut Quotas {
        if !self.undo.iter().any(|undo| matches!(undo, Undo::Quotas(_))) {
            self.undo.push(Undo::Quotas(Box::new(self.world.control.quotas.clone())));
        }
        &mut self.world.control.quotas
    }

    /// Loads a schema. Gives its digest, and whether it was not loaded before.
    pub(super) fn load(&mut self, schema: &[u8]) -> Result<(Digest, bool), BindError> {
        let (digest, is_new) = self.world.schemas().load(schema, true)?;
        if is_new {
            self.undo.push(Undo::Unload(digest));
        }
        Ok((digest, is_new))
    }

    /// Forgets a schema. Says whether it was known in memory; if not, only its file is removed.
    pub(super) fn evict(&mut self, digest: Digest) -> Result<bool, StepError> {
        let keeps = self.world.control.keeper.is_some();
        let was_known = match self.world.schemas().evict(digest) {
            Ok((schema, was_loaded)) => {
                self.undo.push(Undo::Load(schema, was_loaded));
                true
            }
            Err(0) if keeps => false,
            Err(0) => return Err(StepError::NoSchema(digest)),
            Err(bindings) => return Err(StepError::SchemaInUse { digest, bindings }),
        };
        self.evicted.push(digest);
        Ok(was_known)
    }

    /// Changes how packets are handed to what carries them.
    pub(super) fn configure_transport(
        &mut self,
        step: &proto::ConfigureTransport,
    ) -> Result<(), StepError> {
        let packets = self.world.control.packets.as_ref();
        let (switch, is_on) = match (step.gathered(), step.fused()) {
            (Some(gathered), None) => {
                let gathering = packets.and_then(|packets| packets.gathering.as_ref());
                (gathering.ok_or(StepError::NotOver("TCP"))?, gathered)
            }
            (None, Some(fused)) => {
                let fusing = packets.and_then(|packets| packets.fusing.as_ref());
                (fusing.ok_or(StepError::NotOver("a fabric"))?, fused)
            }
            _ => return Err(StepError::Unknown),
        };
        self.undo.push(Undo::Switch(switch.clone(), switch.is_on()));
        switch.set(is_on);
        Ok(())
    }

    fn noted<T>(&mut self, number: Number, result: Result<T, ChangeError>) -> Result<T, StepError> {
        result.map_err(|error| StepError::Change { application: self.name_of(number), error })
    }

    /// Undoes all. Gives what cannot be undone.
    fn roll_back(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.undo);
        all.into_iter().rev().filter_map(|undo| self.reverse(undo, When::AtOnce)).collect()
    }

    /// Undoes one change. Gives why it cannot be undone, if so.
    pub(super) fn reverse(&mut self, undo: Undo, when: When) -> Option<String> {
        match undo {
            Undo::Detach(number, place, of) => {
                self.reverse_at(number, (place, Some(&of)), |application, place| {
                    application.detach(place).map(drop)
                })
            }
            Undo::Attach(number, place, policy, left) => {
                self.reverse_at(number, (place, None), |application, place| {
                    let place = place.min(application.datapath().len());
                    application.attach_again(place, policy, &left)
                })
            }
            Undo::Replace(number, place, policy, replaced, of) => {
                self.reverse_at(number, (place, Some(&of)), |application, place| match when {
                    When::AtOnce => application.replace_back(place, policy, &replaced),
                    // From the state of the moment, if the earlier version knows it.
                    When::Later => match application.replace(place, policy.clone()) {
                        Ok(_) => Ok(()),
                        Err(_) => application.replace_back(place, policy, &replaced),
                    },
                })
            }
            Undo::Move(number, from, to, of) => {
                self.reverse_at(number, (from, Some(&of)), |application, from| {
                    application.reorder(from, to)
                })
            }
            other => self.reverse_world(other, when),
        }
    }

    /// Undoes a change of an application, of the engine of a policy if one is named. One that has
    /// gone has nothing to undo.
    fn reverse_at(
        &mut self,
        number: Number,
        (place, of): (Place, Option<&Arc<dyn Policy>>),
        reverse: impl FnOnce(&mut Application<Heaps>, Place) -> Result<(), ChangeError>,
    ) -> Option<String> {
        self.world.application(number)?;
        let place = match of {
            None => place,
            Some(of) => match self.place_now(number, place, of) {
                Some(place) => place,
                None => {
                    let kind = self.world.control.known(of).made.kind_name().to_owned();
                    return Some(format!(
                        "{}: its engine of `{kind}` is gone",
                        self.name_of(number)
                    ));
                }
            },
        };
        let reversed = reverse(self.application(number), place);
        reversed.err().map(|error| format!("{}: {error}", self.name_of(number)))
    }

    /// Where the engine of a policy is, or what stands for it if it was taken out. It was there.
    fn place_now(&mut self, number: Number, there: Place, of: &Arc<dyn Policy>) -> Option<Place> {
        let engines = self.engines(number);
        let known = self.world.control.known(of);
        let is_it = |engine: &Known| {
            let is_same_rule = known.rule.is_some() && engine.rule == known.rule;
            is_same(&engine.made.policy, of) || is_same_rule
        };
        match engines.get(there) {
            Some(engine) if is_it(engine) => Some(there),
            _ => engines.iter().position(is_it),
        }
    }

    /// Undoes a change of what is no application's.
    fn reverse_world(&mut self, undo: Undo, when: When) -> Option<String> {
        let control = &mut self.world.control;
        match undo {
            Undo::Rules(rules) => {
                let mut policies = control.policies().clone();
                policies.set(rules);
                control.set_policies(policies);
            }
            Undo::Quotas(quotas) => control.quotas = *quotas,
            Undo::Names(names) => control.names = names,
            Undo::Plugins(plugins) => self.put_back(plugins),
            Undo::Switch(switch, was_on) => switch.set(was_on),
            Undo::Peers(peers) => return self.world.set_peers(*peers).err(),
            Undo::Transports(before) => return self.world.set_transports(before).err(),
            Undo::Unload(digest) => self.world.schemas().unload(digest),
            Undo::Load(schema, was_loaded) => {
                let loaded = self.world.schemas().load(schema.bytes(), was_loaded);
                if let (When::Later, Some(keeper)) = (when, &self.world.control.keeper) {
                    // Its file has been removed since.
                    keeper.used(schema);
                }
                return loaded.err().map(|error| error.to_string());
            }
            Undo::Runtime(id) => match when {
                // It has no applications yet.
                When::AtOnce => self.world.set.end_leaving(id),
                When::Later => self.world.begin(vec![Begun::Leave(id)]),
            },
            Undo::Pin(id, cpu) => return self.world.set.pin(id, cpu).err(),
            Undo::Detach(..) | Undo::Attach(..) | Undo::Replace(..) | Undo::Move(..) => {
                unreachable!("the caller undoes these")
            }
        }
        None
    }
}

/// When a change is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Nothing has passed since.
    AtOnce,
    /// Calls have.
    Later,
}
