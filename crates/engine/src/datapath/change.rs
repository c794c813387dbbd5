//! Changes of a datapath while calls run (E5 to E7).
//!
//! Each change is made between two runs. Items stay where they are, or return to the queue from
//! which they came. No item is lost or repeated, and no item passes an engine twice unless the
//! engine held it.

use std::collections::HashSet;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::Status;
use thiserror::Error;

use super::{Counts, Datapath, EngineCounts, Place, Placed, chain};
use crate::absent::StandIn;
use crate::items::{ENGINES_MAX, Ending, Key};
use crate::queue::Queue;
use crate::work::Decompose;
use crate::{Direction, Engine, FieldError, FieldId, MethodId, Policy, PolicyError, Schema, State};

/// A change that was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such place: the operator's fault.
    #[error("the datapath has {engines} engines, and none at place {place}")]
    NoSuchPlace {
        /// The place.
        place: Place,
        /// How many engines there are.
        engines: usize,
    },
    /// The policy does not make an engine here: the operator's fault. All is as before.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A method lacks a field that the policy needs: the operator's fault. All is as before.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The datapath has as many engines as there can be.
    #[error("a datapath has at most {ENGINES_MAX} engines")]
    TooMany,
    /// A policy did not take its own state back: its fault. Its engine is gone, and calls are
    /// refused in its place until it is replaced.
    #[error("a policy does not go on from its own state, and refuses calls now: {broken}")]
    Broken {
        /// Why the engine that was to replace it was refused, if that was so.
        refused: Option<String>,
        /// Why the earlier one does not go on.
        broken: String,
    },
}

impl Datapath {
    /// Places an engine of a policy before the one that is at `place` now. Items that have passed
    /// there already do not come back for it: of a call that was under way, it sees the rest.
    ///
    /// # Errors
    /// See [`ChangeError`]; all is as before.
    pub fn attach(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        schema: &mut dyn Schema,
    ) -> Result<(), ChangeError> {
        self.attach_again(place, policy, &Left::default(), schema)
    }

    /// Undoes that an engine was [taken out](Datapath::take_out): one of the same policy goes on
    /// from its state, and leaves out what that one has passed on.
    ///
    /// # Errors
    /// See [`ChangeError`]; all is as before.
    pub fn attach_again(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        left: &Left,
        schema: &mut dyn Schema,
    ) -> Result<(), ChangeError> {
        if place > self.chain.len() {
            return Err(ChangeError::NoSuchPlace { place, engines: self.chain.len() });
        }
        let key = self.free_key()?;
        let placed = self.admitted(key, policy.engine(left.state.as_ref())?, policy, schema)?;
        self.chain.insert(place, placed);
        let [outbound, inbound] = &mut self.queues;
        outbound.insert(place + 1, Queue::new());
        inbound.insert(place, Queue::new());
        self.set_passed(key, place);
        if left.freed == self.freed() {
            left.passed
                .iter()
                .for_each(|&index| self.items.records[index as usize].note_passed(key));
        }
        self.assert_sum();
        Ok(())
    }

    /// Takes the engine at `place` out. What it held goes on to the next engine. Gives what it
    /// leaves behind.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchPlace`].
    pub fn detach(
        &mut self,
        place: Place,
        schema: &mut dyn Schema,
    ) -> Result<Option<State>, ChangeError> {
        self.take_out(place, schema).map(|left| left.state)
    }

    /// Like [`Datapath::detach`], with what is needed to undo that.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchPlace`].
    pub fn take_out(&mut self, place: Place, schema: &mut dyn Schema) -> Result<Left, ChangeError> {
        self.check(place)?;
        let Decomposed { key, state, .. } = self.decompose(place, schema);
        let (passed, freed) = (self.items.passed_by(key), self.freed());
        let [outbound, inbound] = &mut self.queues;
        // What has passed the engine goes before what has not.
        let mut behind = outbound.remove(place);
        outbound[place].append(&mut behind);
        let mut behind = inbound.remove(place + 1);
        inbound[place].append(&mut behind);
        self.assert_sum();
        Ok(Left { state, passed, freed })
    }

    /// Puts an engine of another policy, or of the same one configured anew, in the place of the
    /// one that is there. It goes on from that one's state, and what that one held comes to it
    /// again. Gives what undoes that.
    ///
    /// # Errors
    /// See [`ChangeError`]. Except after [`ChangeError::Broken`], the earlier engine goes on.
    pub fn replace(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        schema: &mut dyn Schema,
    ) -> Result<Replaced, ChangeError> {
        self.replace_by(place, policy, None, schema)
    }

    /// Undoes that an engine was [replaced](Datapath::replace), before anything has passed: one of
    /// its policy goes on from the state that it had. What the other has of its own is dropped: an
    /// earlier version does not know the states of a later one.
    ///
    /// # Errors
    /// As [`Datapath::replace`].
    pub fn replace_back(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        replaced: &Replaced,
        schema: &mut dyn Schema,
    ) -> Result<(), ChangeError> {
        self.replace_by(place, policy, Some(replaced), schema).map(drop)
    }

    fn replace_by(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        back_to: Option<&Replaced>,
        schema: &mut dyn Schema,
    ) -> Result<Replaced, ChangeError> {
        self.check(place)?;
        let Decomposed { key, policy: earlier, state, counts } = self.decompose(place, schema);
        let goes_on_from = back_to.map_or(state.as_ref(), |replaced| replaced.state.as_ref());
        let engine = policy.engine(goes_on_from).map_err(ChangeError::from);
        let placed = engine.and_then(|engine| self.admitted(key, engine, policy, schema));
        let (placed, result) = match placed {
            Ok(placed) => (placed, Ok(())),
            Err(refused) => self.restored(key, earlier, state.as_ref(), Some(refused), schema),
        };
        self.chain.insert(place, Placed { counts, ..placed });
        self.assert_sum();
        result.map(|()| Replaced { state })
    }

    /// Moves the engine at `from` so that it is at `to` then. Items pass every engine once: those
    /// that are between the two go back, and each engine leaves out what it has passed on.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchPlace`], or [`ChangeError::Broken`] if a policy does not take its own
    /// state back.
    pub fn reorder(
        &mut self,
        from: Place,
        to: Place,
        schema: &mut dyn Schema,
    ) -> Result<(), ChangeError> {
        self.check(from)?;
        self.check(to)?;
        let (first, last) = (from.min(to), from.max(to));
        // What an engine holds has not passed those that will be before it.
        let mut result = Ok(());
        for place in first..=last {
            result = result.and(self.renew(place, schema).map(drop));
        }
        let [outbound, inbound] = &mut self.queues;
        gather(outbound, (first..=last).rev(), first);
        gather(inbound, first + 1..=last + 1, last + 1);
        let placed = self.chain.remove(from);
        self.chain.insert(to, placed);
        self.assert_sum();
        result
    }

    /// What the engine at `place` would leave behind now. One of the same policy goes on from it.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchPlace`], or [`ChangeError::Broken`] if the policy does not take its own
    /// state back.
    pub fn engine_state(
        &mut self,
        place: Place,
        schema: &mut dyn Schema,
    ) -> Result<Option<State>, ChangeError> {
        self.check(place)?;
        let state = self.renew(place, schema);
        self.assert_sum();
        state
    }

    /// A change neither loses items nor repeats them (ADR 22): whoever goes on without one leaves
    /// its caller waiting.
    fn assert_sum(&self) {
        let counts = self.counts();
        let Counts { entered, left, void, queued, held } = counts;
        assert_eq!(entered, left + void + queued + held, "a change has lost an item: {counts:?}");
    }

    /// Counts the items that have gone: as long as none goes, each index is the same item's.
    fn freed(&self) -> u64 {
        self.counts.left + self.counts.void
    }

    fn check(&self, place: Place) -> Result<(), ChangeError> {
        let engines = self.chain.len();
        if place < engines { Ok(()) } else { Err(ChangeError::NoSuchPlace { place, engines }) }
    }

    /// An engine that knows all methods.
    fn admitted(
        &mut self,
        key: Key,
        engine: Box<dyn Engine>,
        policy: Arc<dyn Policy>,
        schema: &mut dyn Schema,
    ) -> Result<Placed, ChangeError> {
        let counts = EngineCounts::default();
        let mut placed = Placed { key, engine, policy, wake_at: Time::ZERO, counts };
        for (method, name) in &self.methods {
            let told = chain::declare(&mut placed, *method, name, &mut self.declared, schema);
            if let Err(error) = told {
                self.forget_declarations(schema, |_, user| user == key);
                return Err(error.into());
            }
        }
        Ok(placed)
    }

    /// A new engine of the same policy in place of the one that is there. Gives from what it goes
    /// on.
    fn renew(
        &mut self,
        place: Place,
        schema: &mut dyn Schema,
    ) -> Result<Option<State>, ChangeError> {
        let Decomposed { key, policy, state, counts } = self.decompose(place, schema);
        let (placed, result) = self.restored(key, policy, state.as_ref(), None, schema);
        self.chain.insert(place, Placed { counts, ..placed });
        result.map(|()| state)
    }

    /// The earlier policy's engine again, after another was `refused`.
    fn restored(
        &mut self,
        key: Key,
        policy: Arc<dyn Policy>,
        state: Option<&State>,
        refused: Option<ChangeError>,
        schema: &mut dyn Schema,
    ) -> (Placed, Result<(), ChangeError>) {
        let engine = policy.engine(state).map_err(ChangeError::from);
        let placed =
            engine.and_then(|engine| self.admitted(key, engine, Arc::clone(&policy), schema));
        match placed {
            Ok(placed) => (placed, refused.map_or(Ok(()), Err)),
            Err(broken) => {
                let (engine, counts) = (Box::new(StandIn::CLOSED), EngineCounts::default());
                let placed = Placed { key, engine, policy, wake_at: Time::ZERO, counts };
                let refused = refused.map(|refused| refused.to_string());
                let broken = broken.to_string();
                (placed, Err(ChangeError::Broken { refused, broken }))
            }
        }
    }

    /// Ends the engine at `place`. What it held is at the front of its queues. The queues stay.
    fn decompose(&mut self, place: Place, schema: &mut dyn Schema) -> Decomposed {
        let Placed { key, engine, policy, counts, .. } = self.chain.remove(place);
        let given_back = [Vec::new(), Vec::new()];
        let mut decompose = Decompose { items: &self.items, given_back };
        let state = engine.decompose(&mut decompose);
        let [outbound, inbound] = decompose.given_back;
        self.put_back(&outbound, Direction::Outbound, place);
        self.put_back(&inbound, Direction::Inbound, place + 1);
        self.end_dropped(key, place);
        self.forget_declarations(schema, |_, user| user == key);
        Decomposed { key, policy, state, counts }
    }

    fn put_back(&mut self, items: &[u32], direction: Direction, queue: usize) {
        for &index in items.iter().rev() {
            self.items.records[index as usize].put_back();
            self.queues[direction as usize][queue].push_front(index);
        }
    }

    /// Ends the calls of items that an engine has dropped instead of giving them back.
    fn end_dropped(&mut self, key: Key, place: Place) {
        let before = self.items.in_use();
        for index in self.items.held_by(key) {
            if self.items.is_void(index) {
                self.items.discard(index);
                continue;
            }
            let status = Status::internal("a policy has lost the call");
            let Ending { end, cancel } = self.items.end(index, status);
            for index in end.into_iter().chain(cancel) {
                let direction = self.items.records[index as usize].direction;
                let output = if direction == Direction::Outbound { place + 1 } else { place };
                self.queues[direction as usize][output].push_back(index);
            }
        }
        self.counts.entered += (self.items.in_use() - before) as u64;
    }

    /// Forgets declarations of methods by engines. Fields that nobody else has declared are not
    /// asked for any more.
    pub(super) fn forget_declarations(
        &mut self,
        schema: &mut dyn Schema,
        is_gone: impl Fn(MethodId, Key) -> bool,
    ) {
        for (index, declared) in self.declared.iter_mut().enumerate() {
            let had = declared.users.len();
            declared.users.retain(|(user, _)| !is_gone(declared.method, *user));
            if had > 0 && declared.users.is_empty() {
                schema.forget(FieldId(index as u16));
            }
        }
    }

    /// A key that no engine has.
    fn free_key(&self) -> Result<Key, ChangeError> {
        let is_free = |key: &Key| self.chain.iter().all(|placed| placed.key != *key);
        (0..ENGINES_MAX as Key).find(is_free).ok_or(ChangeError::TooMany)
    }

    /// Items beyond a new engine at `place` count as having passed it: they do not come back for it
    /// when the chain is reordered, where those behind them would overtake them.
    fn set_passed(&mut self, key: Key, place: Place) {
        let [outbound, inbound] = &self.queues;
        let before = outbound[..=place].iter().chain(&inbound[place + 1..]);
        let before: HashSet<u32> = before.flat_map(Queue::iter).collect();
        let holders: Vec<Key> = self.chain.iter().map(|placed| placed.key).collect();
        self.items.set_passed(key, |index, record| match record.holder() {
            None => before.contains(&index),
            Some(holder) => {
                let at = holders.iter().position(|key| *key == holder);
                let is_before = at.is_some_and(|at| at < place);
                is_before == (record.direction == Direction::Outbound)
            }
        });
    }
}

/// What an engine that was taken out has left behind.
#[derive(Debug, Default)]
pub struct Left {
    state: Option<State>,
    /// Items that it had passed on.
    passed: Vec<u32>,
    /// As of [`Datapath::freed`] then. Later, the items may be others.
    freed: u64,
}

/// What an engine has left in another datapath.
impl From<State> for Left {
    fn from(state: State) -> Left {
        Left { state: Some(state), ..Left::default() }
    }
}

/// What undoes that an engine was replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced {
    /// What it has left.
    state: Option<State>,
}

/// What is left of an engine.
struct Decomposed {
    key: Key,
    policy: Arc<dyn Policy>,
    state: Option<State>,
    counts: EngineCounts,
}

/// Moves what is in some queues, in this order, into the one at `to`.
fn gather(queues: &mut [Queue], from: impl Iterator<Item = usize>, to: usize) {
    let mut all = Queue::new();
    from.for_each(|place| all.append(&mut queues[place]));
    queues[to] = all;
}
