//! Why a change was not made.

use std::fmt;

use petasos::{Code, Status};
use petasos_engine::ChangeError;
use petasos_schema::NoDigest;
use petasos_service::{BindError, Digest};
use thiserror::Error;

use crate::budget::WrongBudget;
use crate::made::MakeError;
use crate::policies::{NAME_BYTES_MAX, RULES_MAX};
use crate::quotas::WrongQuota;

/// Why a step was not done. The operator's fault, where nothing else is said.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StepError {
    /// There is no such application, or not any more.
    #[error("no application `{named}` is attached; there are {there}")]
    NoApplication {
        /// What the operator said.
        named: String,
        /// Who is there.
        there: String,
    },
    /// Several applications have the name.
    #[error("several applications are named `{named}`: say which by its number: {those}")]
    Ambiguous {
        /// The name.
        named: String,
        /// Those that have it.
        those: String,
    },
    /// There is no such engine.
    #[error("there is no such engine: {0}")]
    NoEngine(String),
    /// There is no such rule.
    #[error("there is no policy {0} in the rule set")]
    NoRule(u64),
    /// There is no such place in the rule set.
    #[error("the rule set has {rules} policies, and no place {index}")]
    NoIndex {
        /// What the operator said.
        index: usize,
        /// How many there are.
        rules: usize,
    },
    /// The rule set is full.
    #[error("a rule set has at most {RULES_MAX} policies")]
    TooManyRules,
    /// No application has so long a name.
    #[error("a name has at most {NAME_BYTES_MAX} bytes")]
    NameTooLong,
    /// There is no file of which anything could be read again.
    #[error("the service was started without --config or --policies: there is nothing to reload")]
    NoFile,
    /// The configuration is wrong; what ran goes on.
    #[error("all stays as it is: {0}")]
    Configuration(String),
    /// A plug-in is not loaded.
    #[error("{0}")]
    Plugin(String),
    /// There is no such plug-in.
    #[error("there is no plug-in `{0}`")]
    NoPlugin(String),
    /// A plug-in cannot be unloaded now.
    #[error(
        "plug-in `{name}` is in use by {policies} policies and {engines} engines: remove them first"
    )]
    PluginInUse {
        /// Which.
        name: String,
        /// Policies of the rule set.
        policies: usize,
        /// Engines.
        engines: usize,
    },
    /// Nobody's fault: a retry may succeed.
    #[error(
        "what this is about has changed since it was prepared, or a step before this one changes \
         it, and it is of a plug-in: try again, in a change of its own"
    )]
    Changed,
    /// What is changed now would not reach the successor. Nobody's fault: a retry succeeds.
    #[error("another process is taking over: try again, at that one")]
    HandingOver,
    /// What is kept of changes is lost with the process. Nobody's fault.
    #[error("another process is taking over: once it has, this cannot be undone any more")]
    HandedOver,
    /// Whoever wanted the change does not wait for it any more. Nothing was done.
    #[error("the time for the change was up before it was made")]
    TooLate,
    /// A change cannot be undone.
    #[error(
        "change {0} cannot be undone any more: its time is up, or another change was made since"
    )]
    NotKept(u64),
    /// Too many changes are to be undone together.
    #[error("so many changes in a row cannot be undone: 64 at most")]
    ChainTooLong,
    /// A quota is out of its range, or there are too many.
    #[error(transparent)]
    Quota(#[from] WrongQuota),
    /// A schema cannot be loaded.
    #[error("the schema cannot be loaded: {0}")]
    Schema(#[from] BindError),
    /// A text names no schema.
    #[error(transparent)]
    NoDigest(#[from] NoDigest),
    /// No such schema is known.
    #[error("there is no schema {0}")]
    NoSchema(Digest),
    /// A schema cannot be evicted now.
    #[error(
        "schema {digest} is in use by {bindings} bindings: it can be evicted when they are gone"
    )]
    SchemaInUse {
        /// Which.
        digest: Digest,
        /// How many bindings have it.
        bindings: usize,
    },
    /// The transport between hosts has nothing of the kind to change.
    #[error("packets to and from other hosts do not travel over {0}: see --transport")]
    NotOver(&'static str),
    /// There is no such runtime, or it is being removed.
    #[error("there is no runtime {0}: see `petasos ctl runtime list`")]
    NoRuntime(u32),
    /// The daemon's runtime stays.
    #[error("runtime 0 has the sockets of the service, and stays")]
    FirstRuntime,
    /// A runtime cannot be added or pinned.
    #[error("{0}")]
    Runtime(String),
    /// An application does not move.
    #[error("{0}")]
    NotMoved(String),
    /// A step that says nothing, or that only a later version knows.
    #[error("the step says nothing that this service knows")]
    Unknown,
    /// A budget is out of its range.
    #[error(transparent)]
    Budget(#[from] WrongBudget),
    /// Nothing that may happen to an engine.
    #[error("an engine over its budget: `report`, `open` or `closed`, not `{0}`")]
    NoOver(String),
    /// A policy cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// A datapath cannot be changed so.
    #[error("{application}: {error}")]
    Change {
        /// Whose.
        application: String,
        /// Why.
        error: ChangeError,
    },
}

impl StepError {
    fn code(&self) -> Code {
        match self {
            StepError::NoApplication { .. }
            | StepError::NoRule(_)
            | StepError::NoEngine(_)
            | StepError::NoRuntime(_)
            | StepError::NoPlugin(_)
            | StepError::NoSchema(_) => Code::NotFound,
            StepError::Changed => Code::Aborted,
            StepError::HandingOver | StepError::HandedOver => Code::Unavailable,
            StepError::TooLate => Code::DeadlineExceeded,
            StepError::Ambiguous { .. }
            | StepError::NoFile
            | StepError::Configuration(_)
            | StepError::Plugin(_)
            | StepError::PluginInUse { .. }
            | StepError::NotKept(_)
            | StepError::NotOver(_)
            | StepError::FirstRuntime
            | StepError::Runtime(_)
            | StepError::NotMoved(_)
            | StepError::SchemaInUse { .. } => Code::FailedPrecondition,
            StepError::TooManyRules
            | StepError::ChainTooLong
            | StepError::Schema(BindError::TooMany) => Code::ResourceExhausted,
            StepError::Change { error, .. } => match error {
                ChangeError::Broken { .. } => Code::Internal,
                ChangeError::TooMany => Code::ResourceExhausted,
                ChangeError::NoSuchPlace { .. } => Code::NotFound,
                _ => Code::FailedPrecondition,
            },
            _ => Code::InvalidArgument,
        }
    }
}

impl From<StepError> for Status {
    fn from(error: StepError) -> Status {
        Status::new(error.code(), error.to_string())
    }
}

/// A change that was not made.
#[derive(Debug)]
pub struct ChangeFailed {
    /// The step that has failed, from 1; 0 if none was begun.
    pub step: usize,
    /// How many there were.
    pub steps: usize,
    /// Why.
    pub error: Box<StepError>,
    /// What could not be undone: a policy that does not take its own state back.
    pub not_undone: Vec<String>,
}

impl ChangeFailed {
    /// No step was begun.
    pub fn before(steps: usize, error: StepError) -> ChangeFailed {
        ChangeFailed { step: 0, steps, error: Box::new(error), not_undone: Vec::new() }
    }
}

impl fmt::Display for ChangeFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps > 1 && self.step > 0 {
            write!(f, "step {} of {}: ", self.step, self.steps)?;
        }
        write!(f, "{}", self.error)?;
        if self.step > 1 && self.not_undone.is_empty() {
            write!(f, "; the steps before it were undone")?;
        }
        match self.not_undone.is_empty() {
            true => Ok(()),
            false => write!(f, "; NOT UNDONE: {}", self.not_undone.join("; ")),
        }
    }
}

impl From<ChangeFailed> for Status {
    fn from(failed: ChangeFailed) -> Status {
        let code = match failed.error.code() {
            // An earlier step may have changed it: the same plan may never be done.
            Code::Aborted if failed.steps > 1 => Code::FailedPrecondition,
            code => code,
        };
        Status::new(code, failed.to_string())
    }
}
