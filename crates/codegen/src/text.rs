//! Text that grows line by line, indented and broken as rustfmt would do it.

/// The width that rustfmt keeps to by default.
const COLUMNS_MAX: usize = 100;

/// Rust source under construction.
#[derive(Debug, Default)]
pub(crate) struct Text {
    out: String,
    depth: usize,
}

/// The head of a function, without what is around the parts.
#[derive(Debug)]
pub(crate) struct Head {
    /// The name, with generics behind it.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    /// The type of the result; empty if there is none.
    pub(crate) result: String,
}

impl Text {
    /// Adds lines; an empty one has no indentation.
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = impl AsRef<str>>) {
        for line in lines {
            let line = line.as_ref();
            if !line.is_empty() {
                self.out.extend(std::iter::repeat_n("    ", self.depth));
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    /// Adds one line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.lines([line]);
    }

    /// Adds an empty line.
    pub(crate) fn blank(&mut self) {
        self.line("");
    }

    /// Adds documentation: paragraphs of lines, blank lines between them.
    pub(crate) fn doc(&mut self, paragraphs: &[&[String]]) {
        let paragraphs: Vec<&&[String]> =
            paragraphs.iter().filter(|lines| !lines.is_empty()).collect();
        for (at, lines) in paragraphs.into_iter().enumerate() {
            if at > 0 {
                self.line("///");
            }
            for line in *lines {
                self.line(format!("/// {line}").trim_end());
            }
        }
    }

    /// Adds a line, and indents what follows.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Ends what `open` began.
    pub(crate) fn close(&mut self, line: impl AsRef<str>) {
        self.depth -= 1;
        self.line(line);
    }

    /// Adds a public function.
    pub(crate) fn function(&mut self, head: &Head, body: &[String]) {
        self.head(head, "pub ", " {");
        self.depth += 1;
        self.lines(body);
        self.close("}");
    }

    /// Adds a function of a trait, without a body.
    pub(crate) fn signature(&mut self, head: &Head) {
        self.head(head, "", ";");
    }

    fn head(&mut self, head: &Head, before: &str, end: &str) {
        let Head { name, arguments, result } = head;
        let result = if result.is_empty() { String::new() } else { format!(" -> {result}") };
        let line = format!("{before}fn {name}({}){result}{end}", arguments.join(", "));
        if self.fits(&line, 0) {
            return self.line(line);
        }
        self.open(format!("{before}fn {name}("));
        self.lines(arguments.iter().map(|argument| format!("{argument},")));
        let line = format!("){result}{end}");
        self.depth -= 1;
        // rustfmt counts the type alone.
        let future = line.split_once("<Output = ").and_then(|(open, rest)| {
            let (output, close) = rest.rsplit_once("> + ")?;
            Some((format!("{open}<"), format!("Output = {output},"), format!("> + {close}")))
        });
        match future {
            Some((open, output, close)) if !self.fits(&result[" -> ".len()..], 0) => {
                self.open(open);
                self.line(output);
                self.close(close);
            }
            _ => self.line(line),
        }
    }

    /// Whether the line has room, `deeper` steps within this.
    pub(crate) fn fits(&self, line: &str, deeper: usize) -> bool {
        (self.depth + deeper) * 4 + line.len() <= COLUMNS_MAX
    }

    /// Words separated by commas, on as many lines as they take.
    pub(crate) fn words(&mut self, words: &[String], end: &str) {
        let mut line = String::new();
        for (at, word) in words.iter().enumerate() {
            let separator = if at + 1 == words.len() { end } else { "," };
            if !line.is_empty() && self.depth * 4 + line.len() + word.len() + 2 > COLUMNS_MAX {
                self.line(std::mem::take(&mut line));
            }
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(&format!("{space}{word}{separator}"));
        }
        if !line.is_empty() {
            self.line(line);
        }
    }

    /// What was written.
    pub(crate) fn finish(self) -> String {
        self.out
    }
}
