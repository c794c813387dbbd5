//! Plug-ins of the operator: shared objects that have stood their trial.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use petasos_engine::{Policy, PolicyError, PolicyKind, State, Version};
use thiserror::Error;

use crate::native::NativeKind;
use crate::object::{OBJECT_BYTES_MAX, Object, ObjectError, Watch};
use crate::trial::{Trial, TrialError};

/// A plug-in that is not loaded. What runs goes on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its file cannot be read: the operator's fault.
    #[error("the file cannot be read: {0}")]
    Read(std::io::Error),
    /// Its file is longer than [`OBJECT_BYTES_MAX`].
    #[error("the file has more than {OBJECT_BYTES_MAX} bytes")]
    TooLong,
    /// It has not stood its trial: the plug-in's fault.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// It stood its trial, and yet this process cannot load it.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// A shared object that has stood its trial, as a kind of policy.
#[derive(Debug)]
pub struct Plugin {
    kind: NativeKind,
    trial: Trial,
}

impl Plugin {
    /// Tries a shared object in a child process, and loads it.
    ///
    /// Waits for the child, at most as long as the trial may take: a thread that must not wait
    /// leaves this to another one.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(path: &Path, trial: Trial) -> Result<Plugin, LoadError> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(LoadError::Read)?;
        file.take(OBJECT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(LoadError::Read)?;
        if bytes.len() as u64 > OBJECT_BYTES_MAX {
            return Err(LoadError::TooLong);
        }
        trial.run(&bytes, None)?;
        let kind = NativeKind::new(Object::load(&bytes)?);
        Ok(Plugin { kind, trial })
    }

    /// Tells whether the object is mapped, when the plug-in, its policies and their engines have
    /// gone.
    pub fn watch(&self) -> Watch {
        self.kind.watch()
    }
}

impl PolicyKind for Plugin {
    fn version(&self) -> Version {
        self.kind.version()
    }

    /// Nobody knows what is in their states, and modules have no others.
    fn carries_engines(&self) -> bool {
        true
    }

    /// Tries the configuration in a child process, and waits for it.
    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind = self.version().kind.to_owned();
        let tried = match self.kind.object_bytes() {
            Ok(bytes) => self.trial.run(&bytes, Some((configuration, state))),
            Err(error) => Err(TrialError::System(error)),
        };
        match tried {
            Ok(()) => self.kind.make(configuration, state),
            Err(TrialError::State(why)) => Err(PolicyError::State { kind, why }),
            Err(other) => Err(PolicyError::Configuration { kind, why: other.to_string() }),
        }
    }
}
