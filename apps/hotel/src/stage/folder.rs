//! A folder for files and sockets, which is removed in the end.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use petasos_base::sync::{AtomicU64, Ordering};

use crate::error::Error;

/// Counts the folders of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder among the system's temporary files. Others may pass through it, but not list it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new empty folder.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Folder, Error> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hotel-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::create_dir(&path)
            .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o711)));
        match made {
            Ok(()) => Ok(Folder(path)),
            Err(error) => Err(Error::internal(format!("{}: {error}", path.display()))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
