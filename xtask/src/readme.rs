//! Runs the commands that the README shows, so that it cannot promise what does not work.
//!
//! A fenced block is run if the line above it is `<!-- ci: run -->`. In a `console` block the
//! commands are the lines after `$ `, and the rest is output, which is not compared: it has
//! times in it. In any other block every line is a command.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{TaskResult, tools};

const MARK: &str = "<!-- ci: run -->";

/// Runs every marked block of the README in a shell of its own.
pub fn run(root: &Path) -> TaskResult {
    let text = fs::read_to_string(root.join("README.md"))
        .map_err(|error| format!("cannot read README.md: {error}"))?;
    let scripts = scripts(&text)?;
    if scripts.is_empty() {
        println!("skipped: README.md marks no block with {MARK}");
    }
    for script in scripts {
        println!("{script}");
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(root);
        tools::run(&mut command)?;
    }
    Ok(())
}

/// The commands of every marked block.
fn scripts(text: &str) -> Result<Vec<String>, String> {
    let mut scripts = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim() != MARK {
            continue;
        }
        let opening = lines.next().map(|(_, line)| line.trim()).unwrap_or_default();
        let Some(language) = opening.strip_prefix("```") else {
            return Err(format!("README.md:{}: no fenced block follows the mark", at + 1));
        };
        let block = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let console = language == "console";
        let commands: Vec<&str> = block
            .filter_map(|line| if console { line.strip_prefix("$ ") } else { Some(line) })
            .collect();
        let script = commands.join("\n");
        if script.contains("xtask ci") {
            return Err(format!("README.md:{}: a step of `xtask ci` cannot run it", at + 1));
        }
        scripts.push(script);
    }
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_are_run() {
        let text = "```sh\nrm -r x\n```\n\n<!-- ci: run -->\n```sh\ncd a\nls\n```\n";
        assert_eq!(scripts(text).unwrap(), ["cd a\nls"]);
    }

    #[test]
    fn output_in_console_blocks_is_left_out() {
        let text = "<!-- ci: run -->\n```console\n$ echo a\na\n$ echo b\nb\n```\n$ no\n";
        assert_eq!(scripts(text).unwrap(), ["echo a\necho b"]);
    }

    #[test]
    fn marks_without_a_block_and_endless_runs_are_refused() {
        assert!(scripts("text\n<!-- ci: run -->\ntext\n").unwrap_err().contains("README.md:2"));
        let text = "<!-- ci: run -->\n```sh\ncargo xtask ci\n```\n";
        assert!(scripts(text).unwrap_err().contains("cannot run it"));
    }
}
