//! What an operator configures (E5 to E7).

use serde::de::DeserializeOwned;

use crate::{ClockShift, Engine, PolicyError, State, Version};

/// A kind of policy: what makes policies.
pub trait PolicyKind: Sync {
    /// Its name and the version of its states. A later version reads the states of earlier ones.
    fn version(&self) -> Version;

    /// A policy of this configuration, a JSON value; with a state, one that goes on from it.
    ///
    /// # Errors
    /// See [`PolicyError`].
    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError>;

    /// E5: from what a policy of this process goes on, of what one of another process has left.
    /// Numbers of applications, peers and methods mean the same in both; times do not, so a kind
    /// that has times in its states moves them. It leaves out what is the other process' alone.
    ///
    /// # Errors
    /// [`PolicyError::State`].
    fn carried(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let _ = clock;
        Ok(state)
    }

    /// E7: whether what engines have of their own is more than calls under way, so that engines of
    /// another process go on from it.
    fn carries_engines(&self) -> bool {
        false
    }

    /// Like [`PolicyKind::carried`], of what an engine has left. Calls that it names are not those
    /// of this process.
    ///
    /// # Errors
    /// [`PolicyError::State`].
    fn carried_engine(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let _ = clock;
        Ok(state)
    }
}

impl dyn PolicyKind {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`PolicyError::Configuration`].
    pub fn parse<T: DeserializeOwned>(&self, configuration: &str) -> Result<T, PolicyError> {
        serde_json::from_str(configuration).map_err(|error| self.wrong(error.to_string()))
    }

    /// A configuration is wrong.
    pub fn wrong(&self, why: impl Into<String>) -> PolicyError {
        PolicyError::Configuration { kind: self.version().kind.to_owned(), why: why.into() }
    }
}

/// A configured policy: what its engines share (E7).
///
/// Its engines run on several threads. What they share is made of atomics, or behind a lock that is
/// not taken for each item.
pub trait Policy: Send + Sync {
    /// An engine for a datapath; with a state, one that goes on from what its predecessor there
    /// left behind ([`Engine::decompose`]).
    ///
    /// # Errors
    /// [`PolicyError::State`].
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError>;

    /// E5: what a successor goes on from.
    fn state(&self) -> State;

    /// What operators see of it, as a JSON value: counters, limits, who is refused.
    fn report(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}
