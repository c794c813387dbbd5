//! Checks command lines that are not run: the programs must at least accept them.
//!
//! `--help` is appended to find options that do not exist: clap reads a command line from the left,
//! and rejects an unknown option before it comes to `--help`. Tasks of `cargo xtask` are checked by
//! its [`usage`].

use std::path::Path;
use std::process::{Command, Stdio};

use super::line::{bare, ends_command, words};
use super::process::is_program;
use super::usage;

/// Packages whose program has another name.
const RENAMED: [(&str, &str); 4] = [
    ("petasos-cli", "petasos"),
    ("petasos-kv-program", "petasos-kv"),
    ("petasos-quorum-program", "petasos-quorum"),
    ("petasos-router-program", "petasos-router"),
];

/// Checks one command line: its syntax, and its options if its program is cargo or one of the
/// workspace's with help texts.
pub fn check(root: &Path, programs: &Path, command: &str) -> Result<(), String> {
    shell(root, &["-n", "-c", command]).map_err(|error| format!("`{command}`: {error}"))?;
    let line = command.replace("\\\n", " ");
    for words in words(&line).split(|word| ends_command(word)) {
        check_words(root, programs, bare(words))
            .map_err(|error| format!("`{command}` is not accepted: {error}"))?;
    }
    Ok(())
}

/// Checks the words for the program itself, and those behind `--` as words for the program that it
/// would start.
fn check_words(root: &Path, programs: &Path, words: &[&str]) -> Result<(), String> {
    if let ["cargo", "xtask", task @ ..] = words {
        return usage::check(root, task);
    }
    let dashes = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (own, behind) = words.split_at(dashes);
    match own {
        ["cargo", ..] => shell(root, &["-c", &cargo_question(own)])?,
        [program, ..] if has_help(programs, program) => {
            let question = format!("{}/{} --help", programs.display(), own.join(" "));
            shell(root, &["-c", &question])?;
        }
        _ => return Ok(()),
    }
    match (started(own), behind) {
        (Some(program), ["--", behind @ ..]) => {
            check_words(root, programs, &[&[program], behind].concat())
        }
        _ => Ok(()),
    }
}

/// The examples parse their arguments without help texts; `petasos` and its companions have them.
fn has_help(programs: &Path, program: &str) -> bool {
    program.starts_with("petasos") && is_program(programs, program)
}

/// The same command line with `-h` after cargo's own options, for the toolchain that is there.
fn cargo_question(words: &[&str]) -> String {
    let words = words.iter().copied().filter(|word| !word.starts_with('+'));
    format!("{} -h", words.collect::<Vec<_>>().join(" "))
}

/// The program that gets the words behind `--`.
pub fn started<'a>(own: &[&'a str]) -> Option<&'a str> {
    match own {
        ["petasos", "ctl", rest @ ..] if rest.contains(&"upgrade") => Some("petasosd"),
        ["cargo", "run" | "r", rest @ ..] if !rest.contains(&"--example") => {
            let value = |names: [&str; 2]| {
                let mut pairs = rest.windows(2);
                pairs.find(|pair| names.contains(&pair[0])).map(|pair| pair[1])
            };
            let package = value(["-p", "--package"]);
            let renamed = |name| RENAMED.iter().find(|(package, _)| *package == name);
            let program = package.map(|name| renamed(name).map_or(name, |(_, program)| *program));
            value(["--bin", "--bin"]).or(program)
        }
        _ => None,
    }
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
#[path = "dry_tests.rs"]
mod tests;
