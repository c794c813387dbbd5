//! A folder for the files of one contender, which is removed with it.

use std::path::{Path, PathBuf};

use petasos_base::sync::{AtomicU64, Ordering};

use crate::error::BenchError;

/// Counts the folders of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder of the system's folder for temporary files.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new empty folder.
    ///
    /// # Errors
    /// The system's.
    pub fn new(name: &str) -> Result<Folder, BenchError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("petasos-bench-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
