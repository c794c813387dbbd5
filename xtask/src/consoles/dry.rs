//! Checks command lines that are not run: the programs must at least accept them.
//!
//! `--help` is appended to find flags that no longer exist: clap reads a command line from the
//! left, and rejects an unknown flag before it comes to `--help`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::process::is_program;
use crate::task::USAGE;

/// Checks one command line: its syntax, and its flags if its program is the workspace's or cargo.
pub fn check(root: &Path, programs: &Path, command: &str) -> Result<(), String> {
    shell(root, &["-n", "-c", command]).map_err(|error| format!("`{command}`: {error}"))?;
    let words: Vec<&str> =
        command.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let asked = match words[..] {
        ["cargo", "xtask", ..] => return check_xtask(&words[2..]),
        ["cargo", ..] => Some(cargo_question(&words)),
        [program, ..] if is_program(programs, program) && has_help(program) => {
            Some(format!("{}/{} --help", programs.display(), own(&words).join(" ")))
        }
        _ => None,
    };
    match asked {
        Some(question) => shell(root, &["-c", &question])
            .map_err(|error| format!("`{command}` is not accepted: {error}")),
        None => Ok(()),
    }
}

/// The examples parse their arguments without help texts; `petasos` has them.
fn has_help(program: &str) -> bool {
    program.starts_with("petasos")
}

/// The same command line with `-h` after cargo's own options.
fn cargo_question(words: &[&str]) -> String {
    format!("{} -h", own(words).join(" "))
}

/// The words of a command line for the program itself: what is behind `--` is another's. Lines that
/// go on are one.
fn own<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let own = words.iter().copied().take_while(|word| *word != "--");
    own.filter(|word| *word != "\\").collect()
}

/// The tasks themselves are not run: their names are in the usage text.
fn check_xtask(words: &[&str]) -> Result<(), String> {
    let task = words.first().copied().unwrap_or_default();
    let is_task = |line: &str| line.strip_prefix("  ").is_some_and(|line| starts(line, task));
    match USAGE.lines().any(is_task) {
        true => Ok(()),
        false => Err(format!("there is no `cargo xtask {task}`")),
    }
}

fn starts(line: &str, word: &str) -> bool {
    !word.is_empty() && line.split_whitespace().next() == Some(word)
}

fn shell(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("bash");
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot run bash: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_here(command: &str) -> Result<(), String> {
        check(Path::new("/"), Path::new("/nowhere"), command)
    }

    #[test]
    fn flags_of_cargo_and_tasks_must_exist() {
        assert_eq!(check_here("cargo build --release -p any   # a comment"), Ok(()));
        assert!(check_here("cargo build --releas").unwrap_err().contains("--releas"));
        assert_eq!(check_here("cargo xtask ci"), Ok(()));
        assert!(check_here("cargo xtask sing").unwrap_err().contains("sing"));
    }

    #[test]
    fn what_is_behind_two_dashes_is_another_programs() {
        let command = "petasos ctl upgrade new --wait \\\n --log file -- \\\n --socket path";
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(own(&words).join(" "), "petasos ctl upgrade new --wait --log file");
    }

    #[test]
    fn of_other_programs_the_syntax_is_checked() {
        assert_eq!(check_here("pip install ./python"), Ok(()));
        assert!(check_here("pip install './python").is_err());
    }
}
