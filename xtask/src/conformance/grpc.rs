//! `cargo xtask conformance grpc`: the connect project's suite, in gRPC mode.
//!
//! The suite's runner is a Go program that talks to the programs under test
//! (`examples/connect-conformance`) over pipes. Go's toolchain fetches and builds it into the
//! target folder, once. Without `go` or the network, the task reports a skip and does nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{build, need, quietly};
use crate::{TaskResult, skips, target_folder, tools};

/// The runner, with its version: the newest that resolves everywhere.
const MODULE: &str = "connectrpc.com/conformance/cmd/connectconformance@v1.0.5";
const RUNNER: &str = "connectconformance";

/// The example with the programs under test, and the suite's configuration in it.
const EXAMPLE: &str = "connect-conformance";
const SUITE: &str = "examples/connect-conformance/suite.yaml";

/// Runs the suite's cases for servers, then those for clients, without a list of expected failures.
pub fn grpc(root: &Path) -> TaskResult {
    let folder = target_folder(root, "conformance");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {folder:?}: {error}"))?;
    let runner = match runner(&folder) {
        Ok(runner) => runner,
        Err(missing) => return skips::skip(root, "suites", &format!("gRPC's: {missing}")),
    };
    let programs = build(root)?;
    for mode in ["server", "client"] {
        let mut command = Command::new(&runner);
        command.args(["--mode", mode, "--conf"]).arg(root.join(SUITE)).arg("--");
        let program = programs.join(format!("{EXAMPLE}-{mode}"));
        println!("gRPC conformance of the {mode}:");
        tools::run(command.arg(program).stdin(Stdio::null()))?;
    }
    Ok(())
}

/// The runner's path, or what is missing for it.
fn runner(folder: &Path) -> Result<PathBuf, String> {
    // Go requires an absolute path.
    let folder = folder.canonicalize().map_err(|error| format!("{folder:?}: {error}"))?;
    let runner = folder.join(RUNNER);
    if !runner.is_file() {
        need(&["go"])?;
        quietly(Command::new("go").args(["install", MODULE]).env("GOBIN", &folder))?;
    }
    Ok(runner)
}
