//! Changes of an application's datapath, made between two turns.

use std::sync::Arc;

use petasos_engine::{ChangeError, Left, Place, Policy, Replaced, State};

use crate::application::{Application, Memory};

impl<M: Memory> Application<M> {
    /// Places an engine of a policy in its datapath.
    ///
    /// # Errors
    /// See [`ChangeError`]; all is as before.
    pub fn attach(&mut self, place: Place, policy: Arc<dyn Policy>) -> Result<(), ChangeError> {
        self.datapath.attach(place, policy, &mut self.fields)
    }

    /// Undoes that an engine of a policy was [detached](Application::detach).
    ///
    /// # Errors
    /// See [`ChangeError`]; all is as before.
    pub fn attach_again(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        left: &Left,
    ) -> Result<(), ChangeError> {
        self.datapath.attach_again(place, policy, left, &mut self.fields)
    }

    /// Takes the engine at `place` out. Gives what it leaves behind.
    ///
    /// # Errors
    /// See [`ChangeError`]; all is as before.
    pub fn detach(&mut self, place: Place) -> Result<Left, ChangeError> {
        self.datapath.take_out(place, &mut self.fields)
    }

    /// What the engine at `place` would leave behind now. It goes on.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn engine_state(&mut self, place: Place) -> Result<Option<State>, ChangeError> {
        self.datapath.engine_state(place, &mut self.fields)
    }

    /// Replaces the engine at `place` by one of another policy, which goes on from its state. Gives
    /// what undoes that.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn replace(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
    ) -> Result<Replaced, ChangeError> {
        self.datapath.replace(place, policy, &mut self.fields)
    }

    /// Undoes that an engine of a policy was [replaced](Application::replace), before anything has
    /// passed.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn replace_back(
        &mut self,
        place: Place,
        policy: Arc<dyn Policy>,
        replaced: &Replaced,
    ) -> Result<(), ChangeError> {
        self.datapath.replace_back(place, policy, replaced, &mut self.fields)
    }

    /// Moves the engine at `from` to `to`.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn reorder(&mut self, from: Place, to: Place) -> Result<(), ChangeError> {
        self.datapath.reorder(from, to, &mut self.fields)
    }
}
