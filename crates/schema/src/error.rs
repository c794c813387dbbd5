//! Errors of making a schema from descriptors.

use std::fmt;

use thiserror::Error;

use crate::check::Problem;

/// A place in a .proto file, shown as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, as an `import` would name it.
    pub file: Box<str>,
    /// Line and column, both from 1, if the descriptors come with source information.
    pub line_column: Option<(u32, u32)>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_column {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Why [`Schema::from_descriptors`](crate::Schema::from_descriptors) failed. The input is at fault,
/// or the limits are too low for it; a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The input is larger than its [`Limits`](crate::Limits).
    #[error("the descriptors have more than {max} {what}: raise the limit if this is meant")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The bytes are not an encoded `FileDescriptorSet`.
    #[error("not an encoded FileDescriptorSet: {what} at byte {offset}")]
    Malformed {
        /// Where, from the beginning of the input.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A declaration breaks a rule of protobuf.
    #[error("{at}: {problem}")]
    Invalid {
        /// The declaration.
        at: Position,
        /// The rule.
        problem: Problem,
    },
    /// A service, or a message that was asked for, uses a feature that Petasos does not support.
    #[error("{at}: {refusal}")]
    Refused {
        /// Where it is used.
        at: Position,
        /// What it is.
        refusal: Refusal,
    },
    /// [`Options::files`](crate::Options) names a file that the set does not have.
    #[error("the descriptors have no file `{name}`: name it as an import would")]
    NoSuchFile {
        /// The name.
        name: Box<str>,
    },
}

/// Valid protobuf that is refused, because only proto3 means the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A message or enum of proto2.
    #[error("`{name}` is declared with proto2 in `{file}`: services need proto3 messages")]
    Proto2 {
        /// The full name.
        name: Box<str>,
        /// The file that declares it.
        file: Box<str>,
    },
    /// A message, enum or service of an edition.
    #[error(
        "`{name}` is declared with an edition in `{file}`: services need `syntax = \"proto3\"`"
    )]
    Edition {
        /// The full name.
        name: Box<str>,
        /// The file that declares it.
        file: Box<str>,
    },
    /// A file with an edition, whose declarations cannot be read at all.
    #[error("editions are not supported: write `syntax = \"proto3\"`")]
    EditionFile,
    /// A group.
    #[error("field `{name}` is a group: use a message field")]
    Group {
        /// The field.
        name: Box<str>,
    },
}
