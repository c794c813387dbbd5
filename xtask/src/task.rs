//! What all tasks share.

use std::path::{Path, PathBuf};

/// Why a task failed, in words for the person at the terminal.
pub type TaskResult = Result<(), String>;

/// Where builds that must not disturb the main one go.
pub fn target_folder(root: &Path, name: &str) -> PathBuf {
    let main = std::env::var_os("CARGO_TARGET_DIR");
    main.map_or_else(|| root.join("target"), |folder| root.join(folder)).join(name)
}
