//! The workspace's test programs, and which of their tests are randomised.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::names;
use crate::tools;

/// A test program with at least one randomised test.
pub struct Program {
    /// Its name in messages.
    pub name: String,
    pub path: PathBuf,
    /// Where cargo would run it: the package's folder.
    pub folder: PathBuf,
    /// The arguments of `cargo test` that select it.
    arguments: Vec<String>,
    /// The randomised tests, by their full paths.
    pub tests: Vec<String>,
}

impl Program {
    /// The command that runs these tests once.
    pub fn again(&self) -> String {
        let (arguments, tests) = (self.arguments.join(" "), self.tests.join(" "));
        format!("cargo test {arguments} -- --exact {tests}")
    }
}

/// Builds all tests and lists the programs that have randomised ones.
pub fn find(root: &Path) -> Result<Vec<Program>, String> {
    let messages = build(root, &["test", "--workspace", "--no-run"])?;
    let names = randomised_names(root, &messages)?;
    let mut programs = Vec::new();
    for message in messages.iter().filter(|message| message["profile"]["test"] == true) {
        let Some(path) = message["executable"].as_str() else { continue };
        let tests = listed(path)?;
        let is_randomised = |test: &String| names.contains(test.rsplit("::").next().unwrap_or(""));
        let tests: Vec<String> = tests.into_iter().filter(is_randomised).collect();
        if !tests.is_empty() {
            programs.push(program(message, path, tests)?);
        }
    }
    Ok(programs)
}

/// Packages with a simulator, and the example that runs it.
pub const SIMULATORS: [(&str, &str); 3] = [
    ("petasos-sim", "simulate"),
    ("petasos-sim-calls", "simulate_calls"),
    ("petasos-sim-groups", "simulate_groups"),
];

/// Builds the simulators, with optimisation.
pub fn simulators(root: &Path) -> Result<Vec<PathBuf>, String> {
    SIMULATORS.iter().map(|(package, example)| simulator(root, package, example)).collect()
}

fn simulator(root: &Path, package: &str, example: &str) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "-p", package, "--example", example];
    let messages = build(root, &arguments)?;
    let made = messages.iter().filter_map(|message| message["executable"].as_str()).next_back();
    made.map(PathBuf::from).ok_or_else(|| "cargo made no simulator".to_owned())
}

/// Cargo's messages about each artifact that it has built.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Value>, String> {
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

/// The names of all randomised tests of the workspace. A suite's tests may be called from another
/// package than its own, so the names are not separated by package.
fn randomised_names(root: &Path, messages: &[Value]) -> Result<BTreeSet<String>, String> {
    let mut folders = BTreeSet::new();
    for message in messages {
        let Some(manifest) = message["manifest_path"].as_str().map(Path::new) else { continue };
        if let Some(folder) = manifest.parent().filter(|folder| folder.starts_with(root)) {
            folders.insert(folder.to_owned());
        }
    }
    let mut names = BTreeSet::new();
    for folder in &folders {
        collect(&folder.join("src"), &mut names)?;
        collect(&folder.join("tests"), &mut names)?;
    }
    Ok(names)
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path);
            let source = source.map_err(|error| format!("{}: {error}", path.display()))?;
            names.extend(names::randomised(&source));
        }
    }
    Ok(())
}

/// All tests of a program.
fn listed(path: &str) -> Result<Vec<String>, String> {
    let output = std::process::Command::new(path).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{path} cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn program(message: &Value, path: &str, tests: Vec<String>) -> Result<Program, String> {
    let manifest = message["manifest_path"].as_str().unwrap_or_default();
    let folder = Path::new(manifest).parent().ok_or("cargo names no manifest")?.to_owned();
    let (package, target) = (package_name(manifest)?, &message["target"]);
    let name = target["name"].as_str().unwrap_or_default().to_owned();
    let kind = target["kind"][0].as_str().unwrap_or_default();
    let chosen: &[&str] = match kind {
        "test" | "bin" | "example" | "bench" => &[kind, &name],
        _ => &["lib"],
    };
    let mut arguments = vec!["-p".to_owned(), package.clone()];
    arguments.push(format!("--{}", chosen.join(" ")));
    Ok(Program { name: format!("{package}, {name}"), path: path.into(), folder, arguments, tests })
}

/// The package's name in its manifest.
fn package_name(manifest: &str) -> Result<String, String> {
    let text = fs::read_to_string(manifest).map_err(|error| format!("{manifest}: {error}"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = "));
    name.map(|name| name.trim_matches('"').to_owned()).ok_or_else(|| format!("{manifest}: no name"))
}
