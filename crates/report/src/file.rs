//! Writing files atomically: completely or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file could not be written. The file that was at its path before is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The path that was asked for.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes `bytes` to a temporary file beside `path` and renames it, so that a reader never sees
/// half a file.
///
/// # Errors
/// When the folder is missing, full or not writable.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let temporary = temporary_path(path);
    let outcome = write_through(&temporary, path, bytes);
    if outcome.is_err() {
        // The temporary file may never have existed; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    outcome.map_err(|source| WriteError { path: path.to_owned(), source })
}

fn write_through(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// A sibling of `path`: renaming is atomic only within one file system.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("petasos-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        folder
    }

    #[test]
    fn an_old_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = scratch_folder("replace");
        let path = folder.join("out.json");
        write_atomically(&path, b"old").expect("writable");
        write_atomically(&path, b"new").expect("writable");
        assert_eq!(fs::read(&path).expect("it exists"), b"new");
        assert_eq!(fs::read_dir(&folder).expect("it exists").count(), 1);
        fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn the_error_names_the_path() {
        let folder = scratch_folder("missing");
        let path = folder.join("absent").join("out.json");
        let error = write_atomically(&path, b"x").expect_err("the folder does not exist");
        assert!(error.to_string().contains("absent"), "{error}");
        fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_path_that_is_a_folder_fails_and_leaves_nothing() {
        let folder = scratch_folder("folder");
        let target = folder.join("target");
        fs::create_dir_all(target.join("full")).expect("writable");
        write_atomically(&target, b"x").expect_err("a folder is no file");
        assert_eq!(fs::read_dir(&folder).expect("it exists").count(), 1);
        fs::remove_dir_all(folder).expect("ours");
    }
}
