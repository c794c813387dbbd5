//! What an operator configures (E5 to E7).

use serde::de::DeserializeOwned;

use crate::{Engine, PolicyError, State, Version};

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
