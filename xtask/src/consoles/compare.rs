//! Whether what a command printed is what the documentation shows, figures apart.
//!
//! Lines are compared after [`simplified`]. A shown line `...` stands for any number of lines, and
//! `...` inside a line for any text.

/// Anything that varies: what a line is simplified to where it has a figure.
const FIGURE: char = '#';

/// Units that belong to the figure in front of them: they change with its magnitude.
const UNITS: [&str; 28] = [
    "ns", "µs", "us", "ms", "s", "min", "h", "k", "M", "G", "T", "B", "kB", "MB", "GB", "TB",
    "KiB", "MiB", "GiB", "TiB", "bit", "kbit", "Mbit", "Gbit", "%", "k/s", "M/s", "Gbit/s",
];

/// The first difference, in words.
pub fn compare(shown: &[String], printed: &[String]) -> Result<(), String> {
    let shown: Vec<String> = shown.iter().map(|line| simplified(line)).collect();
    let lines: Vec<String> = printed.iter().map(|line| simplified(line)).collect();
    let parts: Vec<&[String]> = shown.split(|line| line == "...").collect();
    let (first, rest) = parts.split_first().expect("a split has a part");
    let (mut at, skips) = (0, !rest.is_empty());
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let latest = lines.len().saturating_sub(part.len());
        let starts = match (index, is_last && skips) {
            (0, _) => 0..=0,
            (_, true) => latest.max(at)..=latest.max(at),
            _ => at..=latest,
        };
        let found = starts.clone().find(|start| fits(part, &lines[(*start).min(lines.len())..]));
        let Some(start) = found else {
            let from = if index == 0 || is_last { *starts.start() } else { at };
            return Err(difference(part, &lines[from.min(lines.len())..], index > 0 && !is_last));
        };
        at = start + part.len();
    }
    match (skips, lines.get(first.len())) {
        (false, Some(line)) => Err(format!("printed, but not shown: {line}")),
        _ => Ok(()),
    }
}

/// Whether `lines` begin with what `part` shows.
fn fits(part: &[String], lines: &[String]) -> bool {
    part.len() <= lines.len() && part.iter().zip(lines).all(|(shown, line)| is_like(shown, line))
}

fn difference(part: &[String], lines: &[String], anywhere: bool) -> String {
    if anywhere {
        let missing = part.iter().find(|shown| !lines.iter().any(|line| is_like(shown, line)));
        let what = missing.or(part.first()).map_or("", String::as_str);
        return format!("shown, but not printed there: {what}");
    }
    let lines = lines.iter().map(String::as_str).chain(std::iter::repeat("(nothing)"));
    let mut pairs = part.iter().zip(lines);
    let pair = pairs.find(|(shown, line)| !is_like(shown, line));
    pair.map_or_else(String::new, |(shown, line)| format!("shown: {shown}\nprinted: {line}"))
}

/// Whether a line is what is shown, `...` being any text.
fn is_like(shown: &str, line: &str) -> bool {
    let mut parts = shown.split("...");
    let first = parts.next().expect("a split has a part");
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// A line as it is compared: every figure with its unit is one `#`, and widths do not matter: any
/// blanks are one blank, and a rule of a table is two dashes.
///
/// A figure is a number that does not belong to a word: `7`, `1,418,350`, `24.8 µs`, `500ms`,
/// `127.0.0.1:7411`. `p99`, `v1` and `utf8` have none.
pub fn simplified(line: &str) -> String {
    let chars: Vec<char> = line.trim_end().chars().collect();
    let (mut simple, mut at) = (String::new(), 0);
    while at < chars.len() {
        let in_word = at > 0 && is_of_word(chars[at - 1]);
        let end = if in_word { None } else { figure_end(&chars, at) };
        at = match (end, chars[at]) {
            (Some(end), _) => {
                simple.push(FIGURE);
                end
            }
            (None, c) if c.is_whitespace() => {
                simple.push(' ');
                past(&chars, at, char::is_whitespace)
            }
            (None, '-') if chars.get(at + 1) == Some(&'-') => {
                simple.push_str("--");
                past(&chars, at, |c| c == '-')
            }
            (None, c) => {
                simple.push(c);
                at + 1
            }
        };
    }
    simple
}

/// Where the figure at `at` ends, with its unit, if there is one.
fn figure_end(chars: &[char], at: usize) -> Option<usize> {
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut end = at;
    while is_digit(end) || (end > at && ".,:".contains(*chars.get(end)?) && is_digit(end + 1)) {
        end += 1;
        if end == chars.len() {
            break;
        }
    }
    if end == at {
        return None;
    }
    let blanks = usize::from(chars.get(end) == Some(&' '));
    let unit = |from: usize| {
        let to = past(chars, from, |c| is_of_word(c) || c == '/' || c == '%');
        let word: String = chars[from..to].iter().collect();
        UNITS.contains(&word.as_str()).then_some(to)
    };
    match unit(end + blanks) {
        Some(end) => Some(end),
        None => (!chars.get(end).copied().is_some_and(is_of_word)).then_some(end),
    }
}

fn past(chars: &[char], from: usize, is_part: impl Fn(char) -> bool) -> usize {
    from + chars[from..].iter().take_while(|c| is_part(**c)).count()
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
