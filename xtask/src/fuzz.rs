//! Coverage-guided fuzzing with libFuzzer, on the pinned toolchain.
//!
//! What cargo-fuzz does on nightly works on stable as well: the instrumentation is a pass of LLVM's
//! that any compiler runs when it is told to; only the address sanitizer needs more
//! (`--address`, see `sanitize`). The targets are the package in `fuzz/`, a workspace of its own.
//! Each run begins with the committed corpus in `fuzz/corpus`; what it learns goes to the target
//! folder, and inputs that fail to `fuzz/artifacts`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::task::{TaskResult, target_folder};
use crate::{sanitize, tools};

/// What a run is to do.
#[derive(Debug, PartialEq, Eq)]
enum Mode {
    /// Fuzz each target for its share of the time.
    Run { seconds: u64 },
    /// Run one input, and nothing else.
    Replay(PathBuf),
    /// Write the corpus anew from the encoders.
    Seeds,
    /// Keep as few inputs as cover what the corpus and earlier runs cover.
    Shrink,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    mode: Mode,
    /// None are all.
    targets: Vec<String>,
    build: Build,
}

/// How targets are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    /// To find as much as possible in the given time.
    Full,
    /// The same with the address sanitizer.
    Address,
    /// For seconds only: what is saved by compiling is more than what is lost by running.
    Quick,
}

/// Time for all targets together if none is given.
const SECONDS_DEFAULT: u64 = 10 * 60;
/// Of one target in CI.
const SECONDS_IN_CI: u64 = 3;
/// LLVM's pass that counts edges, shows comparisons to libFuzzer, and names what was covered.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
const LIMITS: [&str; 4] = ["-timeout=25", "-rss_limit_mb=2048", "-max_len=4096", "-len_control=50"];

/// `cargo xtask fuzz [TARGET…] [--minutes N] [--replay FILE] [--seeds] [--shrink] [--address]`.
pub fn run(root: &Path, arguments: &[&str]) -> TaskResult {
    let plan = parse(arguments)?;
    let targets = chosen(root, &plan.targets)?;
    let programs = build(root, &targets, plan.build)?;
    match &plan.mode {
        Mode::Replay(input) => {
            let [target] = &targets[..] else { return Err("fuzz: --replay takes a target".into()) };
            tools::run(Command::new(programs.join(target)).arg(input).current_dir(root))
        }
        Mode::Seeds => targets.iter().try_for_each(|target| seed(root, &programs, target)),
        Mode::Shrink => targets.iter().try_for_each(|target| shrink(root, &programs, target)),
        Mode::Run { seconds } => {
            let share = (seconds / targets.len() as u64).max(1);
            fuzz(root, &programs, &targets, share, &[])
        }
    }
}

/// The bounded run: a fixed seed, and nothing kept of what it learns.
pub fn bounded(root: &Path) -> TaskResult {
    if !tools::is_installed("c++") {
        return Err("no C++ compiler, which libFuzzer needs: cargo xtask ci tools".into());
    }
    let targets = chosen(root, &[])?;
    let programs = build(root, &targets, Build::Quick)?;
    fuzz(root, &programs, &targets, SECONDS_IN_CI, &["-seed=1"])
}

fn parse(arguments: &[&str]) -> Result<Plan, String> {
    let mut plan = Plan {
        mode: Mode::Run { seconds: SECONDS_DEFAULT },
        targets: Vec::new(),
        build: Build::Full,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--minutes" => {
                let minutes = arguments.next().and_then(|text| text.parse::<u64>().ok());
                let minutes = minutes.filter(|minutes| (1..=10_000).contains(minutes));
                let minutes = minutes.ok_or("fuzz: --minutes takes a number from 1 to 10000")?;
                plan.mode = Mode::Run { seconds: minutes * 60 };
            }
            "--replay" => {
                let file = arguments.next().ok_or("fuzz: --replay takes a file")?;
                plan.mode = Mode::Replay(PathBuf::from(file));
            }
            "--seeds" => plan.mode = Mode::Seeds,
            "--shrink" => plan.mode = Mode::Shrink,
            "--address" => plan.build = Build::Address,
            option if option.starts_with('-') => {
                return Err(format!("fuzz: no option `{option}`"));
            }
            target => plan.targets.push(target.to_owned()),
        }
    }
    Ok(plan)
}

/// All targets by name, or the requested ones.
fn chosen(root: &Path, asked: &[String]) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("no {folder:?}: {error}"))?;
    let names = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        Some(path.file_stem()?.to_str()?.to_owned())
    });
    let all: BTreeSet<String> = names.collect();
    if let Some(unknown) = asked.iter().find(|name| !all.contains(*name)) {
        let all: Vec<_> = all.into_iter().collect();
        return Err(format!("fuzz: no target `{unknown}`; there are {}", all.join(", ")));
    }
    Ok(if asked.is_empty() { all.into_iter().collect() } else { asked.to_vec() })
}

/// Builds the targets. Returns their folder.
fn build(root: &Path, targets: &[String], build: Build) -> Result<PathBuf, String> {
    // The versions are those of the repository's lock file, even if newer ones exist.
    let lock = (root.join("Cargo.lock"), root.join("fuzz/Cargo.lock"));
    fs::copy(&lock.0, &lock.1).map_err(|error| format!("cannot write {:?}: {error}", lock.1))?;
    let folder = target_folder(
        root,
        match build {
            Build::Full => "fuzz",
            Build::Address => "fuzz-address",
            Build::Quick => "fuzz-quick",
        },
    );
    let mut command = tools::cargo();
    // With an explicit target, programs that run at build time are not instrumented.
    command.args(["build", "--release", "--target", sanitize::TARGET]);
    command.args(targets.iter().flat_map(|target| ["--bin", target]));
    command.current_dir(root.join("fuzz")).env("CARGO_TARGET_DIR", &folder);
    if build == Build::Address {
        command.env("RUSTFLAGS", format!("{INSTRUMENTED} -Zsanitizer=address"));
        command.env("RUSTC_BOOTSTRAP", "1");
    } else {
        command.env("RUSTFLAGS", INSTRUMENTED);
    }
    if build == Build::Quick {
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    tools::run(&mut command)?;
    Ok(folder.join(sanitize::TARGET).join("release"))
}

fn seed(root: &Path, programs: &Path, target: &str) -> TaskResult {
    let corpus = root.join("fuzz/corpus").join(target);
    create(&corpus)?;
    let mut command = Command::new(programs.join(target));
    tools::run(command.env("PETASOS_FUZZ_SEEDS", &corpus).current_dir(root))
}

/// Replaces a target's corpus by fewer inputs with the same coverage, out of it and of what runs
/// on this machine have learned.
fn shrink(root: &Path, programs: &Path, target: &str) -> TaskResult {
    let corpus = root.join("fuzz/corpus").join(target);
    let learned = programs.join("corpus").join(target);
    let chosen = programs.join("shrunk").join(target);
    // What is left of a run that was ended.
    drop(fs::remove_dir_all(&chosen));
    for folder in [&corpus, &learned, &chosen] {
        create(folder)?;
    }
    let log = programs.join(format!("{target}.log"));
    let output = File::create(&log).map_err(|error| format!("cannot write {log:?}: {error}"))?;
    let mut command = Command::new(programs.join(target));
    command.arg("-set_cover_merge=1").args(LIMITS).args([&chosen, &corpus, &learned]);
    tools::run(command.current_dir(root).stderr(output))
        .map_err(|error| format!("{error}; its output is in {}", log.display()))?;
    let before = inputs(&corpus)?;
    let after = inputs(&chosen)?;
    if after.is_empty() {
        return Err(format!("fuzz: nothing of {target} is left; see {}", log.display()));
    }
    for file in &before {
        fs::remove_file(file).map_err(|error| format!("cannot remove {file:?}: {error}"))?;
    }
    for file in &after {
        let name = file.file_name().expect("it was listed");
        fs::copy(file, corpus.join(name)).map_err(|error| format!("cannot copy: {error}"))?;
    }
    println!("{target:10} {:>5} inputs, {:>5} before", after.len(), before.len());
    Ok(())
}

fn inputs(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("no {folder:?}: {error}"))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn create(folder: &Path) -> TaskResult {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {folder:?}: {error}"))
}

/// Runs every target for its time, one after the other, and prints a summary of each.
fn fuzz(
    root: &Path,
    programs: &Path,
    targets: &[String],
    seconds: u64,
    options: &[&str],
) -> TaskResult {
    println!("{:10} {:>12} {:>10} {:>8} {:>8}", "target", "executions", "per s", "edges", "corpus");
    let mut failures = Vec::new();
    for target in targets {
        let log = programs.join(format!("{target}.log"));
        let status = fuzz_one(root, programs, target, seconds, options, &log)?;
        let text = fs::read(&log).map_err(|error| format!("cannot read {log:?}: {error}"))?;
        let text = String::from_utf8_lossy(&text);
        println!("{}", Summary::of(&text).line(target));
        if !status {
            failures.push(explain(root, target, &text, &log));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("fuzz:\n{}", failures.join("\n"))) }
}

/// Whether the target found nothing.
fn fuzz_one(
    root: &Path,
    programs: &Path,
    target: &str,
    seconds: u64,
    options: &[&str],
    log: &Path,
) -> Result<bool, String> {
    let is_bounded = !options.is_empty();
    let learned = programs.join(if is_bounded { "bounded" } else { "corpus" }).join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    if is_bounded {
        // It begins with only the committed corpus.
        drop(fs::remove_dir_all(&learned));
    }
    create(&learned)?;
    create(&artifacts)?;
    let output = File::create(log).map_err(|error| format!("cannot write {log:?}: {error}"))?;
    let mut command = Command::new(programs.join(target));
    // What it learns goes to the first.
    command.arg(learned).arg(root.join("fuzz/corpus").join(target));
    command.args(LIMITS).args(options).arg(format!("-max_total_time={seconds}"));
    command.args(["-print_final_stats=1", &format!("-artifact_prefix={}/", artifacts.display())]);
    let status = command.current_dir(root).stderr(output).status();
    status.map(|status| status.success()).map_err(|error| format!("cannot run {target}: {error}"))
}

/// The advice for an input that failed.
fn explain(root: &Path, target: &str, text: &str, log: &Path) -> String {
    let prefix = "Test unit written to ";
    let input = text.lines().rev().find_map(|line| line.split(prefix).nth(1)).unwrap_or("?");
    let input = input.strip_prefix(&format!("{}/", root.display())).unwrap_or(input);
    let panic = text.lines().skip_while(|line| !line.contains("panicked at")).take(2);
    let panic: Vec<_> = panic.collect();
    format!(
        "{target} failed: {}\n  the whole output: {}\n  \
        again: cargo xtask fuzz {target} --replay {input}\n  \
        mend it with a test: give the input's bytes (xxd -i {input}) to the code that failed in a \
        test of its crate,\n  see it fail, mend the code, and copy the input to \
        fuzz/corpus/{target}/",
        panic.join(" "),
        log.display(),
    )
}

/// The summary of a target's run.
#[derive(Debug, PartialEq, Eq)]
struct Summary<'a> {
    executions: &'a str,
    per_second: &'a str,
    edges: &'a str,
    corpus: &'a str,
}

impl Summary<'_> {
    /// Parses libFuzzer's output.
    fn of(text: &str) -> Summary<'_> {
        let word_after = |mark: &str| {
            let line = text.lines().rev().find(|line| line.contains(mark))?;
            line.split(mark).nth(1)?.split_whitespace().next()
        };
        Summary {
            executions: word_after("stat::number_of_executed_units:").unwrap_or("?"),
            per_second: word_after("stat::average_exec_per_sec:").unwrap_or("?"),
            edges: word_after("cov:").unwrap_or("?"),
            corpus: word_after("corp:").unwrap_or("?"),
        }
    }

    fn line(&self, target: &str) -> String {
        let Summary { executions, per_second, edges, corpus } = self;
        format!("{target:10} {executions:>12} {per_second:>10} {edges:>8} {corpus:>8}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_understood() {
        let plan = parse(&["header", "--minutes", "3", "json"]).unwrap();
        assert_eq!(plan.targets, ["header", "json"]);
        assert_eq!(plan.mode, Mode::Run { seconds: 180 });
        let plan = parse(&["header", "--address", "--replay", "crash-1"]).unwrap();
        assert_eq!((plan.mode, plan.build), (Mode::Replay("crash-1".into()), Build::Address));
        assert_eq!(parse(&["json", "--shrink"]).unwrap().mode, Mode::Shrink);
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["--replay"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_libfuzzer_prints_is_summed_up() {
        let text = "#2 INITED cov: 5 ft: 6 corp: 1/2b\n#9782366\tDONE   cov: 24 ft: 45 corp: \
            23/1322b lim: 4096 exec/s: 1630394 rss: 27Mb\nstat::number_of_executed_units: \
            9782366\nstat::average_exec_per_sec:     1630394\n";
        let summary = Summary::of(text);
        assert_eq!((summary.executions, summary.per_second), ("9782366", "1630394"));
        assert_eq!((summary.edges, summary.corpus), ("24", "23/1322b"));
        assert_eq!(Summary::of("").edges, "?");
    }

    #[test]
    fn a_failure_says_how_to_run_it_again() {
        let text = "thread panicked at src/x.rs:1:2:\nwhy\nartifact_prefix='/r/a/'; Test unit \
            written to /r/fuzz/artifacts/json/crash-1\n";
        let words = explain(Path::new("/r"), "json", text, Path::new("/r/json.log"));
        assert!(words.contains("cargo xtask fuzz json --replay fuzz/artifacts/json/crash-1"));
        assert!(words.contains("why"), "{words}");
    }
}
