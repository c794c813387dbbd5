//! Runs every randomised test of the workspace repeatedly with fresh seeds.
//!
//! `cargo test` gives each property a few hundred cases. Failures that occur once in a hundred
//! thousand cases are found here, sooner with `--times`, which gives each property more cases. In
//! each round, each test program with randomised tests runs only these, under its own seed; then
//! the simulators run clusters and calls with fresh seeds. A failure does not end the soak. It is
//! printed with the command that repeats it, and again in the summary.

mod names;
mod options;
mod programs;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use self::options::Options;
use self::programs::Randomised;
use crate::attempt::{failure_of, now};
use crate::task::{TaskResult, target_folder};

/// A program that runs longer than this hangs, and is killed; with more cases, so much more.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(900);
/// Simulation at the end of each round.
const SIMULATE_S: u64 = 60;

/// A failure and how to repeat it.
struct Failure {
    what: String,
    again: String,
}

/// Runs rounds until the time is over, as the command's arguments say.
pub fn run(root: &Path, arguments: &[&str]) -> TaskResult {
    let options = Options::parse(arguments)?;
    let programs = programs::find(root, &options.packages)?;
    let tests: usize = programs.iter().map(|program| program.tests.len()).sum();
    println!("soak: {tests} randomised tests in {} programs", programs.len());
    let simulators = match options.packages.is_empty() {
        true => programs::simulators(root)?,
        false => Vec::new(),
    };
    let begin = now();
    let is_over = || begin.elapsed() >= Duration::from_secs(options.minutes * 60);
    let (mut failures, mut rounds) = (Vec::new(), 0_u64);
    while !is_over() {
        rounds += 1;
        for program in &programs {
            if is_over() {
                break;
            }
            failures.extend(soak_program(root, program, &options)?);
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
fn soak_program(
    root: &Path,
    randomised: &Randomised,
    options: &Options,
) -> Result<Option<Failure>, String> {
    let seed = RandomState::new().hash_one(0) >> 1;
    let Randomised { program, tests } = randomised;
    let mut command = Command::new(&program.path);
    command.arg("--exact").args(tests).current_dir(&program.folder);
    let environment = options.environment();
    command.env("PROPTEST_RNG_SEED", seed.to_string()).envs(environment.clone());
    let log = target_folder(root, "soak.log");
    let timeout = PROGRAM_TIMEOUT.saturating_mul(options.times);
    let Some(what) = failure_of(&mut command, &log, timeout)? else { return Ok(None) };
    let what = format!("{}: {what}", program.name());
    let environment = environment.map(|(name, value)| format!("{name}={value}")).join(" ");
    let again = format!("PROPTEST_RNG_SEED={seed} {environment} {}", randomised.again());
    Ok(Some(report(&log, what, again)))
}

fn simulate(root: &Path, simulator: &Path) -> Result<Option<Failure>, String> {
    let mut command = Command::new(simulator);
    command.args(["--seconds", &SIMULATE_S.to_string()]).current_dir(root);
    let log = target_folder(root, "soak.log");
    let Some(what) = failure_of(&mut command, &log, PROGRAM_TIMEOUT)? else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;

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
