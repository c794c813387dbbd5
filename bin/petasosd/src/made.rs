//! Policies, with what they were made from.

use std::fmt;
use std::sync::Arc;

use petasos_admin::CONFIGURATION_BYTES_MAX;
use petasos_engine::{Absent, ClockShift, Left, Policy, PolicyError, PolicyKind, State, Without};
use thiserror::Error;

use crate::plugins::{Plugin, Plugins};

/// A policy that cannot be made. The operator's fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MakeError {
    /// There is no such kind.
    #[error("there is no kind `{name}`; there are {there}")]
    NoKind {
        /// What it was called.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// The configuration is not a JSON object.
    #[error("a configuration has to be a JSON object: {0}")]
    NoObject(serde_json::Error),
    /// The configuration is too long.
    #[error("a configuration has at most {CONFIGURATION_BYTES_MAX} bytes")]
    TooLong,
    /// The kind refuses the configuration, or the state.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The names of the kinds that are built in, in order.
pub fn kinds() -> Vec<&'static str> {
    let mut names: Vec<_> =
        petasos_engines::kinds().iter().map(|kind| kind.version().kind).collect();
    names.sort_unstable();
    names
}

/// What makes policies.
#[derive(Clone)]
pub enum Kind {
    /// It comes with the service.
    BuiltIn(&'static dyn PolicyKind),
    /// It is the operator's. Making a policy of it takes time.
    Plugin(Arc<Plugin>),
}

impl Kind {
    /// The kind of this name, if it is built in.
    pub fn built_in(name: &str) -> Option<Kind> {
        petasos_engines::find(name).map(Kind::BuiltIn)
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// [`MakeError::NoKind`].
    pub fn find(name: &str, plugins: &Plugins) -> Result<Kind, MakeError> {
        let plugin = || plugins.find(name).cloned().map(Kind::Plugin);
        let found = Kind::built_in(name).or_else(plugin);
        found.ok_or_else(|| {
            let built_in = kinds().into_iter();
            let there: Vec<_> = built_in.chain(plugins.iter().map(|its| &*its.name)).collect();
            MakeError::NoKind { name: name.to_owned(), there: there.join(", ") }
        })
    }

    /// Whether it is the same, of the same version.
    pub fn is(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::BuiltIn(_), Kind::BuiltIn(_)) => self.name() == other.name(),
            (Kind::Plugin(one), Kind::Plugin(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// What policies call it.
    pub fn name(&self) -> &str {
        match self {
            Kind::BuiltIn(kind) => kind.version().kind,
            Kind::Plugin(plugin) => &plugin.name,
        }
    }

    /// The version of its states.
    pub fn version(&self) -> u32 {
        self.policy_kind().version().version
    }

    fn policy_kind(&self) -> &dyn PolicyKind {
        match self {
            Kind::BuiltIn(kind) => *kind,
            Kind::Plugin(plugin) => plugin.kind(),
        }
    }
}

/// A policy, and what it was made from.
#[derive(Clone)]
pub struct Made {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// What has made it.
    pub kind: Kind,
    /// From which configuration: a JSON object, without blanks, its keys in order.
    pub configuration: Arc<str>,
    /// Its engine was taken out: the policy that was there, and what its place does without it.
    absent: Option<(Arc<dyn Policy>, Without)>,
}

impl Made {
    /// Makes a policy. An empty configuration is `{}`. Of a plug-in, that takes time.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn new(kind: Kind, configuration: &str) -> Result<Made, MakeError> {
        Made::of(kind, configuration, None)
    }

    /// Makes a policy of the same kind that goes on from the state of this one; of another
    /// configuration, if one is given. Of a plug-in, that takes time.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn anew(&self, configuration: Option<&str>) -> Result<Made, MakeError> {
        self.anew_by(self.kind.clone(), configuration)
    }

    /// The same, by another version of the kind.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn anew_by(&self, kind: Kind, configuration: Option<&str>) -> Result<Made, MakeError> {
        let configuration = configuration.unwrap_or(&self.configuration);
        Made::of(kind, configuration, Some(&self.policy.state()))
    }

    /// Makes the same policy so that it goes on from a state of another process, whose clock this
    /// process' is ahead of. Of a plug-in, that takes time.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn going_on(&self, state: State, clock: ClockShift) -> Result<Made, MakeError> {
        let state = self.kind.policy_kind().carried(state, clock)?;
        Made::of(self.kind.clone(), &self.configuration, Some(&state))
    }

    /// Whether engines of another process go on from what its engines have of their own.
    pub fn carries_engines(&self) -> bool {
        self.kind.policy_kind().carries_engines()
    }

    /// From what an engine of it goes on, of what one of another process has left.
    ///
    /// # Errors
    /// [`PolicyError::State`].
    pub fn engine_going_on(&self, state: State, clock: ClockShift) -> Result<Left, PolicyError> {
        let state = self.kind.policy_kind().carried_engine(state, clock)?;
        // Tried: the application that attaches then gets its engines in any case.
        self.policy.engine(Some(&state))?;
        Ok(Left::from(state))
    }

    fn of(kind: Kind, configuration: &str, state: Option<&State>) -> Result<Made, MakeError> {
        if configuration.len() > CONFIGURATION_BYTES_MAX {
            return Err(MakeError::TooLong);
        }
        let text = if configuration.is_empty() { "{}" } else { configuration };
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(MakeError::NoObject)?;
        let configuration = serde_json::Value::Object(object).to_string();
        let policy = Arc::from(kind.policy_kind().make(&configuration, state)?);
        Ok(Made { policy, kind, configuration: configuration.into(), absent: None })
    }

    /// What stands where an engine of it was taken out.
    pub fn absent(&self, without: Without) -> Made {
        let policy = Arc::new(Absent::new(self.policy.clone(), without));
        Made { policy, absent: Some((self.policy.clone(), without)), ..self.clone() }
    }

    /// The same policy, with an engine of its own.
    pub fn present(&self) -> Made {
        let present = self.absent.as_ref().map(|(policy, _)| policy.clone());
        let policy = present.unwrap_or_else(|| self.policy.clone());
        Made { policy, absent: None, ..self.clone() }
    }

    /// What its place does without its engine, if that was taken out.
    pub fn without(&self) -> Option<Without> {
        self.absent.as_ref().map(|(_, without)| *without)
    }

    /// The name of its kind.
    pub fn kind_name(&self) -> &str {
        self.kind.name()
    }

    /// The plug-in that it is of.
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match &self.kind {
            Kind::BuiltIn(_) => None,
            Kind::Plugin(plugin) => Some(plugin),
        }
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind_name(), self.configuration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_objects_of_a_bounded_length() {
        let made = |configuration: &str| {
            Made::new(Kind::built_in("null").expect("it is one"), configuration)
        };
        assert_eq!(&*made(" { } ").expect("it is one").configuration, "{}");
        for wrong in ["[]", "1", "{", "null"] {
            assert!(matches!(made(wrong), Err(MakeError::NoObject(_))), "{wrong}");
        }
        let long = format!("{{}}{}", " ".repeat(CONFIGURATION_BYTES_MAX));
        assert!(matches!(made(&long), Err(MakeError::TooLong)));
    }
}
