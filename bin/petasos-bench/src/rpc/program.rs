//! Peers in `bench/peers`, which are separate programs, and how to build them.
//!
//! Each is a package with its own lockfile, so that its dependencies do not affect other packages.
//! It is built when it is needed. `bench/peers/README.md` specifies these programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BenchError;

/// A peer with a separate program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Tcp,
    Tarpc,
    Quinn,
    GrpcGo,
    GrpcCpp,
    Zeromq,
    Capnp,
    Iceoryx2,
}

/// The build system of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    Go,
    Cpp,
}

/// Where the programs' sources are in a checkout.
const FOLDER: &str = "bench/peers";

impl Program {
    /// The name of the folder, and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Program::Tcp => "tcp",
            Program::Tarpc => "tarpc",
            Program::Quinn => "quinn",
            Program::GrpcGo => "grpc-go",
            Program::GrpcCpp => "grpc-cpp",
            Program::Zeromq => "zeromq",
            Program::Capnp => "capnp",
            Program::Iceoryx2 => "iceoryx2",
        }
    }

    fn language(self) -> Language {
        match self {
            Program::GrpcGo => Language::Go,
            Program::GrpcCpp => Language::Cpp,
            _ => Language::Rust,
        }
    }

    /// The commands that the build needs, each with the package that has it.
    fn needs(self) -> &'static [(&'static str, &'static str)] {
        const CARGO: (&str, &str) = ("cargo", "Rust, from https://rustup.rs");
        const C: (&str, &str) = ("cc", "a C compiler: Debian package `gcc`");
        match self {
            Program::Tcp | Program::Tarpc => &[CARGO],
            Program::Quinn | Program::Iceoryx2 => &[CARGO, C],
            Program::GrpcGo => &[("go", "Go: Debian package `golang-go`, or https://go.dev/dl")],
            Program::GrpcCpp => &[
                ("make", "make: Debian package `make`"),
                ("c++", "a C++ compiler: Debian package `g++`"),
                ("pkg-config", "pkg-config: Debian package `pkg-config`"),
            ],
            Program::Zeromq => &[CARGO, ("c++", "a C++ compiler: Debian package `g++`")],
            Program::Capnp => &[CARGO, ("capnp", "its compiler: Debian package `capnproto`")],
        }
    }

    /// The libraries that the build needs, by their names in pkg-config, each with the package that
    /// has it.
    fn libraries(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Program::GrpcCpp => &[
                ("grpc++", "gRPC for C++: Debian package `libgrpc++-dev`"),
                ("protobuf", "protobuf for C++: Debian package `libprotobuf-dev`"),
            ],
            _ => &[],
        }
    }

    /// Builds the program if it is not up to date, and returns its path.
    ///
    /// # Errors
    /// If something is missing (with the package that has it), or the build failed (which has
    /// printed the reason).
    pub fn build(self) -> Result<PathBuf, BenchError> {
        let name = self.name();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let library = || self.libraries().iter().copied().find(|(name, _)| !has_library(name));
        if let Some((_, advice)) = self.missing(&path).or_else(library) {
            return Err(format!("cannot build {name}: install {advice}").into());
        }
        let root = checkout()?;
        let target = target_folder(&root);
        std::fs::create_dir_all(&target)?;
        let source = root.join(FOLDER).join(name);
        let program = target.join(format!("release/petasos-peer-{name}"));
        let command = match self.language() {
            Language::Rust => cargo_build(&source, &target),
            Language::Go => go_build(&source, &program),
            Language::Cpp => make(&source, &program),
        };
        build(name, command, program)
    }

    /// The first required command that is not in the folders of `path`.
    fn missing(self, path: &std::ffi::OsStr) -> Option<(&'static str, &'static str)> {
        let has = |command: &str| std::env::split_paths(path).any(|at| at.join(command).is_file());
        self.needs().iter().copied().find(|(command, _)| !has(command))
    }
}

fn cargo_build(source: &Path, target: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(target);
    command.current_dir(source);
    command
}

fn go_build(source: &Path, program: &Path) -> Command {
    let mut command = Command::new("go");
    command.args(["build", "-mod=readonly", "-o"]).arg(program).arg(".");
    command.current_dir(source);
    command
}

fn make(source: &Path, program: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(source).arg(format!("PROGRAM={}", program.display()));
    command
}

fn has_library(name: &str) -> bool {
    let status = Command::new("pkg-config").args(["--exists", name]).status();
    status.is_ok_and(|status| status.success())
}

fn build(name: &str, mut command: Command, program: PathBuf) -> Result<PathBuf, BenchError> {
    if !program.is_file() {
        eprintln!("petasos bench: building {name}, which may take minutes the first time");
    }
    // The build tools' output shows the progress. Standard output is for the result.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() && program.is_file() => Ok(program),
        Ok(_) => Err(format!("cannot build {name}: see above").into()),
        Err(error) => Err(format!("cannot build {name}: {error}").into()),
    }
}

/// Draws an SVG file as PNG next to it, with a program that is built in the same way.
///
/// # Errors
/// If the program cannot be built, or fails.
pub fn draw_png(svg: &Path) -> Result<(), BenchError> {
    let root = checkout()?;
    let target = target_folder(&root);
    let command = cargo_build(&root.join("bench/png"), &target);
    let program = build("petasos-png", command, target.join("release/petasos-png"))?;
    match Command::new(program).arg(svg).arg(svg.with_extension("png")).status()? {
        status if status.success() => Ok(()),
        status => Err(format!("cannot draw {} as PNG: {status}", svg.display()).into()),
    }
}

/// The checkout that contains this program, the current folder or this program's source.
pub fn checkout() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().ok();
    let here = std::env::current_dir().ok();
    let source = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let starts = [own, here, source].into_iter().flatten();
    let root = starts.filter_map(|start| root_above(&start).map(Path::to_owned)).next();
    root.ok_or_else(|| {
        format!("the sources of this peer are in {FOLDER} of a checkout of Petasos: run it there")
            .into()
    })
}

fn root_above(path: &Path) -> Option<&Path> {
    path.ancestors().find(|root| root.join(FOLDER).is_dir())
}

/// A folder next to the workspace's build output, where packages of other lockfiles do not
/// interfere.
pub fn target_folder(root: &Path) -> PathBuf {
    let set: Option<OsString> = std::env::var_os("CARGO_TARGET_DIR");
    set.map_or_else(|| root.join("target"), |folder| root.join(folder)).join("peers")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::rpc::role::Peer;

    fn programs() -> impl Iterator<Item = (Peer, Program)> {
        let peers = Peer::value_variants().iter();
        peers.filter_map(|peer| Some((*peer, peer.program()?)))
    }

    #[test]
    fn every_program_has_a_folder_with_its_lockfile() {
        assert_eq!(programs().count(), 8);
        for (peer, program) in programs() {
            let value = peer.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), program.name());
            let folder = checkout().expect("here it is").join(FOLDER).join(program.name());
            let lockfile = match program.language() {
                Language::Rust => "Cargo.lock",
                Language::Go => "go.sum",
                // Debian has the libraries.
                Language::Cpp => "Makefile",
            };
            assert!(folder.join(lockfile).is_file(), "{}", folder.display());
        }
    }

    #[test]
    fn what_is_missing_is_named_with_what_has_it() {
        let empty = std::ffi::OsStr::new("/nonexistent");
        for (_, program) in programs() {
            let (_, advice) = program.missing(empty).expect("nothing is there");
            assert!(advice.contains("https://") || advice.contains("Debian package"), "{advice}");
        }
        let missing = Program::Capnp.needs().last().expect("it needs its compiler");
        assert!(missing.1.contains("`capnproto`"));
    }
}
