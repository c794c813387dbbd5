//! Where declarations are in their files, and what is written above them.

use std::collections::HashMap;

use crate::descriptor::{File, Location};
use crate::error::{LoadError, Position};

/// A declaration's path in `SourceCodeInfo`: field numbers and indices, encoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(Vec<u8>);

impl Path {
    /// The path of the element at `index` of the repeated field `field`.
    pub(super) fn element(&self, field: u8, index: usize) -> Path {
        let mut path = self.part(field);
        let mut rest = index;
        while rest > 0x7f {
            path.0.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        path.0.push(rest as u8);
        path
    }

    /// The path of the single field `field`, below 128.
    pub(super) fn part(&self, field: u8) -> Path {
        let mut path = self.clone();
        path.0.push(field);
        path
    }
}

/// The locations of one file.
#[derive(Debug)]
pub(super) struct Places<'a> {
    file: &'a str,
    locations: HashMap<&'a [u8], &'a Location<'a>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(file: &'a File<'a>) -> Places<'a> {
        let mut locations = HashMap::with_capacity(file.locations.len());
        for location in &file.locations {
            locations.entry(location.path).or_insert(location);
        }
        Places { file: file.name, locations }
    }

    /// The position of the part `part` of a declaration, or of all of it.
    pub(super) fn position(&self, path: &Path, part: Option<u8>) -> Position {
        let part = part.and_then(|part| self.locations.get(&*path.part(part).0));
        let location = part.or_else(|| self.locations.get(&*path.0));
        let line_column = location.and_then(|location| {
            let mut span = location.span;
            let mut next = || u32::try_from(span.varint().ok()?).ok()?.checked_add(1);
            Some((next()?, next()?))
        });
        Position { file: self.file.into(), line_column }
    }

    /// The comment above a declaration.
    pub(super) fn comment(&self, path: &Path) -> Box<str> {
        self.locations.get(&*path.0).map(|location| location.comment).unwrap_or_default().into()
    }

    /// An error about a declaration.
    pub(super) fn invalid(&self, path: &Path, problem: crate::check::Problem) -> LoadError {
        LoadError::Invalid { at: self.position(path, None), problem }
    }
}
