//! What was made for the steps of a change before the loop does them.

use std::sync::Arc;

use petasos_engine::Policy;

use super::is_same;
use crate::configuration::Live;
use crate::made::{Made, MakeError};
use crate::plugins::Plugin;

/// A policy that takes the place of one.
pub struct Anew {
    /// The policy that is there.
    pub before: Arc<dyn Policy>,
    /// The other one.
    pub made: Result<Made, MakeError>,
}

/// A plug-in that was loaded, and what goes on with it.
pub type Loaded = (Arc<Plugin>, Vec<Anew>);

/// What was made for a step.
#[derive(Default)]
pub enum Ready {
    /// It needs nothing.
    #[default]
    Nothing,
    /// A policy.
    Policy(Box<Result<Made, MakeError>>),
    /// Policies that go on from others.
    Anew(Vec<Anew>),
    /// A plug-in.
    Plugin(Result<Loaded, String>),
    /// What the configuration says, and what goes on with other versions of plug-ins.
    Configuration(Result<Box<(Live, Vec<Anew>)>, String>),
}

/// What takes the place of a policy, if it was made.
pub fn take_anew(all: &mut Vec<Anew>, before: &Arc<dyn Policy>) -> Option<Result<Made, MakeError>> {
    let index = all.iter().position(|anew| is_same(&anew.before, before))?;
    Some(all.swap_remove(index).made)
}
