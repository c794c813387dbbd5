//! What can be wrong with a dictionary's files.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A dictionary cannot be loaded. Whoever installed its files can help.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}{}", path.display(), hint(dictionary, fault))]
pub struct CorpusError {
    pub dictionary: String,
    pub path: PathBuf,
    #[source]
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It cannot be read, or ends too early.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is longer than is read.
    #[error("more than {0} bytes")]
    TooLong(usize),
    /// A line of an index has not the form HEADWORD, tab, offset, tab, length.
    #[error("line {0} is none of an index")]
    Line(usize),
    /// An entry ends beyond the text.
    #[error("line {0} is of an entry beyond the end of the text")]
    Beyond(usize),
    /// Two entries share a part of the text.
    #[error("the entries `{0}` and `{1}` overlap")]
    Overlap(String, String),
    /// There is nothing to search.
    #[error("no entry")]
    Empty,
}

fn hint(dictionary: &str, fault: &Fault) -> String {
    match fault {
        Fault::Read(error) if error.kind() == ErrorKind::NotFound => {
            format!(" (on Debian: apt-get install dict-{dictionary})")
        }
        _ => String::new(),
    }
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read, or is longer.
pub fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    read_all(File::open(path)?, bytes_max)
}

/// Reads to the end.
///
/// # Errors
/// As for [`read`].
pub fn read_all(from: impl Read, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    from.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(Fault::TooLong(bytes_max)) } else { Ok(bytes) }
}
