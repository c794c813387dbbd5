//! A scanner for Rust text, as exact as the checks need: it separates code from comments and
//! literals, and finds functions and the regions that are only compiled for tests.
//!
//! Invariant: [`Source::code`] and [`Source::comments`] have the line breaks of [`Source::text`]
//! and its length in characters, so that a position in one is a position in all.

use std::path::{Path, PathBuf};

/// One scanned Rust file.
#[derive(Debug)]
pub struct Source {
    /// Path from the workspace's folder.
    pub path: PathBuf,
    /// Every character.
    pub text: String,
    /// The text with comments and the contents of literals blanked.
    pub code: Vec<char>,
    /// The text with everything but comments blanked.
    pub comments: Vec<char>,
    /// Lines, counted from 1, of items that are compiled for tests only.
    test_items: Vec<(usize, usize)>,
    /// Whether the whole file is for tests.
    is_test_file: bool,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

impl Source {
    /// Scans `text`.
    pub fn new(path: &Path, text: &str) -> Source {
        let chars: Vec<char> = text.chars().collect();
        let (code, comments) = Masks::split(&chars);
        let test_items = test_regions(&code);
        let (path, text) = (path.to_owned(), text.to_owned());
        Source { is_test_file: is_test_path(&path), path, text, code, comments, test_items }
    }

    /// Whether `line` is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_test_file || self.in_test_item(line)
    }

    /// Whether `line` is in an item under `#[cfg(test)]`, whatever the file is for.
    pub fn in_test_item(&self, line: usize) -> bool {
        self.test_items.iter().any(|(first, last)| (*first..=*last).contains(&line))
    }

    /// Lines of code, comments and literals blanked, each with its number.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, String)> + use<'_> {
        lines_of(&self.code)
    }

    /// Lines of comments, everything else blanked, each with its number.
    pub fn comment_lines(&self) -> impl Iterator<Item = (usize, String)> + use<'_> {
        lines_of(&self.comments)
    }

    /// Every function that has a body, in order.
    pub fn functions(&self) -> Vec<Function> {
        words(&self.code)
            .filter(|(_, word)| word == "fn")
            .filter_map(|(at, _)| function_at(&self.code, at))
            .collect()
    }
}

/// Words of `code`, each with the position of its first character.
pub fn words(code: &[char]) -> impl Iterator<Item = (usize, String)> + use<'_> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < code.len() && !is_word(code[at]) {
            at += 1;
        }
        let start = at;
        while at < code.len() && is_word(code[at]) {
            at += 1;
        }
        (start < at).then(|| (start, code[start..at].iter().collect()))
    })
}

/// Line, counted from 1, of the character at `at`.
pub fn line_at(chars: &[char], at: usize) -> usize {
    1 + chars[..at].iter().filter(|c| **c == '\n').count()
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn lines_of(chars: &[char]) -> impl Iterator<Item = (usize, String)> + use<'_> {
    chars.split(|c| *c == '\n').enumerate().map(|(at, line)| (at + 1, line.iter().collect()))
}

/// Whether a whole file is for tests, by its name, its folder, or its crate's purpose.
fn is_test_path(path: &Path) -> bool {
    const TEST_CRATES: [&str; 4] =
        ["crates/netio-conformance", "crates/router-conformance", "crates/sim", "fuzz"];
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let in_tests = path.components().any(|part| part.as_os_str() == "tests");
    in_tests
        || stem == "tests"
        || stem.ends_with("_tests")
        || TEST_CRATES.iter().any(|folder| path.starts_with(folder))
}

/// First and last line of each item under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_regions(code: &[char]) -> Vec<(usize, usize)> {
    let needles = ["#[cfg(test)]", "#[cfg(all(test,"].map(|text| text.chars().collect::<Vec<_>>());
    let starts = (0..code.len())
        .filter(|at| needles.iter().any(|needle| code[*at..].starts_with(needle.as_slice())));
    starts
        .map(|at| {
            let attribute = code[at..].iter().position(|c| *c == ']').unwrap_or(0) + 1;
            let end = item_end(code, at + attribute).unwrap_or(code.len() - 1);
            (line_at(code, at), line_at(code, end))
        })
        .collect()
}

fn function_at(code: &[char], at: usize) -> Option<Function> {
    let (name_at, name) = words(&code[at + 2..]).next()?;
    let between = &code[at + 2..at + 2 + name_at];
    if between.is_empty() || between.iter().any(|c| !c.is_whitespace()) {
        return None;
    }
    let end = item_end(code, at).filter(|end| code[*end] == '}')?;
    let (first, last) = (line_at(code, at), line_at(code, end));
    Some(Function { name, line: first, lines: last - first + 1 })
}

/// Position of the `;` that ends the item from `at` on, or of the `}` that closes its body.
fn item_end(code: &[char], at: usize) -> Option<usize> {
    let mut inside = 0usize;
    let mut braces = 0usize;
    for (offset, c) in code[at..].iter().enumerate() {
        match c {
            '(' | '[' => inside += 1,
            ')' | ']' => inside = inside.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(at + offset),
            '}' => braces -= 1,
            ';' if inside == 0 && braces == 0 => return Some(at + offset),
            _ => {}
        }
    }
    None
}

/// The two masks of a text, under construction.
struct Masks<'a> {
    chars: &'a [char],
    at: usize,
    code: Vec<char>,
    comments: Vec<char>,
}

impl<'a> Masks<'a> {
    fn split(chars: &'a [char]) -> (Vec<char>, Vec<char>) {
        let mut masks = Masks { chars, at: 0, code: Vec::new(), comments: Vec::new() };
        while masks.at < chars.len() {
            masks.step();
        }
        (masks.code, masks.comments)
    }

    /// Consumes one comment, one literal, one word, or one other character.
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.comment(self.line_comment_len()),
            ('/', '*') => self.comment(self.block_comment_len()),
            ('"', _) => self.literal(0, self.quoted_len()),
            ('\'', _) => self.character(),
            (c, _) if is_word(c) => self.word(),
            _ => self.keep(1),
        }
    }

    fn peek(&self, offset: usize) -> char {
        self.chars.get(self.at + offset).copied().unwrap_or('\0')
    }

    fn keep(&mut self, len: usize) {
        for _ in 0..len.min(self.chars.len() - self.at) {
            let c = self.chars[self.at];
            self.code.push(c);
            self.comments.push(if c == '\n' { c } else { ' ' });
            self.at += 1;
        }
    }

    fn comment(&mut self, len: usize) {
        for _ in 0..len.min(self.chars.len() - self.at) {
            let c = self.chars[self.at];
            self.comments.push(c);
            self.code.push(if c == '\n' { c } else { ' ' });
            self.at += 1;
        }
    }

    /// Keeps `before` characters and the literal's outer quotes, and blanks the contents.
    fn literal(&mut self, before: usize, len: usize) {
        let end = self.at + len.min(self.chars.len() - self.at);
        self.keep(before + 1);
        while self.at + 1 < end {
            let c = if self.peek(0) == '\n' { '\n' } else { ' ' };
            self.code.push(c);
            self.comments.push(c);
            self.at += 1;
        }
        self.keep(end - self.at);
    }

    /// A word, or the literal of which it is the prefix (`r"…"`, `br#"…"#`, `b'…'`, `c"…"`).
    fn word(&mut self) {
        let len = self.chars[self.at..].iter().take_while(|c| is_word(**c)).count();
        let word: String = self.chars[self.at..self.at + len].iter().collect();
        let hashes = self.chars[self.at + len..].iter().take_while(|c| **c == '#').count();
        let quoted = self.peek(len + hashes) == '"';
        match word.as_str() {
            "r" | "br" | "cr" if quoted => {
                let rest = &self.chars[self.at + len + hashes + 1..];
                let inside = (0..rest.len()).find(|at| closes_raw(&rest[*at..], hashes));
                let total =
                    inside.map_or(usize::MAX / 2, |inside| len + hashes + 1 + inside + 1 + hashes);
                self.literal(len + hashes, total);
            }
            _ => self.keep(len),
        }
    }

    fn line_comment_len(&self) -> usize {
        self.chars[self.at..].iter().take_while(|c| **c != '\n').count()
    }

    fn block_comment_len(&self) -> usize {
        let mut depth = 0;
        let mut len = 0;
        loop {
            match (self.peek(len), self.peek(len + 1)) {
                ('/', '*') => (depth, len) = (depth + 1, len + 2),
                ('*', '/') => (depth, len) = (depth - 1, len + 2),
                ('\0', _) if self.at + len >= self.chars.len() => return len,
                _ => len += 1,
            }
            if depth == 0 {
                return len;
            }
        }
    }

    fn quoted_len(&self) -> usize {
        let mut len = 1;
        while self.at + len < self.chars.len() {
            match self.peek(len) {
                '\\' => len += 2,
                '"' => return len + 1,
                _ => len += 1,
            }
        }
        len
    }

    /// A character literal, or the quote of a lifetime.
    fn character(&mut self) {
        if self.peek(1) == '\\' {
            let rest = self.chars[self.at + 3..].iter();
            self.literal(0, 3 + rest.take_while(|c| **c != '\'').count() + 1);
        } else if self.peek(2) == '\'' {
            self.literal(0, 3);
        } else {
            self.keep(1);
        }
    }
}

fn closes_raw(rest: &[char], hashes: usize) -> bool {
    rest[0] == '"' && rest[1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
