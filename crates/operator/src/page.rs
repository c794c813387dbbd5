//! Prometheus' text format, version 0.0.4.

use std::fmt::{self, Display, Write};

/// A page that is being written. Names begin with `petasos_`.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The page.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Begins a metric: its type, and its help text.
    ///
    /// # Errors
    /// None: strings take all that is written.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP petasos_{name} {help}")?;
        writeln!(self.0, "# TYPE petasos_{name} {kind}")
    }

    /// A value of a metric. Labels are `name="value"`, with commas between them, in two parts.
    ///
    /// # Errors
    /// None: strings take all that is written.
    pub fn line(
        &mut self,
        name: &str,
        labels: &str,
        more: &str,
        value: impl Display,
    ) -> fmt::Result {
        match (labels, more) {
            ("", "") => writeln!(self.0, "petasos_{name} {value}"),
            (labels, "") => writeln!(self.0, "petasos_{name}{{{labels}}} {value}"),
            (labels, more) => writeln!(self.0, "petasos_{name}{{{labels},{more}}} {value}"),
        }
    }
}

/// A value of a label: whatever its text is, it cannot end it.
#[derive(Debug)]
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_labels() {
        let hostile = "a\"} 1\npetasos_applications 9\\";
        assert_eq!(Escaped(hostile).to_string(), "a\\\"} 1\\npetasos_applications 9\\\\");
    }
}
