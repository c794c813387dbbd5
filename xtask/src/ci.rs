//! All checks that must pass before a change is merged, as named steps in order.

use std::path::Path;
use std::process::Command;

use crate::attempt::now;
use crate::task::{TaskResult, target_folder};
use crate::workspace::{self, SIMULATORS};
use crate::{conformance, consoles, deny, fuzz, icount, skips, suite, tidy, tools};

/// One step: what `cargo xtask ci NAME` runs.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Path) -> TaskResult,
}

/// Cheap steps come first, so that small mistakes are found in seconds.
const STEPS: [Step; 17] = [
    Step { name: "tools", what: "install what is missing", run: |_| tools::install_missing() },
    Step { name: "fmt", what: "formatting", run: |root| cargo(root, &["fmt", "--all", "--check"]) },
    Step { name: "tidy", what: "layers, lengths, unsafe, specification", run: tidy::run },
    Step { name: "clippy", what: "lints, as errors", run: clippy },
    Step { name: "test", what: "tests", run: tests },
    Step { name: "templates", what: "projects that users copy", run: templates },
    Step { name: "peers", what: "what the peers of the benchmark share", run: peers },
    Step { name: "doc", what: "documentation, warnings as errors", run: doc },
    Step { name: "loom", what: "lock-free parts under the model checker", run: loom },
    Step {
        name: "simulate",
        what: "clusters, calls and groups under faults, fixed and fresh seeds",
        run: simulate,
    },
    Step { name: "fuzz", what: "every fuzz target for some seconds", run: fuzz::bounded },
    Step { name: "icount", what: "instructions, packets, system calls per RPC", run: icount },
    Step { name: "conformance", what: "public suites, where they can be fetched", run: conform },
    Step {
        name: "programs",
        what: "the committed BPF object is that of its source",
        run: programs,
    },
    Step { name: "dissector", what: "the Wireshark dissector on known packets", run: dissector },
    Step { name: "deny", what: "licences, sources, duplicates, advisories", run: deny::run },
    Step { name: "consoles", what: "what the documentation shows", run: run_consoles },
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
    let record = skips::begin(root)?;
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
    println!();
    let skipped = skips::summary(record)?;
    println!("ci: all passed in {:.1} s; {skipped}", begin.elapsed().as_secs_f64());
    Ok(())
}

fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = tools::cargo();
    command.args(arguments).current_dir(root);
    command
}

fn cargo(root: &Path, arguments: &[&str]) -> TaskResult {
    tools::run(&mut cargo_command(root, arguments))
}

/// With all features, so that nothing is compiled twice for the sake of a few files. Without them,
/// everything is compiled by `doc`, with warnings as errors, too.
fn clippy(root: &Path) -> TaskResult {
    let strict = ["--all-targets", "--", "-D", "warnings"];
    let features = workspace::features(root)?;
    let all = ["clippy", "--workspace", "--features", &features];
    cargo(root, &[&all[..], &strict[..]].concat())?;
    // The facade without the default features: gRPC, Tokio, spans.
    cargo(root, &[&["clippy", "-p", "petasos", "--no-default-features"], &strict[..]].concat())
}

/// All tests, with all features, in one build of the workspace: what needs its programs or its
/// simulators afterwards finds them there.
fn tests(root: &Path) -> TaskResult {
    suite::run(root, &workspace::build(root)?)?;
    cargo(root, &["test", "--workspace", "--features", &workspace::features(root)?, "--doc"])
}

/// Projects outside of the workspace, which tests of `petasos-plugin` build and load.
const TEMPLATE: &str = "templates/plugin/Cargo.toml";
const PROBE: &str = "crates/plugin/tests/probe/Cargo.toml";

/// Checks the template of plug-ins as its author would, and what only modules have.
fn templates(root: &Path) -> TaskResult {
    let folder = target_folder(root, "templates");
    let folder = folder.to_str().ok_or("the target folder's name is not UTF-8")?;
    let options = ["--release", "--locked", "--target-dir", folder, "--manifest-path"];
    let strict = ["--", "-D", "warnings"];
    for project in [TEMPLATE, PROBE] {
        cargo(root, &["fmt", "--check", "--manifest-path", project])?;
        let lint = [&["clippy", "--all-targets"], &options[..], &[project], &strict].concat();
        cargo(root, &lint)?;
    }
    cargo(root, &[&["test"], &options[..], &[TEMPLATE]].concat())?;
    if !tools::has_target(tools::MODULE_TARGET) {
        return skips::skip(root, "wasm32", "there is no target for modules");
    }
    let module = ["--package", "petasos-plugin-sdk", "--target", tools::MODULE_TARGET];
    cargo(root, &[&["clippy"], &module[..], &strict].concat())
}

/// Peers are not members of the workspace. All are formatted. Their common code is tested together
/// with the peer that needs nothing else. The others are built when somebody measures them.
fn peers(root: &Path) -> TaskResult {
    let folder = root.join("bench/peers");
    let entries = folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))?;
    let packages = entries.filter_map(|entry| Some(entry.ok()?.path().join("Cargo.toml")));
    let packages = packages.chain([root.join("bench/png/Cargo.toml")]);
    for manifest in packages.filter(|manifest| manifest.is_file()) {
        let mut command = cargo_command(root, &["fmt", "--check", "--manifest-path"]);
        tools::run(command.arg(manifest))?;
    }
    let mut command = cargo_command(root, &["test", "--locked", "--package", "petasos-peer"]);
    command.arg("--manifest-path").arg(folder.join("tcp/Cargo.toml"));
    command.arg("--target-dir").arg(target_folder(root, "peers"));
    tools::run(&mut command)
}

fn doc(root: &Path) -> TaskResult {
    let mut command = cargo_command(root, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-Dwarnings");
    tools::run(&mut command)
}

/// The lock-free code: the package, and which of its unit tests are written for the model checker.
const LOOM_TESTS: [(&str, &str); 4] = [
    ("petasos-base", "doorbell"),
    ("petasos-shm", "ring"),
    ("petasos-router", "board"),
    ("petasos-store", "reader_model"),
];

/// Runs them with the atomics of the model checker, in one build.
fn loom(root: &Path) -> TaskResult {
    let packages = LOOM_TESTS.iter().flat_map(|(package, _)| ["--package", package]);
    let mut command = cargo_command(root, &["test", "--release", "--lib"]);
    command.args(packages).arg("--").args(LOOM_TESTS.map(|(_, tests)| tests));
    command.env("RUSTFLAGS", "--cfg loom");
    command.env("CARGO_TARGET_DIR", target_folder(root, "loom"));
    tools::run(&mut command)
}

/// Seconds of each simulation: fixed seeds first, then fresh ones until the time is up.
const SIMULATE_S: &str = "30";

/// With debug assertions, as tests; `cargo xtask soak` runs them with optimisation, for more seeds.
fn simulate(root: &Path) -> TaskResult {
    let built = workspace::build(root)?;
    for example in SIMULATORS.map(|(_, example)| example) {
        let path = built.example(example)?;
        tools::run(Command::new(path).args(["--seconds", SIMULATE_S]).current_dir(root))?;
    }
    Ok(())
}

fn icount(root: &Path) -> TaskResult {
    icount::run(root, icount::Mode::Check)
}

/// The suites of protobuf and of gRPC. Both report a skip if they cannot be fetched.
fn conform(root: &Path) -> TaskResult {
    conformance::protobuf(root)?;
    conformance::grpc(root)?;
    conformance::interop(root)
}

fn run_consoles(root: &Path) -> TaskResult {
    consoles::run(root, &[])
}

/// Where the source of the router's XDP program is, and of what it is measured beside, and the
/// objects.
const PROGRAMS: &str = "crates/router-xdp/program";

/// Compiles the programs, and compares them with what is committed.
fn programs(root: &Path) -> TaskResult {
    if !tools::is_installed("clang-14") {
        return skips::skip(root, "clang-14", "there is no clang 14");
    }
    let (folder, made) = (root.join(PROGRAMS), target_folder(root, "programs"));
    std::fs::create_dir_all(&made)
        .map_err(|error| format!("cannot make {}: {error}", made.display()))?;
    tools::run(Command::new(folder.join("build.sh")).arg(&made))?;
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    for name in ["router.bpf.o", "reflector.bpf.o"] {
        if read(&made.join(name))? != read(&folder.join(name))? {
            return Err(format!("{PROGRAMS}/{name} is not of this source: run build.sh there"));
        }
    }
    Ok(())
}

fn dissector(root: &Path) -> TaskResult {
    for program in ["tshark", "text2pcap"] {
        if !tools::is_installed(program) {
            return skips::skip(root, "tshark", &format!("there is no `{program}`"));
        }
    }
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
}
