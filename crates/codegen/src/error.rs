//! Errors of code generation.

use std::fmt;
use std::io;
use std::path::PathBuf;

use petasos_schema::{CompileError, DecodeError};

/// The most fields of a message: `petasos_message::FIELDS_MAX`.
pub(crate) const FIELDS_MAX: usize = u16::MAX as usize;

/// Why [`compile`](crate::Builder::compile) failed. `Debug` shows the same text as `Display`,
/// because that is what a build script's `main` prints.
#[non_exhaustive]
pub enum Error {
    /// The .proto files are wrong, or their names. Shown as `file:line:column: reason`.
    Schema(CompileError),
    /// A message has more fields than the runtime supports: 65,535.
    TooManyFields {
        /// Its full name.
        message: String,
    },
    /// The schema is larger than programs accept when they start. Compile its files in parts, which
    /// refer to each other's types with [`extern_path`](crate::Builder::extern_path).
    TooLarge(DecodeError),
    /// A file cannot be written. The directory is at fault.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no `OUT_DIR`. Outside of build scripts, [`out_dir`](crate::Builder::out_dir) must
    /// name the output directory.
    NoOutDir,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Schema(error) => error.fmt(f),
            Error::TooManyFields { message } => {
                write!(f, "`{message}` has more than {FIELDS_MAX} fields: split it")
            }
            Error::TooLarge(error) => {
                write!(f, "compile these files in parts, with `extern_path`: {error}")
            }
            Error::Write { path, error } => write!(f, "{}: {error}", path.display()),
            Error::NoOutDir => f.write_str("OUT_DIR is not set: name a directory with `out_dir`"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Schema(error) => Some(error),
            Error::TooLarge(error) => Some(error),
            Error::Write { error, .. } => Some(error),
            Error::TooManyFields { .. } | Error::NoOutDir => None,
        }
    }
}
