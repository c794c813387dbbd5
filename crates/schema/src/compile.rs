//! Reads .proto files, for build scripts and command lines. This is the only place with I/O.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::error::{LoadError, Position, Refusal};
use crate::link::Options;
use crate::schema::Schema;

/// The result of [`compile`].
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The declarations in the requested files, and everything that they refer to.
    pub schema: Schema,
    /// Every file that was read, so that a build script can watch them. The well-known types are
    /// built in and not included, unless an include directory has them.
    pub paths: Vec<PathBuf>,
}

/// Why [`compile`] failed. The files or their names are at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A file cannot be found, read or parsed.
    #[error("{}{reason}", at.as_ref().map(|at| format!("{at}: ")).unwrap_or_default())]
    File {
        /// The place, where known.
        at: Option<Position>,
        /// What is wrong.
        reason: String,
    },
    /// The files are valid protobuf, but do not make a schema.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Compiles `files`. They are searched for like imports in the directories `includes`; the first
/// match counts. Files that they import may be proto2 as long as only custom options come from
/// them.
///
/// `options.files` is ignored; `files` takes its place.
pub fn compile<F: AsRef<Path>, I: AsRef<Path>>(
    files: impl IntoIterator<Item = F>,
    includes: impl IntoIterator<Item = I>,
    options: &Options,
) -> Result<Compiled, CompileError> {
    let mut compiler = protox::Compiler::new(includes).map_err(explain)?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(files).map_err(explain)?;
    let asked_for = compiler.files().filter(|file| !file.is_import());
    let asked_for = asked_for.map(|file| file.name().to_owned()).collect();
    let options = Options { files: Some(asked_for), ..options.clone() };
    let set = compiler.encode_file_descriptor_set();
    let paths = compiler.files().filter_map(|file| Some(file.path()?.to_owned())).collect();
    Ok(Compiled { schema: Schema::from_descriptors(&set, &options)?, paths })
}

fn explain(error: protox::Error) -> CompileError {
    let at = position(&error);
    let reason = error.to_string();
    // The parser does not know editions, and its own message would only list the words that it
    // knows.
    match at {
        Some(at) if reason.ends_with("but found 'edition'") => {
            LoadError::Refused { at, refusal: Refusal::EditionFile }.into()
        }
        at => CompileError::File { at, reason },
    }
}

fn position(error: &protox::Error) -> Option<Position> {
    let file = error.file()?.into();
    let line_column = || {
        let label = error.labels()?.next()?;
        let contents = error.source_code()?.read_span(label.inner(), 0, 0).ok()?;
        let one_based = |from_zero: usize| u32::try_from(from_zero + 1).ok();
        Some((one_based(contents.line())?, one_based(contents.column())?))
    };
    Some(Position { file, line_column: line_column() })
}
