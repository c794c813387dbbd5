//! The state that outlives an engine or a policy (E5).

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// A kind of policy by name, with the version of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// What configurations and states call the kind.
    pub kind: &'static str,
    /// Counts up with each change of the form of states.
    pub version: u32,
}

/// What a policy or an engine leaves behind for its successor (E5).
///
/// The contents are JSON, so that a later version can read what an earlier one has written, a
/// plug-in in another language can, and an operator, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The kind of policy.
    pub kind: String,
    /// The version of that kind.
    pub version: u32,
    /// The contents.
    pub json: String,
}

impl State {
    /// A state of this version.
    ///
    /// # Panics
    /// If `contents` cannot be written as JSON: a map whose keys are neither strings nor numbers.
    pub fn new(of: Version, contents: &impl Serialize) -> State {
        let json = serde_json::to_string(contents).expect("a state is made of plain data");
        State { kind: of.kind.to_owned(), version: of.version, json }
    }

    /// The contents, read by a policy of this version, which may be a later one. Fields that
    /// earlier versions lack need `#[serde(default)]`.
    ///
    /// # Errors
    /// [`PolicyError::State`].
    pub fn read<T: DeserializeOwned>(&self, by: Version) -> Result<T, PolicyError> {
        let refuse = |why: String| PolicyError::State { kind: by.kind.to_owned(), why };
        if self.kind != by.kind {
            return Err(refuse(format!("it is of a `{}`", self.kind)));
        }
        if self.version > by.version {
            let (theirs, ours) = (self.version, by.version);
            return Err(refuse(format!("it is of version {theirs}, this is version {ours}")));
        }
        serde_json::from_str(&self.json).map_err(|error| refuse(error.to_string()))
    }
}

/// How far the clock of this process is ahead of that of another one, whose states go on here
/// ([`PolicyKind::carried`](crate::PolicyKind::carried)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockShift {
    /// Negative if it is behind.
    pub ahead_ns: i64,
}

impl ClockShift {
    /// By this clock, a time that the other one told, in nanoseconds. 0 says that there is none,
    /// and stays.
    pub fn of(self, nanos: u64) -> u64 {
        if nanos == 0 { 0 } else { nanos.saturating_add_signed(self.ahead_ns).max(1) }
    }
}

/// A policy that cannot be made. Nothing was changed. The operator's fault; a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Its configuration is wrong.
    #[error("the configuration of `{kind}` is wrong: {why}")]
    Configuration {
        /// The kind of policy.
        kind: String,
        /// What is wrong, and where.
        why: String,
    },
    /// It cannot go on from this state.
    #[error("`{kind}` cannot go on from the state that there is: {why}")]
    State {
        /// The kind of policy.
        kind: String,
        /// Why not.
        why: String,
    },
}
