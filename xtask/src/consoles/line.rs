//! Command lines as words.

/// The words of a line as they are written, with their quotes. A comment ends them.
pub fn words(line: &str) -> Vec<&str> {
    let (mut words, mut begin, mut quote, mut escaped) = (Vec::new(), None, None, false);
    for (at, c) in line.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, c) {
            (None, c) if c.is_whitespace() => {
                words.extend(begin.take().map(|begin| &line[begin..at]));
                continue;
            }
            (None, '#') if begin.is_none() => return words,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => escaped = true,
            _ => {}
        }
        begin.get_or_insert(at);
    }
    words.extend(begin.map(|begin| &line[begin..]));
    words
}

/// Whether a word ends a command: what follows is another command, or a file that a check must not
/// write.
pub fn ends_command(word: &str) -> bool {
    let redirects = word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['<', '>']);
    redirects || matches!(word, "|" | "||" | "&&" | "&" | ";")
}

/// The program and its arguments, without what says how to start it: variables and `sudo`.
pub fn bare<'a, 'b>(mut words: &'a [&'b str]) -> &'a [&'b str] {
    loop {
        words = match words {
            ["sudo", "-u" | "-g", _, rest @ ..] | ["sudo" | "env" | "exec", rest @ ..] => rest,
            [word, rest @ ..] if is_assignment(word) => rest,
            _ => return words,
        };
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_make_words() {
        let line = r##"petasos  call a '{"name": "# eve"}' b\ c "d \" e"  # a comment"##;
        let expected = ["petasos", "call", "a", r##"'{"name": "# eve"}'"##, r"b\ c", r#""d \" e""#];
        assert_eq!(words(line), expected);
        assert_eq!(words("a#b 'c"), ["a#b", "'c"]);
    }

    #[test]
    fn variables_and_sudo_are_not_the_program() {
        let program = |line| bare(&words(line)).join(" ");
        assert_eq!(program("A_1='b c' D= sudo -u shop E=f petasos list"), "petasos list");
        assert_eq!(program("env A=b hello serve"), "hello serve");
        assert_eq!(program("petasosd --peer a=b"), "petasosd --peer a=b");
        assert_eq!(program("./a-b=c d"), "./a-b=c d");
        assert_eq!(program("A=b"), "");
    }

    #[test]
    fn commands_end_at_pipes_and_files() {
        for word in ["|", "&&", ">file", "2>&1", "<", "<(sleep"] {
            assert!(ends_command(word), "{word}");
        }
        assert!(!ends_command("'|'") && !ends_command("2"));
    }
}
