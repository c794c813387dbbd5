//! Compiles the module, whose sources are in this crate.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the module was not compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The folder cannot be written to, or there is no compiler: install gcc.
    #[error("cannot compile the module: {0} (is there a C compiler `cc`?)")]
    Io(#[from] io::Error),
    /// The compiler has refused it.
    #[error("the compiler refuses the module: {0}")]
    Compiler(String),
}

/// The sources, by their names.
const SOURCES: [(&str, &str); 5] = [
    ("petasos_redis.c", include_str!("../module/petasos_redis.c")),
    ("commands.h", include_str!("../module/commands.h")),
    ("descriptors.h", include_str!("../module/descriptors.h")),
    ("redis_api.h", include_str!("../module/redis_api.h")),
    ("petasos.h", include_str!("../../../crates/capi/include/petasos.h")),
];

/// Compiles the module against the shared library of `petasos-capi`, in `folder`. Returns where it
/// is; it needs the folder and the library from then on.
///
/// # Errors
/// See [`ModuleError`].
pub fn build_module(library: &Path, folder: &Path) -> Result<PathBuf, ModuleError> {
    std::fs::create_dir_all(folder)?;
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text)?;
    }
    for name in ["libpetasos.so", "libpetasos.so.1"] {
        let link = folder.join(name);
        if link.is_symlink() {
            std::fs::remove_file(&link)?;
        }
        symlink(library, link)?;
    }
    let module = folder.join("petasos_redis.so");
    let output = Command::new("cc")
        .current_dir(folder)
        .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
        .args(["-fvisibility=hidden", "-I.", "petasos_redis.c", "-L."])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lpetasos", "-o"])
        .arg(&module)
        .output()?;
    match output.status.success() {
        true => Ok(module),
        false => Err(ModuleError::Compiler(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
