//! Everything that must pass before a change is merged, in order, each step by its name.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::{TaskResult, deny, icount, readme, target_folder, tidy, tools};

/// One step: what `cargo xtask ci NAME` runs.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Path) -> TaskResult,
}

/// Cheap steps stand first, so that small slips are found in seconds.
const STEPS: [Step; 11] = [
    Step { name: "tools", what: "install what is missing", run: |_| tools::install_missing() },
    Step { name: "fmt", what: "formatting", run: |root| cargo(root, &["fmt", "--all", "--check"]) },
    Step { name: "tidy", what: "layers, lengths, unsafe, specification", run: tidy::run },
    Step { name: "clippy", what: "lints, as errors", run: clippy },
    Step { name: "test", what: "tests", run: |root| cargo(root, &["test", "--workspace"]) },
    Step { name: "doc", what: "documentation, warnings as errors", run: doc },
    Step { name: "loom", what: "lock-free parts under the model checker", run: loom },
    Step { name: "icount", what: "instructions, packets, system calls per RPC", run: icount },
    Step { name: "dissector", what: "the Wireshark dissector on known packets", run: dissector },
    Step { name: "deny", what: "licences, sources, duplicates", run: deny::run },
    Step { name: "readme", what: "the commands that the README shows", run: readme::run },
];

/// Prints the steps.
pub fn list() {
    for step in &STEPS {
        println!("{:10} {}", step.name, step.what);
    }
}

/// Runs the steps that `names` lists, or all, in the order of [`STEPS`].
pub fn run(root: &Path, names: &[&str]) -> TaskResult {
    if let Some(name) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("ci: no step `{name}`; there are {}", known.join(", ")));
    }
    let begin = now();
    for step in STEPS.iter().filter(|step| names.is_empty() || names.contains(&step.name)) {
        println!("\n==> {}: {}", step.name, step.what);
        let begin = now();
        let result = (step.run)(root);
        let seconds = begin.elapsed().as_secs_f64();
        result.map_err(|error| {
            format!("ci: step `{}` failed after {seconds:.1} s: {error}", step.name)
        })?;
        println!("==> {}: passed in {seconds:.1} s", step.name);
    }
    println!("\nci: all passed in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// The wall clock: what a person waits for, and nothing depends on it.
#[expect(clippy::disallowed_methods, reason = "xtask does not link the workspace's clock")]
fn now() -> Instant {
    Instant::now()
}

fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = tools::cargo();
    command.args(arguments).current_dir(root);
    command
}

fn cargo(root: &Path, arguments: &[&str]) -> TaskResult {
    tools::run(&mut cargo_command(root, arguments))
}

fn clippy(root: &Path) -> TaskResult {
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn doc(root: &Path) -> TaskResult {
    let mut command = cargo_command(root, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-Dwarnings");
    tools::run(&mut command)
}

/// Runs every `crates/*/tests/loom*.rs` with the atomics seam leading to the model checker.
fn loom(root: &Path) -> TaskResult {
    let tests = loom_tests(root).map_err(|error| format!("cannot list crates: {error}"))?;
    if tests.is_empty() {
        println!("skipped: no crate has a tests/loom*.rs yet");
    }
    for (folder, test) in tests {
        let manifest = format!("crates/{folder}/Cargo.toml");
        let mut command = cargo_command(root, &["test", "--release", "--manifest-path", &manifest]);
        command.args(["--test", &test]);
        command.env("RUSTFLAGS", "--cfg loom");
        command.env("CARGO_TARGET_DIR", target_folder(root, "loom"));
        tools::run(&mut command)?;
    }
    Ok(())
}

/// Folder below `crates` and name of each loom test, in order.
fn loom_tests(root: &Path) -> std::io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(root.join("crates"))? {
        let folder = folder?;
        let Ok(tests) = fs::read_dir(folder.path().join("tests")) else { continue };
        for test in tests {
            let file = test?.file_name().to_string_lossy().into_owned();
            let name = file.strip_suffix(".rs").filter(|name| name.starts_with("loom"));
            if let Some(name) = name {
                found.push((folder.file_name().to_string_lossy().into_owned(), name.to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn icount(root: &Path) -> TaskResult {
    if icount::exists(root) {
        return icount::run(root, icount::Mode::Check);
    }
    println!("skipped: the program to be measured is not written yet");
    Ok(())
}

fn dissector(root: &Path) -> TaskResult {
    tools::run(&mut Command::new(root.join("tools/wireshark/check.sh")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_names_of_their_own() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn loom_tests_are_found_by_their_names() {
        let root = std::env::temp_dir().join(format!("petasos-xtask-loom-{}", std::process::id()));
        for file in ["a/tests/loom_ring.rs", "a/tests/other.rs", "b/tests/loom.rs", "c/src/loom.rs"]
        {
            let path = root.join("crates").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = loom_tests(&root);
        fs::remove_dir_all(&root).unwrap();
        let expected = [("a".to_owned(), "loom_ring".to_owned()), ("b".into(), "loom".into())];
        assert_eq!(found.unwrap(), expected);
    }
}
