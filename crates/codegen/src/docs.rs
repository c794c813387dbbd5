//! Comments of .proto files as documentation of Rust.
//!
//! People write comments without rustdoc in mind. Text that rustdoc would take for a link, for
//! HTML, or for code to run as a test becomes plain text. Other Markdown stays.

/// The lines of a comment, to be put after `///`, without blank ones at the beginning and end.
pub(crate) fn lines(comment: &str) -> Vec<String> {
    let comment = comment.replace('\t', "    ");
    let source: Vec<&str> = comment.lines().map(shorten).collect();
    let mut lines = Vec::with_capacity(source.len());
    let mut block = Block::Text;
    let mut text = Vec::new();
    for (at, line) in source.iter().enumerate() {
        let is_fence = fence(line).is_some();
        let is_indented = line.starts_with("    ") && !line.trim().is_empty();
        let begins_code = is_indented && (at == 0 || source[at - 1].trim().is_empty());
        match block {
            Block::Text if is_fence || begins_code => {
                flush(&mut text, &mut lines);
                lines.push("```text".to_owned());
                block = if is_fence { Block::Fenced } else { Block::Indented };
                if begins_code && !is_fence {
                    lines.push(verbatim(&line[4..]));
                }
            }
            Block::Fenced if is_fence => {
                lines.push("```".to_owned());
                block = Block::Text;
            }
            Block::Indented if !is_indented && !line.trim().is_empty() => {
                close(&mut lines);
                block = Block::Text;
                text.push(*line);
            }
            Block::Text if line.is_empty() => {
                flush(&mut text, &mut lines);
                lines.push(String::new());
            }
            Block::Text => text.push(*line),
            Block::Indented => lines.push(verbatim(line.get(4..).unwrap_or_default())),
            Block::Fenced => lines.push(verbatim(line)),
        }
    }
    flush(&mut text, &mut lines);
    if block != Block::Text {
        close(&mut lines);
    }
    trim(lines)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Fenced,
    Indented,
}

/// Removes the one blank that people put after the marker, and the blanks at the end.
fn shorten(line: &str) -> &str {
    line.strip_prefix(' ').unwrap_or(line).trim_end()
}

fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("```").or_else(|| line.strip_prefix("~~~"))
}

/// A line of code. A fence in it would end the block.
fn verbatim(line: &str) -> String {
    match fence(line) {
        Some(rest) => format!("'''{rest}"),
        None => line.to_owned(),
    }
}

/// Ends a block of code before the blank lines that follow it.
fn close(lines: &mut Vec<String>) {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    lines.insert(end, "```".to_owned());
}

fn trim(mut lines: Vec<String>) -> Vec<String> {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    lines.split_off(first)
}

/// Escapes a paragraph, as a whole: a span of code may go over the end of a line.
fn flush(text: &mut Vec<&str>, lines: &mut Vec<String>) {
    if text.is_empty() {
        return;
    }
    lines.extend(escape(&text.join("\n")).lines().map(|line| line.trim_end().to_owned()));
    text.clear();
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            '`' => code_span(rest, &mut out),
            '[' | ']' | '<' | '>' => {
                out.push('\\');
                out.push(letter);
                1
            }
            'h' if rest.starts_with("http://") || rest.starts_with("https://") => {
                let address = address(rest);
                out.push_str(&format!("<{address}>"));
                address.len()
            }
            // Characters that are already escaped stay so.
            '\\' if rest[1..].starts_with(|next: char| next.is_ascii_punctuation()) => {
                let next = usize::from(!rest[1..].starts_with(['[', ']', '<', '>', '`']));
                out.push_str(if next == 0 { "" } else { &rest[..2] });
                1 + next
            }
            letter => {
                out.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Copies a code span, or escapes backticks that begin none. Returns how many bytes were taken.
fn code_span(text: &str, out: &mut String) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mut at = ticks;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + run;
        if run == ticks {
            out.push_str(&text[..at]);
            return at;
        }
    }
    out.push_str(&"\\`".repeat(ticks));
    ticks
}

/// The address at the beginning of the text, without the punctuation around it.
fn address(text: &str) -> &str {
    let ends = |letter: char| letter.is_whitespace() || "<>[](){}\"'`\\".contains(letter);
    let end = text.find(ends).unwrap_or(text.len());
    text[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_comments_stay_as_they_are() {
        assert_eq!(lines(" One.\n Two.\n"), ["One.", "Two."]);
        assert_eq!(lines("\n\n A\n\n B \n\n"), ["A", "", "B"]);
        assert_eq!(lines(" - *one*\n   two `a[b]<c>`\n"), ["- *one*", "  two `a[b]<c>`"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn what_rustdoc_would_take_for_links_or_html_is_escaped() {
        assert_eq!(lines("a [Foo][bar] <T>"), ["a \\[Foo\\]\\[bar\\] \\<T\\>"]);
        assert_eq!(lines("already \\[escaped\\]"), ["already \\[escaped\\]"]);
        assert_eq!(lines("a `b and <c>"), ["a \\`b and \\<c\\>"]);
        assert_eq!(lines("a `b\n[c]` [d]"), ["a `b", "[c]` \\[d\\]"]);
        assert_eq!(lines("see https://a.b/c_d."), ["see <https://a.b/c_d>."]);
        assert_eq!(lines("[x](http://a.b)"), ["\\[x\\](<http://a.b>)"]);
    }

    #[test]
    fn code_becomes_text_that_no_test_runs() {
        assert_eq!(
            lines(" For example:\n\n     let x;\n\n       y[0];\n\n Done."),
            ["For example:", "", "```text", "let x;", "", "  y[0];", "```", "", "Done."]
        );
        assert_eq!(lines("```rust\nlet x;\n```\n[a]"), ["```text", "let x;", "```", "\\[a\\]"]);
        assert_eq!(lines("```\nlet x;"), ["```text", "let x;", "```"]);
        assert_eq!(lines("     a\n     ```"), ["```text", "a", "'''", "```"]);
    }
}
