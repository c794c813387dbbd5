//! Programs of their own that commands run: `petasos-bench`, `petasos-dashboard`, `petasos-kv` and
//! `petasos-quorum`.
//! Whoever builds `petasos` does not build what only these need.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use petasos_cli::failure::Failure;
use petasos_cli::output;

/// A program that a command runs.
pub struct Companion {
    /// The program.
    program: &'static str,
    /// Its package.
    package: &'static str,
    /// What it is, for people.
    what: &'static str,
    /// Where the package is in a checkout.
    manifest: &'static str,
    /// The build profile, and its folder's name.
    profile: &'static str,
    /// Whether one that was built with the profile `release` will do.
    may_be_everyday: bool,
    /// How it is installed without a checkout.
    install: &'static str,
}

/// What `petasos bench` runs. It compares Petasos with other systems, which are part of it, and is
/// built for measurements.
pub const BENCH: Companion = Companion {
    program: "petasos-bench",
    package: "petasos-bench",
    what: "the benchmark",
    manifest: "bin/petasos-bench/Cargo.toml",
    profile: "production",
    may_be_everyday: false,
    install: "cargo install --profile production --path bin/petasos-bench",
};

/// What `petasos dashboard` runs. Its web server is part of it.
pub const DASHBOARD: Companion = Companion {
    program: "petasos-dashboard",
    package: "petasos-dashboard",
    what: "the dashboard",
    manifest: "bin/petasos-dashboard/Cargo.toml",
    profile: "release",
    may_be_everyday: true,
    install: "cargo install --path bin/petasos-dashboard",
};

/// What `petasos kv` runs. Its server is fast if it is built for that, as measurements are.
pub const KV: Companion = Companion {
    program: "petasos-kv",
    package: "petasos-kv-program",
    what: "the key-value server",
    manifest: "bin/petasos-kv/Cargo.toml",
    profile: "release",
    may_be_everyday: true,
    install: "cargo install --profile production --path bin/petasos-kv",
};

/// What `petasos quorum` runs.
pub const QUORUM: Companion = Companion {
    program: "petasos-quorum",
    package: "petasos-quorum-program",
    what: "the replicated table",
    manifest: "bin/petasos-quorum/Cargo.toml",
    profile: "release",
    may_be_everyday: true,
    install: "cargo install --profile production --path bin/petasos-quorum",
};

/// The arguments for the program, including `--help`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct CompanionArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

impl Companion {
    /// Replaces this process by the program: the one next to this program, or one built from the
    /// checkout that contains this program or the current folder.
    ///
    /// If there is none, or it cannot be built or run, the failure has advice.
    pub fn run(&self, args: &CompanionArgs) -> Result<(), Failure> {
        let own = std::env::current_exe();
        let own = own.map_err(|error| Failure::new(format!("cannot tell where I am: {error}")))?;
        let program = match self.beside(&own) {
            Some(program) => program,
            None => self.build(&self.checkout(&own)?)?,
        };
        let error = Command::new(&program).args(&args.args).exec();
        Err(Failure::new(format!("cannot run {}: {error}", program.display())))
    }

    /// The program in the same folder. Returns none if cargo should decide: in a checkout, a
    /// program that is older than this one may be out of date, and an everyday build is not
    /// suitable for measurements.
    fn beside(&self, own: &Path) -> Option<PathBuf> {
        let program = own.with_file_name(self.program);
        let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_fresh = changed(&program)? >= changed(own)?;
        let is_everyday = own.parent().is_some_and(|folder| folder.ends_with("release"));
        let is_fit = is_fresh && (self.may_be_everyday || !is_everyday);
        (self.root_above(own).is_none() || is_fit).then_some(program)
    }

    fn root_above<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|root| root.join(self.manifest).is_file())
    }

    fn checkout(&self, own: &Path) -> Result<PathBuf, Failure> {
        let here = std::env::current_dir().ok();
        let root = self.root_above(own).or_else(|| self.root_above(here.as_deref()?));
        root.map(Path::to_owned).ok_or_else(|| {
            Failure::with_advice(
                format_args!(
                    "{} is a program of its own, {}, which is not here",
                    self.what, self.program
                ),
                format_args!(
                    "in a checkout of Petasos it is built when it is needed, and `{}` installs it \
                     beside this one",
                    self.install
                ),
            )
        })
    }

    /// Builds the program, and returns its path.
    fn build(&self, root: &Path) -> Result<PathBuf, Failure> {
        let name = self.program;
        let target = root.join("target");
        let program = target.join(self.profile).join(name);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([
            "build",
            "--profile",
            self.profile,
            "--package",
            self.package,
            "--target-dir",
        ]);
        command.arg(target);
        // Cargo's output shows the progress. Most often there is nothing to build.
        if program.is_file() {
            command.arg("--quiet");
        } else {
            output::note(&format!("petasos: building {name}, which takes minutes the first time"));
        }
        match command.current_dir(root).status() {
            Ok(status) if status.success() => Ok(program),
            Ok(_) => Err(Failure::with_advice(format_args!("cannot build {name}"), "see above")),
            Err(error) => Err(Failure::with_advice(
                format_args!("cannot run cargo to build {name}: {error}"),
                "install Rust from https://rustup.rs",
            )),
        }
    }
}
