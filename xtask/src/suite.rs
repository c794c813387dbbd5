//! Runs the workspace's test programs, as many at a time as there are processors.
//!
//! Cargo runs them one after the other, and many wait most of their time: for timeouts, processes
//! and connections. Each program's output goes to a file, and is printed once it has ended. A
//! failure does not end the run; all are listed at its end, each with the command that repeats it
//! and the last that the program said, as records of long runs are cut at their beginning.

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use crate::attempt::{failure_of, now};
use crate::task::{TaskResult, target_folder};
use crate::workspace::{Built, TestProgram};
use crate::{skips, tools};

/// A program that runs longer than this hangs, and is killed.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(900);

/// Lines of a program that has failed, at the run's end.
const REPEATED_LINES: usize = 80;

/// Runs all test programs of a build.
pub fn run(root: &Path, built: &Built) -> TaskResult {
    let programs = built.tests()?;
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    println!("{} test programs, {threads} at a time", programs.len());
    let logs = target_folder(root, "tests");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let failures = run_all(programs, threads, |program| run_one(program, &logs));
    match failures.len() {
        0 => Ok(()),
        number => Err(format!("{number} test programs:\n{}", failures.join("\n"))),
    }
}

/// Runs `run` for each program, on `threads` threads. Returns what failed.
fn run_all<T: Send>(
    programs: Vec<T>,
    threads: usize,
    run: impl Fn(&T) -> Result<(), String> + Sync,
) -> Vec<String> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let failures = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        while let Some(program) = next() {
            if let Err(failure) = run(&program) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one program, and prints what it printed.
fn run_one(program: &TestProgram, logs: &Path) -> Result<(), String> {
    let TestProgram { package, target, path, folder, .. } = program;
    let name = program.name();
    println!("running {name}");
    let mut command = Command::new(path);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    command.env("CARGO", tools::cargo().get_program());
    if let Some(record) = skips::record() {
        command.env(skips::RECORD, record);
    }
    let log = logs.join(format!("{package}.{target}.log"));
    let begin = now();
    let failure = failure_of(&mut command, &log, PROGRAM_TIMEOUT)?;
    let seconds = begin.elapsed().as_secs_f64();
    let printed = fs::read(&log).unwrap_or_default();
    // One piece, since others print as well.
    let printed = String::from_utf8_lossy(&printed);
    println!("{name}, in {seconds:.1} s:\n{}", printed.trim_start());
    match failure {
        Some(what) => {
            let said = end_of(&printed);
            Err(format!("{name}: {what}; again: {}\n{said}", program.command()))
        }
        None => Ok(()),
    }
}

/// What a program has said of its failures, or else its last lines, and no more than
/// [`REPEATED_LINES`].
fn end_of(printed: &str) -> String {
    let failures = printed.find("\nfailures:\n").map_or(printed, |at| &printed[at + 1..]);
    let lines: Vec<_> = failures.lines().collect();
    let first =
        if failures.len() < printed.len() { 0 } else { lines.len().saturating_sub(REPEATED_LINES) };
    let shown = lines[first..].iter().take(REPEATED_LINES);
    shown.map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_programs_run_and_all_failures_are_listed() {
        let odd_fail = |number: &u32| match number % 2 {
            0 => Ok(()),
            _ => Err(number.to_string()),
        };
        let mut failures = run_all((0..100).collect(), 3, odd_fail);
        failures.sort_by_key(|failure| failure.parse::<u32>().unwrap());
        let odd: Vec<_> = (1..100).step_by(2).map(|number| number.to_string()).collect();
        assert_eq!(failures, odd);
    }

    #[test]
    fn the_end_of_a_failure_is_what_was_said_of_it() {
        let passed: String = (0..200).map(|number| format!("test {number} ... ok\n")).collect();
        let failed = format!("{passed}\nfailures:\n\n---- a ----\nwhy\n");
        assert_eq!(end_of(&failed), "    failures:\n    \n    ---- a ----\n    why\n");
        let killed = end_of(&passed);
        assert_eq!(killed.lines().count(), REPEATED_LINES);
        assert!(killed.ends_with("    test 199 ... ok\n"));
        let many = format!("{passed}\nfailures:\n{passed}");
        let first = end_of(&many);
        assert_eq!(first.lines().count(), REPEATED_LINES);
        assert!(first.starts_with("    failures:\n    test 0 ... ok\n"), "the first say most");
    }

    #[test]
    fn programs_run_at_the_same_time() {
        // It would wait for ever otherwise.
        let both = Barrier::new(2);
        let meet = |_: &u32| {
            both.wait();
            Ok(())
        };
        assert!(run_all(vec![1, 2], 2, meet).is_empty());
    }
}
