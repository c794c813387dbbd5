//! Loading shared objects, with their trial.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use petasos_engine::{Policy, State};
use petasos_plugin::{LoadError, Plugin, Trial};

use crate::support::make;

/// The limit is long, since nothing that ends is to reach it.
pub fn trial() -> Trial {
    limited(Duration::from_secs(60))
}

pub fn limited(limit: Duration) -> Trial {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_petasos-plugin-try"));
    Trial { program, arguments: Vec::new(), limit }
}

pub fn load(path: &Path) -> Result<Plugin, LoadError> {
    Plugin::load(path, trial())
}

pub fn policy(plugin: &Plugin, configuration: &str, state: Option<&State>) -> Arc<dyn Policy> {
    make(plugin, configuration, state).expect("the policy is made")
}
