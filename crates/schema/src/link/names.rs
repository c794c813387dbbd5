//! Everything that the files declare, by full name.

use std::collections::HashMap;

use super::places::{Path, Places};
use crate::check::{self, Problem};
use crate::descriptor::{Enum, Field, File, Message, Service};
use crate::error::LoadError;
use crate::model::Name;

/// A declaration of a type or service.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    pub(super) name: Name,
    /// The file's index.
    pub(super) file: usize,
    pub(super) path: Path,
    pub(super) item: Item<'a>,
}

/// What is declared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Message(&'a Message<'a>),
    Enum(&'a Enum<'a>),
    Service(&'a Service<'a>),
}

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Proto2,
    Proto3,
    Edition,
}

/// All declarations of all files, in their order.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) files: &'a [File<'a>],
    pub(super) places: Vec<Places<'a>>,
    pub(super) syntaxes: Vec<Syntax>,
    pub(super) declarations: Vec<Declaration<'a>>,
    by_name: HashMap<Box<str>, usize>,
}

impl<'a> Names<'a> {
    pub(super) fn collect(files: &'a [File<'a>]) -> Result<Names<'a>, LoadError> {
        let mut names = Names { files, ..Names::default() };
        names.places = files.iter().map(Places::new).collect();
        for (at, file) in files.iter().enumerate() {
            let root = Path::default();
            let syntax = syntax(file).map_err(|problem| {
                let at = names.places[at].position(&root, Some(SYNTAX));
                LoadError::Invalid { at, problem }
            })?;
            names.syntaxes.push(syntax);
            if !file.package.is_empty() {
                let package = root.part(PACKAGE);
                let invalid = |problem| names.places[at].invalid(&package, problem);
                check::full_name(file.package).map_err(invalid)?;
            }
            for (index, message) in file.messages.iter().enumerate() {
                names.message(at, message, "", root.element(4, index))?;
            }
            for (index, item) in file.enums.iter().enumerate() {
                names.declare(at, item.name, "", root.element(5, index), Item::Enum(item))?;
            }
            for (index, service) in file.services.iter().enumerate() {
                let path = root.element(6, index);
                names.declare(at, service.name, "", path, Item::Service(service))?;
            }
        }
        Ok(names)
    }

    /// What a reference means: a full name with a leading dot, as compilers write it.
    pub(super) fn resolve(&self, reference: &str) -> Result<usize, Problem> {
        let name = reference.strip_prefix('.');
        let found = name.and_then(|name| self.by_name.get(name).copied());
        found.ok_or_else(|| Problem::Unresolved { name: reference.chars().take(256).collect() })
    }

    /// What a field refers to, if it does.
    pub(super) fn referred(&self, field: &Field<'_>) -> Option<usize> {
        self.resolve(field.reference()?).ok()
    }

    fn message(
        &mut self,
        file: usize,
        message: &'a Message<'a>,
        outer: &str,
        path: Path,
    ) -> Result<(), LoadError> {
        let local =
            self.declare(file, message.name, outer, path.clone(), Item::Message(message))?;
        for (index, nested) in message.nested.iter().enumerate() {
            self.message(file, nested, &local, path.element(3, index))?;
        }
        for (index, item) in message.enums.iter().enumerate() {
            self.declare(file, item.name, &local, path.element(4, index), Item::Enum(item))?;
        }
        Ok(())
    }

    /// Declares a name, within `outer` if that is not empty, and gives it without its package.
    fn declare(
        &mut self,
        file: usize,
        name: &str,
        outer: &str,
        path: Path,
        item: Item<'a>,
    ) -> Result<String, LoadError> {
        let found = |problem| self.places[file].invalid(&path, problem);
        check::identifier(name).map_err(found)?;
        let local = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
        let name = Name::new(self.files[file].package, &local);
        check::full_name(name.full()).map_err(found)?;
        if self.by_name.contains_key(name.full()) {
            return Err(found(Problem::DuplicateType { name: name.full().into() }));
        }
        self.by_name.insert(name.full().into(), self.declarations.len());
        self.declarations.push(Declaration { name, file, path, item });
        Ok(local)
    }
}

const PACKAGE: u8 = 2;
const SYNTAX: u8 = 12;

fn syntax(file: &File<'_>) -> Result<Syntax, Problem> {
    match file.syntax {
        "editions" => Ok(Syntax::Edition),
        _ if file.has_edition => Ok(Syntax::Edition),
        "proto3" => Ok(Syntax::Proto3),
        "proto2" | "" => Ok(Syntax::Proto2),
        other => Err(Problem::Syntax { name: other.chars().take(64).collect() }),
    }
}
