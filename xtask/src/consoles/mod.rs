//! Runs every command that the documentation shows, and compares its output with the shown output.
//!
//! All Markdown files of the repository are read. Each `console` block is run, unless a marker
//! before it gives a reason not to; `docs/TESTING.md` has the rules. The parts: [`parse`] finds the
//! blocks, [`session`] runs those of one file, [`compare`] compares texts, and [`dry`] checks the
//! command lines of blocks that are not run: `line` has their words, and [`usage`] knows those of
//! `cargo xtask`; [`built`] finds programs that need no second build.

mod built;
mod compare;
mod dry;
mod line;
mod parse;
mod process;
mod session;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::task::{TaskResult, target_folder};
use crate::workspace;
use parse::{Block, Marker};
use session::Session;

/// Checks the files, or those whose paths contain one of `only`.
pub fn run(root: &Path, only: &[&str]) -> TaskResult {
    let files = markdown_files(root)?;
    let wanted = |path: &String| only.is_empty() || only.iter().any(|part| path.contains(part));
    let mut chapters = Vec::new();
    for path in files.into_iter().filter(wanted) {
        let text = fs::read_to_string(root.join(&path))
            .map_err(|error| format!("cannot read {path}: {error}"))?;
        let blocks = parse::blocks(&path, &text)?;
        chapters.extend((!blocks.is_empty()).then_some((path, blocks)));
    }
    let programs = build_programs(root)?;
    let (mut run, mut checked) = (0, 0);
    for (path, blocks) in &chapters {
        let (commands, lines) = check_file(root, &programs, path, blocks)?;
        run += commands;
        checked += lines;
    }
    println!("{run} commands run and compared; {checked} not run, their command lines checked");
    Ok(())
}

/// Counts the commands that were run, and those of which only the command lines were checked.
fn check_file(
    root: &Path,
    programs: &Path,
    path: &str,
    blocks: &[Block],
) -> Result<(usize, usize), String> {
    let mut session = Session::new(root, programs, path);
    let (mut run, mut checked) = (0, 0);
    for block in blocks {
        match &block.marker {
            Some(Marker::NotRun(reason)) => {
                println!("{path}:{}: not run: {reason}", block.line);
                for shown in &block.commands {
                    dry::check(root, programs, &shown.command)
                        .map_err(|error| format!("{path}:{}: {error}", shown.line))?;
                }
                checked += block.commands.len();
            }
            marker => {
                let in_background = *marker == Some(Marker::Background);
                for shown in &block.commands {
                    session.run(shown, in_background)?;
                }
                run += block.commands.len();
            }
        }
    }
    session.finish()?;
    Ok((run, checked))
}

/// All Markdown files that are under version control, or are not ignored.
fn markdown_files(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"];
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let list = String::from_utf8_lossy(&output.stdout);
    let exists = |path: &&str| root.join(path).is_file();
    Ok(list.lines().filter(exists).map(str::to_owned).collect())
}

/// Builds the workspace's programs, and returns the folder that commands have in their path.
fn build_programs(root: &Path) -> Result<PathBuf, String> {
    workspace::build(root)?;
    let programs = target_folder(root, "debug");
    level_ages(&programs).map_err(|error| format!("{}: {error}", programs.display()))?;
    Ok(programs)
}

/// `petasos` rebuilds the programs that it runs, which takes minutes, if they are older than
/// itself. They have just been built together, in any order.
fn level_ages(programs: &Path) -> io::Result<()> {
    let modified = programs.join("petasos").metadata()?.modified()?;
    for program in ["petasos-bench", "petasos-dashboard", "petasos-kv", "petasos-quorum"] {
        let companion = fs::File::options().append(true).open(programs.join(program))?;
        companion.set_modified(modified)?;
    }
    Ok(())
}
