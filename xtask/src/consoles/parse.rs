//! Finds the `console` blocks of a Markdown file: commands, their output, and markers.

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line where it begins, from 1.
    pub line: usize,
    /// The marker before it.
    pub marker: Option<Marker>,
    /// Its commands, in order.
    pub commands: Vec<Shown>,
}

/// A comment before a block that says how to treat it.
#[derive(Debug, PartialEq, Eq)]
pub enum Marker {
    /// `<!-- ci: background -->`: the commands run until the end of the file.
    Background,
    /// `<!-- ci: not run: REASON -->`
    NotRun(String),
}

/// A command and its output.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The line of the command, from 1.
    pub line: usize,
    /// The script for the shell; several lines if all but the last end in a backslash.
    pub command: String,
    /// The lines below it.
    pub output: Vec<String>,
}

/// Languages of blocks with commands but no output, which would not be checked.
const SHELLS: [&str; 5] = ["sh", "bash", "shell", "zsh", "shell-session"];

/// All `console` blocks of `text`. `path` is used in messages.
pub fn blocks(path: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut marker: Option<(usize, Marker)> = None;
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(comment) = line.trim().strip_prefix("<!-- ci:") {
            let parsed = parse_marker(comment)
                .ok_or_else(|| format!("{path}:{number}: unknown marker `{}`", line.trim()))?;
            marker = Some((number, parsed));
            continue;
        }
        let Some(language) = line.trim().strip_prefix("```") else {
            no_marker(path, marker.take())?;
            continue;
        };
        let body: Vec<_> = lines.by_ref().take_while(|(line, _)| line.trim() != "```").collect();
        if SHELLS.contains(&language) {
            let advice = "use `console`, with `$ ` in front of commands, so that they are run";
            return Err(format!("{path}:{number}: a `{language}` block: {advice}"));
        }
        if language != "console" {
            no_marker(path, marker.take())?;
            continue;
        }
        let commands = commands(&body).map_err(|error| format!("{path}:{number}: {error}"))?;
        let marker = marker.take().map(|(_, marker)| marker);
        blocks.push(Block { line: number, marker, commands });
    }
    no_marker(path, marker)?;
    Ok(blocks)
}

fn no_marker(path: &str, marker: Option<(usize, Marker)>) -> Result<(), String> {
    match marker {
        None => Ok(()),
        Some((line, _)) => Err(format!("{path}:{line}: no console block follows the marker")),
    }
}

fn parse_marker(comment: &str) -> Option<Marker> {
    let comment = comment.strip_suffix("-->")?.trim();
    if comment == "background" {
        return Some(Marker::Background);
    }
    let reason = comment.strip_prefix("not run:")?.trim();
    (!reason.is_empty()).then(|| Marker::NotRun(reason.to_owned()))
}

fn commands(body: &[(&str, usize)]) -> Result<Vec<Shown>, String> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut continues = false;
    for (text, line) in body {
        match (commands.last_mut(), text.strip_prefix("$ ")) {
            (Some(shown), _) if continues => {
                shown.command.push('\n');
                shown.command.push_str(text);
            }
            (_, Some(command)) => {
                let command = command.to_owned();
                commands.push(Shown { line: *line, command, output: Vec::new() });
            }
            (Some(shown), None) => shown.output.push((*text).to_owned()),
            (None, None) => return Err("a console block begins with `$ ` and a command".into()),
        }
        let commanded = continues || text.starts_with("$ ");
        continues = commanded && text.ends_with('\\');
    }
    match commands.is_empty() {
        true => Err("a console block without a command".into()),
        false => Ok(commands),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: usize, command: &str, output: &[&str]) -> Shown {
        let output = output.iter().map(|line| (*line).to_owned()).collect();
        Shown { line, command: command.into(), output }
    }

    #[test]
    fn commands_are_told_from_their_output() {
        let text = "text\n```console\n$ echo a\na\n$ echo b \\\n    c\nb c\n```\n$ no\n";
        let expected = [shown(3, "echo a", &["a"]), shown(5, "echo b \\\n    c", &["b c"])];
        let block = Block { line: 2, marker: None, commands: expected.into() };
        assert_eq!(blocks("a.md", text).unwrap(), [block]);
    }

    #[test]
    fn markers_belong_to_the_block_below() {
        let text = "<!-- ci: not run: needs DPDK -->\n```console\n$ a\n```\n\
                    <!-- ci: background -->\n```console\n$ b\n```\n```console\n$ c\n```\n";
        let markers: Vec<_> = blocks("a.md", text).unwrap().into_iter().map(|b| b.marker).collect();
        let not_run = Marker::NotRun("needs DPDK".into());
        assert_eq!(markers, [Some(not_run), Some(Marker::Background), None]);
    }

    #[test]
    fn what_would_escape_the_checks_is_an_error() {
        for (text, expected) in [
            ("```sh\nls\n```\n", "a.md:1: a `sh` block"),
            ("\n<!-- ci: skip -->\n```console\n$ a\n```\n", "a.md:2: unknown marker"),
            ("<!-- ci: not run: -->\n```console\n$ a\n```\n", "a.md:1: unknown marker"),
            ("<!-- ci: background -->\ntext\n", "a.md:1: no console block"),
            ("<!-- ci: background -->\n```rust\n```\n", "a.md:1: no console block"),
            ("text\n<!-- ci: background -->\n", "a.md:2: no console block"),
            ("```console\nls\n```\n", "a.md:1: a console block begins"),
            ("```console\n```\n", "a.md:1: a console block without"),
        ] {
            let error = blocks("a.md", text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_other_blocks_hold_is_not_looked_at() {
        let text = "```text\n<!-- ci: x -->\n$ a\n```\n```rust\n// ```console\n```\n";
        assert!(blocks("a.md", text).unwrap().is_empty());
    }
}
