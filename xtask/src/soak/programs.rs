//! The workspace's test programs, and which of their tests are randomised.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::names;
use crate::workspace::{self, SIMULATORS, TestProgram};

/// A test program with at least one randomised test.
pub struct Randomised {
    pub program: TestProgram,
    /// The randomised tests, by their full paths.
    pub tests: Vec<String>,
}

impl Randomised {
    /// The command that runs these tests once.
    pub fn again(&self) -> String {
        format!("{} -- --exact {}", self.program.command(), self.tests.join(" "))
    }
}

/// Builds the tests of `packages`, or all if there are none, and lists the programs that have
/// randomised ones.
pub fn find(root: &Path, packages: &[String]) -> Result<Vec<Randomised>, String> {
    let mut arguments = vec!["test", "--no-run"];
    match packages.is_empty() {
        true => arguments.push("--workspace"),
        false => arguments.extend(packages.iter().flat_map(|package| ["-p", package.as_str()])),
    }
    let messages = workspace::messages(root, &arguments)?;
    let names = randomised_names(root, &messages)?;
    let mut programs = Vec::new();
    for program in workspace::test_programs(&messages)? {
        let tests = listed(&program.path)?;
        let is_randomised = |test: &String| names.contains(test.rsplit("::").next().unwrap_or(""));
        let tests: Vec<String> = tests.into_iter().filter(is_randomised).collect();
        if !tests.is_empty() {
            programs.push(Randomised { program, tests });
        }
    }
    Ok(programs)
}

/// Builds the simulators, with optimisation.
pub fn simulators(root: &Path) -> Result<Vec<PathBuf>, String> {
    SIMULATORS.iter().map(|(package, example)| simulator(root, package, example)).collect()
}

fn simulator(root: &Path, package: &str, example: &str) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "-p", package, "--example", example];
    let messages = workspace::messages(root, &arguments)?;
    let made = messages.iter().filter_map(|message| message["executable"].as_str()).next_back();
    made.map(PathBuf::from).ok_or_else(|| "cargo made no simulator".to_owned())
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
fn listed(path: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(path).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{} cannot be run: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
