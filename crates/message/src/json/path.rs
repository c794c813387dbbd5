//! Positions in a text, for errors.

use std::fmt;

use super::text;

/// The way from the outermost value to one within.
#[derive(Debug, Default)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Of an object.
    Member(Box<str>),
    /// Of an array.
    Element(usize),
}

impl Path {
    pub(super) fn enter_member(&mut self, name: &str) {
        self.0.push(Step::Member(name.into()));
    }

    pub(super) fn enter_element(&mut self, index: usize) {
        self.0.push(Step::Element(index));
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn append(&mut self, rest: &mut Path) {
        self.0.append(&mut rest.0);
    }

    /// Where the value begins in a text that has it, in bytes: a member with its name.
    pub(super) fn find(&self, text: &str) -> usize {
        text::find(text, &self.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Element(index) => write!(f, "[{index}]")?,
                Step::Member(name) if is_plain(name) => {
                    let dot = if at == 0 { "" } else { "." };
                    write!(f, "{dot}{name}")?;
                }
                Step::Member(name) => write!(f, "[{name:?}]")?,
            }
        }
        Ok(())
    }
}
