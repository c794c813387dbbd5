//! Groups and what is for operators, from a file.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::GroupOptions;
use crate::admin_options::AdminOptions;

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    admin: AdminOptions,
    #[serde(default)]
    group: Vec<Spanned<GroupOptions>>,
}

/// Why there is no configuration. The operator's fault.
#[derive(Debug, thiserror::Error)]
pub enum NotConfigured {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// The file is wrong.
    #[error("{0}: {1}")]
    Wrong(PathBuf, String),
}

/// Reads a file, and checks each of its groups.
///
/// # Errors
/// See [`NotConfigured`]: the line, and what is wrong there.
pub(super) fn read(path: &Path) -> Result<(Vec<GroupOptions>, AdminOptions), NotConfigured> {
    let wrong = |what: String| NotConfigured::Wrong(path.to_owned(), what);
    let mut text = String::new();
    let unreadable = |error| NotConfigured::Unreadable(path.to_owned(), error);
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    parse(&text).map_err(wrong)
}

pub(super) fn parse(text: &str) -> Result<(Vec<GroupOptions>, AdminOptions), String> {
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        format!("line {}: {}", line(at), error.message())
    })?;
    if file.group.is_empty() {
        return Err("there is no [[group]]".to_owned());
    }
    let mut groups: Vec<GroupOptions> = Vec::new();
    for group in file.group {
        let line = line(group.span().start);
        let group = group.into_inner();
        let at = group.listen;
        let wrong = |what: String| format!("line {line}: group at {at}: {what}");
        group.settings().map_err(wrong)?;
        if at.port() != 0 && groups.iter().any(|other| other.listen == at) {
            return Err(wrong("there are two at this address".to_owned()));
        }
        let shared = group.virtual_address;
        if shared.is_some() && groups.iter().any(|other| other.virtual_address == shared) {
            return Err(wrong("another group has the same virtual address".to_owned()));
        }
        groups.push(group);
    }
    Ok((groups, file.admin))
}
