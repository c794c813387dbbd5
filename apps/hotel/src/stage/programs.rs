//! Where programs are.

use std::path::{Path, PathBuf};

use super::StageArgs;
use crate::error::Error;

/// Programs that stacks need. What is missing shows when it is needed.
#[derive(Clone, Debug)]
pub struct Programs {
    petasosd: Option<PathBuf>,
    envoy: Option<PathBuf>,
}

impl Programs {
    pub fn find(args: &StageArgs) -> Programs {
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("petasosd"));
        let petasosd = args.petasosd.clone().or(beside).filter(|path| path.is_file());
        let envoy = args.envoy.clone().or_else(|| on_path("envoy"));
        Programs { petasosd, envoy }
    }

    /// The managed service.
    ///
    /// # Errors
    /// It was not built.
    pub fn petasosd(&self) -> Result<&Path, Error> {
        let missing = || Error::away("petasosd is not built: `cargo build -p petasosd`");
        self.petasosd.as_deref().ok_or_else(missing)
    }

    /// Envoy.
    ///
    /// # Errors
    /// It is not there.
    pub fn envoy(&self) -> Result<&Path, Error> {
        let missing = || Error::away("there is no Envoy: name it with --envoy");
        self.envoy.as_deref().ok_or_else(missing)
    }
}

/// The program of this name on the path.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|at| at.is_file())
}

/// memcached.
///
/// # Errors
/// It is not installed.
pub fn memcached() -> Result<PathBuf, Error> {
    let missing = || Error::away("memcached is not installed: Debian package `memcached`");
    on_path("memcached").ok_or_else(missing)
}

/// A program of PostgreSQL, which Debian has beside the path.
///
/// # Errors
/// It is not installed.
pub fn postgres(name: &str) -> Result<PathBuf, Error> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path()).collect();
    versions.sort();
    let installed = versions.into_iter().rev().map(|version| version.join("bin").join(name));
    let missing = || Error::away("PostgreSQL is not installed: Debian package `postgresql`");
    installed.into_iter().find(|at| at.is_file()).or_else(|| on_path(name)).ok_or_else(missing)
}
