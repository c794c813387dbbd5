//! Runs every randomised test of the workspace repeatedly with fresh seeds.
//!
//! `cargo test` gives each property a few hundred cases. Failures that occur once in a hundred
//! thousand cases are found here. In each round, each test program with randomised tests runs only
//! these, under its own seed; then the simulators run clusters and calls with fresh seeds. A
//! failure does not end the soak. It is printed with the command that repeats it, and again in the
//! summary.

mod names;
mod programs;

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use self::programs::Program;
pub use self::programs::SIMULATORS;
use crate::task::{TaskResult, target_folder};

/// A program that runs longer than this hangs, and is killed.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(900);
/// Simulation at the end of each round.
const SIMULATE_S: u64 = 60;

/// A failure and how to repeat it.
struct Failure {
    what: String,
    again: String,
}

/// Runs rounds until `minutes` are over. A round that has begun is finished.
pub fn run(root: &Path, minutes: u64) -> TaskResult {
    let programs = programs::find(root)?;
    let tests: usize = programs.iter().map(|program| program.tests.len()).sum();
    println!("soak: {tests} randomised tests in {} programs", programs.len());
    let simulators = programs::simulators(root)?;
    let begin = now();
    let is_over = || begin.elapsed() >= Duration::from_secs(minutes * 60);
    let (mut failures, mut rounds) = (Vec::new(), 0_u64);
    while !is_over() {
        rounds += 1;
        for program in &programs {
            if is_over() {
                break;
            }
            failures.extend(soak_program(root, program)?);
        }
        for simulator in &simulators {
            if !is_over() {
                failures.extend(simulate(root, simulator)?);
            }
        }
        let seconds = begin.elapsed().as_secs();
        println!("soak: round {rounds}, {seconds} s, {} failures", failures.len());
    }
    summarise(&failures)
}

fn summarise(failures: &[Failure]) -> TaskResult {
    for failure in failures {
        println!("soak: {}\n  again: {}", failure.what, failure.again);
    }
    match failures.len() {
        0 => Ok(()),
        number => Err(format!("soak: {number} failures; each is listed with how to repeat it")),
    }
}

/// One program under a fresh seed.
fn soak_program(root: &Path, program: &Program) -> Result<Option<Failure>, String> {
    let seed = RandomState::new().hash_one(0) >> 1;
    let mut command = Command::new(&program.path);
    command.arg("--exact").args(&program.tests).current_dir(&program.folder);
    command.env("PROPTEST_RNG_SEED", seed.to_string());
    let log = target_folder(root, "soak.log");
    let Some(what) = failure_of(&mut command, &log)? else { return Ok(None) };
    let what = format!("{}: {what}", program.name);
    let again = format!("PROPTEST_RNG_SEED={seed} {}", program.again());
    Ok(Some(report(&log, what, again)))
}

fn simulate(root: &Path, simulator: &Path) -> Result<Option<Failure>, String> {
    let mut command = Command::new(simulator);
    command.args(["--seconds", &SIMULATE_S.to_string()]).current_dir(root);
    let log = target_folder(root, "soak.log");
    let Some(what) = failure_of(&mut command, &log)? else { return Ok(None) };
    let again = told_command(&std::fs::read_to_string(&log).unwrap_or_default());
    Ok(Some(report(&log, format!("simulator: {what}"), again)))
}

/// The command with which a simulator says that it repeats a failure.
fn told_command(output: &str) -> String {
    let command = output.lines().find_map(|line| Some(&line[line.find("cargo run ")?..]));
    command.unwrap_or("unknown: the output above has no command").to_owned()
}

/// Prints a failure's output at once: the next program overwrites it.
fn report(log: &Path, what: String, again: String) -> Failure {
    let output = std::fs::read(log).unwrap_or_default();
    println!("{}\nsoak: {what}\n  again: {again}", String::from_utf8_lossy(&output));
    Failure { what, again }
}

/// Runs a command with its output in `log`. Returns `None` if it succeeds, otherwise what went
/// wrong.
fn failure_of(command: &mut Command, log: &Path) -> Result<Option<String>, String> {
    let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let child = command.spawn();
    let mut child = child.map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    match wait(&mut child, PROGRAM_TIMEOUT)? {
        Some(status) if status.success() => Ok(None),
        Some(status) => Ok(Some(format!("failed ({status})"))),
        None => Ok(Some(format!("was ended after {} s", PROGRAM_TIMEOUT.as_secs()))),
    }
}

/// The child's exit status, or `None` if it took too long and was killed.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<ExitStatus>, String> {
    let begin = now();
    loop {
        let status = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        if status.is_some() {
            return Ok(status);
        }
        if begin.elapsed() > timeout {
            let killed = child.kill().and_then(|()| child.wait());
            return killed.map(|_| None).map_err(|error| format!("cannot kill: {error}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask does not link the workspace's clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failures_are_told_apart_from_successes_and_hangs() {
        let log = std::env::temp_dir().join(format!("soak-test-{}", std::process::id()));
        assert_eq!(failure_of(&mut shell("exit 0"), &log), Ok(None));
        let failed = failure_of(&mut shell("echo why; exit 3"), &log).unwrap().unwrap();
        assert!(failed.contains('3'), "{failed}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "why\n");
        std::fs::remove_file(&log).unwrap();
        let mut endless = shell("exec sleep 1000").spawn().unwrap();
        assert_eq!(wait(&mut endless, Duration::from_millis(1)), Ok(None));
    }

    #[test]
    fn a_simulators_command_is_in_the_summary() {
        let output = "a seed=1: 3 calls\nreplay with: cargo run -p x -- --seed 7\n";
        assert_eq!(told_command(output), "cargo run -p x -- --seed 7");
        assert!(told_command("killed").contains("no command"));
    }

    #[test]
    fn any_failure_fails_the_soak() {
        assert!(summarise(&[]).is_ok());
        let failure = Failure { what: "x failed".into(), again: "cargo test".into() };
        assert!(summarise(&[failure]).unwrap_err().contains("1 failure"));
    }
}
