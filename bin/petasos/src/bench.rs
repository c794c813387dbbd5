//! `petasos bench`: runs the program `petasos-bench`. That program is built separately, together
//! with the systems that it compares Petasos with.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::output;
use petasos_cli::failure::Failure;

const PROGRAM: &str = "petasos-bench";
/// The build profile for measurements, which differs from that of everyday builds.
const PROFILE: &str = "production";
/// Where the package is in a checkout.
const MANIFEST: &str = "bin/petasos-bench/Cargo.toml";

/// The arguments for `petasos-bench`, including `--help`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct BenchArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Replaces this process by `petasos-bench`: the one next to this program, or one built from the
/// checkout that contains this program or the current folder.
///
/// If there is no such program, or it cannot be built or run. The error contains advice.
/// If there is none, or it cannot be built or run, with advice.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| Failure::new(format!("cannot tell where I am: {error}")))?;
    let program = match beside(&own) {
        Some(program) => program,
        None => build(&checkout(&own)?)?,
    };
    let error = Command::new(&program).args(&args.args).exec();
    Err(Failure::new(format!("cannot run {}: {error}", program.display())))
}

/// The program in the same folder. Returns none if cargo should decide: in a checkout, a program
/// that is older than this one may be out of date, and an everyday build is not suitable for
/// measurements.
fn beside(own: &Path) -> Option<PathBuf> {
    let program = own.with_file_name(PROGRAM);
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let is_fresh = changed(&program)? >= changed(own)?;
    let is_everyday = own.parent().is_some_and(|folder| folder.ends_with("release"));
    (root_above(own).is_none() || (is_fresh && !is_everyday)).then_some(program)
}

fn root_above(path: &Path) -> Option<&Path> {
    path.ancestors().find(|root| root.join(MANIFEST).is_file())
}

fn checkout(own: &Path) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().ok();
    let root = root_above(own).or_else(|| root_above(here.as_deref()?));
    root.map(Path::to_owned).ok_or_else(|| {
        Failure::with_advice(
            format_args!("the benchmark is a program of its own, {PROGRAM}, which is not here"),
            "in a checkout of Petasos it is built when it is needed, and `cargo install --profile \
             production --path bin/petasos-bench` installs it beside this one",
        )
    })
}

/// Builds the program for measurements, and returns its path.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    let target = root.join("target");
    let program = target.join(PROFILE).join(PROGRAM);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", PROFILE, "--package", PROGRAM, "--target-dir"]).arg(target);
    // Cargo's output shows the progress. Most often there is nothing to build.
    if program.is_file() {
        command.arg("--quiet");
    } else {
        output::note(&format!("petasos: building {PROGRAM}, which takes minutes the first time"));
    }
    match command.current_dir(root).status() {
        Ok(status) if status.success() => Ok(program),
        Ok(_) => Err(Failure::with_advice(format_args!("cannot build {PROGRAM}"), "see above")),
        Err(error) => Err(Failure::with_advice(
            format_args!("cannot run cargo to build {PROGRAM}: {error}"),
            "install Rust from https://rustup.rs",
        )),
    }
}
