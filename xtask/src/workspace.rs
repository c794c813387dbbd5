//! The workspace as all steps of CI build it: once, with one choice of features.
//!
//! Cargo gives a crate the features that the chosen packages ask for together. Lints, tests,
//! simulators, conformance suites and documented commands that choose alike share one build; each
//! other choice would compile most of the workspace, and what it depends on, again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::{skips, tools};

/// Policies as WebAssembly modules, which the default build leaves out, here and in the service.
const WASM: [&str; 2] = ["petasos-plugin/wasm", "petasosd/wasm"];

/// A backend in a crate of its own that needs a library of the system.
struct Backend {
    /// Packages that have the feature.
    packages: &'static [&'static str],
    feature: &'static str,
    /// The library, by its name for pkg-config.
    library: &'static str,
}

const BACKENDS: [Backend; 2] = [
    Backend {
        packages: &[
            "petasos-netio-fabric",
            "petasos-endpoint",
            "petasos-cli",
            "petasos-runtime",
            "petasosd",
        ],
        feature: "fabric",
        library: "libfabric",
    },
    Backend {
        packages: &["petasos-netio-dpdk", "petasos-endpoint", "petasos-cli"],
        feature: "dpdk",
        library: "libdpdk",
    },
];

/// All features that this host can build, as cargo takes them. Each other is a skip.
pub fn features(root: &Path) -> Result<String, String> {
    let mut features = WASM.map(str::to_owned).to_vec();
    for Backend { packages, feature, library } in BACKENDS {
        if tools::has_library(library) {
            features.extend(packages.iter().map(|package| format!("{package}/{feature}")));
        } else {
            skips::skip(root, library, &format!("no `{feature}`: there is no {library}"))?;
        }
    }
    Ok(features.join(","))
}

/// Packages with a simulator, and the example that runs it.
pub const SIMULATORS: [(&str, &str); 3] = [
    ("petasos-sim", "simulate"),
    ("petasos-sim-calls", "simulate_calls"),
    ("petasos-sim-groups", "simulate_groups"),
];

/// Examples of libraries that the documentation shows.
const SHOWN: [&str; 3] = ["hello", "nested", "other_threads"];

/// What cargo has built.
pub struct Built {
    messages: Vec<Value>,
}

/// Builds all programs and tests, and the examples that a step runs. Nothing is compiled if that
/// has been done before. Other examples have no tests, and lints see them all.
pub fn build(root: &Path) -> Result<Built, String> {
    let features = features(root)?;
    let mut arguments = vec!["build", "--workspace", "--features", &features, "--bins", "--tests"];
    let simulators = SIMULATORS.map(|(_, example)| example);
    arguments.extend(simulators.iter().chain(&SHOWN).flat_map(|name| ["--example", *name]));
    Ok(Built { messages: messages(root, &arguments)? })
}

impl Built {
    /// The test programs, in cargo's order.
    pub fn tests(&self) -> Result<Vec<TestProgram>, String> {
        test_programs(&self.messages)
    }

    /// The path of an example.
    pub fn example(&self, name: &str) -> Result<&Path, String> {
        let is_it = |message: &&Value| {
            message["target"]["kind"][0] == "example" && message["target"]["name"] == name
        };
        let path = self.messages.iter().find(is_it).and_then(executable);
        path.ok_or_else(|| format!("cargo has built no example `{name}`"))
    }
}

/// Cargo's messages about each artifact of a build.
pub fn messages(root: &Path, arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = tools::cargo();
    command.args(arguments).arg("--message-format=json-render-diagnostics").current_dir(root);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {}` failed", arguments.join(" ")));
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let messages: Result<Vec<Value>, _> = lines.map(serde_json::from_slice).collect();
    messages.map_err(|error| format!("cargo's messages: {error}"))
}

/// A test program, as cargo would run it.
#[derive(Debug)]
pub struct TestProgram {
    pub package: String,
    /// The target's name.
    pub target: String,
    pub path: PathBuf,
    /// The package's folder, in which it runs.
    pub folder: PathBuf,
    /// The arguments of `cargo test` that select it in its package.
    selection: String,
}

impl TestProgram {
    /// Its name in messages.
    pub fn name(&self) -> String {
        format!("{}, {}", self.package, self.target)
    }

    /// The command that runs it.
    pub fn command(&self) -> String {
        format!("cargo test -p {} --{}", self.package, self.selection)
    }
}

/// The test programs that a build has made.
pub fn test_programs(messages: &[Value]) -> Result<Vec<TestProgram>, String> {
    let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
    tests.filter_map(|message| Some(test_program(message, executable(message)?))).collect()
}

fn executable(message: &Value) -> Option<&Path> {
    message["executable"].as_str().map(Path::new)
}

fn test_program(message: &Value, path: &Path) -> Result<TestProgram, String> {
    let manifest = message["manifest_path"].as_str().unwrap_or_default();
    let folder = Path::new(manifest).parent().ok_or("cargo names no manifest")?.to_owned();
    let target = message["target"]["name"].as_str().unwrap_or_default().to_owned();
    let selection = match message["target"]["kind"][0].as_str().unwrap_or_default() {
        kind @ ("test" | "bin" | "example" | "bench") => format!("{kind} {target}"),
        _ => "lib".to_owned(),
    };
    let package = package_name(manifest)?;
    Ok(TestProgram { package, target, path: path.to_owned(), folder, selection })
}

/// The package's name in its manifest.
fn package_name(manifest: &str) -> Result<String, String> {
    let text = fs::read_to_string(manifest).map_err(|error| format!("{manifest}: {error}"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = "));
    name.map(|name| name.trim_matches('"').to_owned()).ok_or_else(|| format!("{manifest}: no name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(kind: &str, name: &str, is_test: bool) -> Value {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        json!({
            "manifest_path": manifest, "executable": format!("/x/{name}"),
            "target": { "kind": [kind], "name": name }, "profile": { "test": is_test },
        })
    }

    #[test]
    fn test_programs_are_selected_as_cargo_would() {
        let library = json!({ "profile": { "test": false }, "executable": null });
        let messages = [library, message("test", "one", true), message("lib", "two", true)];
        let built = Built { messages: messages.to_vec() };
        let commands: Vec<_> = built.tests().unwrap().iter().map(TestProgram::command).collect();
        assert_eq!(commands, ["cargo test -p xtask --test one", "cargo test -p xtask --lib"]);
    }

    #[test]
    fn examples_are_found_by_name() {
        let messages = vec![message("bin", "one", false), message("example", "two", false)];
        let built = Built { messages };
        assert_eq!(built.example("two"), Ok(Path::new("/x/two")));
        assert!(built.example("one").unwrap_err().contains("`one`"));
    }
}
