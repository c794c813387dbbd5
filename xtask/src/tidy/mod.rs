//! What the compiler does not check: layers of crates, the order of modules in them, lengths,
//! `unsafe`, atomics, what tests must not do, links between files, and that every rule of the
//! specification is cited by code and by a test.
//!
//! Each check is a function from text to findings, so that its tests can pass it small texts. The
//! repository is read once, here. Exceptions are in `xtask/tidy-allow.txt` with their reasons. An
//! exception that is no longer needed is itself a finding, so that the list only shrinks.

mod allow;
mod bans;
mod claims;
mod layers;
mod lengths;
mod links;
mod modules;
mod scan;
mod spec;
mod testing;
mod unsafety;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{TaskResult, tools};
use allow::AllowList;
use scan::Source;

const ALLOW_FILE: &str = "xtask/tidy-allow.txt";
const MAP_FILE: &str = "docs/ARCHITECTURE.md";

/// Something that must be changed, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: PathBuf,
    line: usize,
    rule: &'static str,
    advice: String,
}

impl Finding {
    fn new(path: &Path, line: usize, rule: &'static str, advice: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.rule, self.advice)
    }
}

/// A text file of the tree.
#[derive(Debug)]
pub struct TextFile {
    /// Path from the workspace's folder.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// Runs every check on the tree at `root` and prints what it finds.
pub fn run(root: &Path) -> TaskResult {
    let files = read_tree(root)?;
    let mut findings = check_files(&files);
    findings.extend(layers::check(
        files_named(&files, MAP_FILE),
        &tools::cargo_metadata(root, &["--no-deps"])?,
    )?);
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to say", files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} findings, each with its advice above")),
    }
}

/// The checks that need only the files.
fn check_files(files: &[TextFile]) -> Vec<Finding> {
    let (mut allow, mut findings) = AllowList::parse(
        Path::new(ALLOW_FILE),
        files_named(files, ALLOW_FILE).map_or("", |file| &file.text),
    );
    let sources: Vec<Source> = files
        .iter()
        .filter(|file| file.path.extension().is_some_and(|extension| extension == "rs"))
        .map(|file| Source::new(&file.path, &file.text))
        .collect();
    for source in &sources {
        findings.extend(lengths::check_source(source, &mut allow));
        findings.extend(unsafety::check(source, &mut allow));
        findings.extend(bans::check(source, &mut allow));
    }
    findings.extend(modules::check(&sources, &mut allow));
    for file in files {
        findings.extend(lengths::check_width(file));
        findings.extend(testing::check(file));
    }
    findings.extend(spec::check(files, &sources));
    findings.extend(claims::check(files));
    findings.extend(links::check(files));
    findings.extend(allow.unused());
    findings
}

fn files_named<'a>(files: &'a [TextFile], name: &str) -> Option<&'a TextFile> {
    files.iter().find(|file| file.path == Path::new(name))
}

/// Every text file that people write, sorted by path.
fn read_tree(root: &Path) -> Result<Vec<TextFile>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| cannot("list", &folder, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| cannot("list", &folder, &error))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let ignored = name.starts_with('.') || name == "target";
            if path.is_symlink() || ignored {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if is_text(name) {
                let text =
                    fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
                let path = path.strip_prefix(root).expect("the walk starts at the root").to_owned();
                files.push(TextFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_text(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(extension, Some("rs" | "md" | "sh" | "lua" | "txt"))
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_how() {
        let finding = Finding::new(Path::new("a/b.rs"), 7, "line-width", "wrap it");
        assert_eq!(finding.to_string(), "a/b.rs:7: line-width: wrap it");
    }

    #[test]
    fn the_checks_of_files_are_all_run() {
        let text = "fn f() { todo!() }\n".to_owned()
            + "fn g() { unsafe { h() } }\n"
            + &format!("// {}\n", "x".repeat(100));
        let files = [
            TextFile { path: "crates/x/src/lib.rs".into(), text },
            TextFile { path: "docs/spec/x.md".into(), text: "- **X1** A rule.\n".into() },
            TextFile { path: ALLOW_FILE.into(), text: "long-file gone.rs -- a reason\n".into() },
        ];
        let mut rules: Vec<_> = check_files(&files).iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        let expected = ["allow-list", "line-width", "spec-code", "spec-test", "todo", "unsafe"];
        assert_eq!(rules, expected);
    }
}
