//! Checks command lines of `cargo xtask` by its usage text, since tasks have no help of their own.

use std::fs;
use std::path::Path;

use crate::task::USAGE;

/// A word of a line of the usage text.
#[derive(Debug, PartialEq, Eq)]
struct Item<'a> {
    /// A literal, such as `--minutes`, or what may stand here, such as `STEP`.
    text: &'a str,
    /// What follows an option.
    value: Option<&'a str>,
    /// It is in brackets.
    is_optional: bool,
}

/// Whether some line of the usage text accepts the words.
pub fn check(root: &Path, words: &[&str]) -> Result<(), String> {
    let (task, words) = words.split_first().ok_or("`cargo xtask` needs a task")?;
    let fitting = forms(task).map(|form| check_form(root, &form, words));
    // The first form is the most general: its error says the most.
    let fitting = fitting.reduce(|first, next| if next.is_ok() { next } else { first });
    let result = fitting.unwrap_or_else(|| Err("no such task".to_owned()));
    result.map_err(|error| format!("cargo xtask {task}: {error}"))
}

/// What the usage text says about a task, line by line, without the task's name.
fn forms(task: &str) -> impl Iterator<Item = Vec<Item<'static>>> {
    let lines = USAGE.lines().filter_map(|line| line.strip_prefix("  ")?.split("  ").next());
    lines.filter_map(move |line| {
        let mut words = line.split_whitespace().peekable();
        words.next_if_eq(&task)?;
        let words: Vec<_> = words.collect();
        // The text behind a long form begins after one blank. Only a first word may be a literal.
        let is_text = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        let text = words.iter().skip(1).position(is_text).map_or(words.len(), |at| at + 1);
        Some(items(&words[..text]))
    })
}

fn items<'a>(words: &[&'a str]) -> Vec<Item<'a>> {
    let bare = |word: &'a str| word.trim_matches(['[', ']', '…']);
    let mut items = Vec::new();
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let takes_value = word.trim_start_matches('[').starts_with('-') && !word.ends_with(']');
        let value = if takes_value { words.next_if(|next| is_kind(bare(next))) } else { None };
        let value = value.map(bare);
        items.push(Item { text: bare(word), value, is_optional: word.starts_with('[') });
    }
    items
}

/// Whether a word of the usage text stands for others.
fn is_kind(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase())
}

fn check_form(root: &Path, form: &[Item<'_>], words: &[&str]) -> Result<(), String> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let literal = form.iter().find(|item| item.text == *word && !is_kind(item.text));
        match (literal, form.iter().find(|item| is_kind(item.text))) {
            (Some(Item { value: Some(kind), .. }), _) => {
                let value = rest.next().ok_or_else(|| format!("`{word}` needs {kind}"))?;
                check_kind(root, kind, value)?;
            }
            (Some(_), _) => {}
            (None, Some(item)) if !word.starts_with('-') => check_kind(root, item.text, word)?,
            _ => return Err(format!("there is no `{word}`")),
        }
    }
    let mut needed = form.iter().filter(|item| !item.is_optional && !is_kind(item.text));
    match needed.find(|item| !words.contains(&item.text)) {
        Some(item) => Err(format!("`{}` is missing", item.text)),
        None => Ok(()),
    }
}

/// Whether `word` is what the usage text calls `kind`. Files and packages may be any.
fn check_kind(root: &Path, kind: &str, word: &str) -> Result<(), String> {
    let is_one = match kind {
        "STEP" => is_step(root, word),
        "TARGET" => root.join("fuzz/targets").join(word).with_extension("rs").is_file(),
        "N" => word.parse::<u64>().is_ok(),
        _ => true,
    };
    if is_one { Ok(()) } else { Err(format!("`{word}` is no {kind}")) }
}

/// The steps are in a table in `ci.rs`. Its source is read, since `ci` itself uses this module.
fn is_step(root: &Path, word: &str) -> bool {
    let table = fs::read_to_string(root.join("xtask/src/ci.rs")).unwrap_or_default();
    table.contains(&format!("name: \"{word}\","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_here(line: &str) -> Result<(), String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root, &line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn lines_of_the_usage_text_are_accepted() {
        for line in [
            "ci",
            "ci --list",
            "ci fmt tidy",
            "consoles README",
            "tidy",
            "icount --check",
            "deb --programs target/release",
            "soak --minutes 5",
            "fuzz header packets --minutes 3 --address",
            "fuzz header --replay file",
            "fuzz --seeds",
            "sanitize petasos-shm",
            "conformance grpc",
        ] {
            assert_eq!(check_here(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn unknown_steps_options_and_words_are_refused() {
        for (line, expected) in [
            ("sing", "no such task"),
            ("ci nonsense", "`nonsense` is no STEP"),
            ("ci fmt --lst", "there is no `--lst`"),
            ("tidy --fix", "there is no `--fix`"),
            ("icount --chek", "there is no `--chek`"),
            ("soak --minutes", "`--minutes` needs N"),
            ("soak --minutes long", "`long` is no N"),
            ("fuzz heder", "`heder` is no TARGET"),
            ("conformance http", "there is no `http`"),
            ("conformance", "`protobuf` is missing"),
        ] {
            let error = check_here(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert!(check_here("").is_err());
    }
}
