//! Which declarations a schema is made of.
//!
//! Roots are the declarations of the files that were asked for, and all that they lead to belongs
//! to the schema. Anything of it that is not proto3 is refused where it is used. If no files were
//! named, all services are roots, and of the messages and enums those that can be had: files that
//! are there for custom options only must not spoil the rest.

use super::names::{Item, Names, Syntax};
use super::places::Path;
use crate::descriptor::{Field, GROUP, Message};
use crate::error::{LoadError, Refusal};

/// Marks the declarations that belong to the schema.
pub(super) fn reached(names: &Names<'_>, files: Option<&[String]>) -> Result<Vec<bool>, LoadError> {
    let mut marks =
        Marks { names, is_reached: vec![false; names.declarations.len()], open: vec![] };
    match files {
        Some(files) => marks.roots_in(files)?,
        None => marks.roots_anywhere()?,
    }
    // The open ones are taken from the end.
    marks.open.reverse();
    while let Some(at) = marks.open.pop() {
        marks.follow(at)?;
    }
    Ok(marks.is_reached)
}

struct Marks<'n, 'a> {
    names: &'n Names<'a>,
    is_reached: Vec<bool>,
    /// Reached, but not yet followed.
    open: Vec<usize>,
}

impl Marks<'_, '_> {
    fn roots_in(&mut self, files: &[String]) -> Result<(), LoadError> {
        let mut is_asked_for = vec![false; self.names.files.len()];
        for name in files {
            let at = self.names.files.iter().position(|file| file.name == name);
            let at = at.ok_or_else(|| LoadError::NoSuchFile { name: name.as_str().into() })?;
            is_asked_for[at] = true;
        }
        for (at, declaration) in self.names.declarations.iter().enumerate() {
            if is_asked_for[declaration.file] && !is_entry(declaration.item) {
                self.reach(at, declaration.file, &declaration.path, Some(NAME))?;
            }
        }
        Ok(())
    }

    fn roots_anywhere(&mut self) -> Result<(), LoadError> {
        let is_spoilt = spoilt(self.names);
        for (at, declaration) in self.names.declarations.iter().enumerate() {
            let is_root = match declaration.item {
                Item::Service(_) => true,
                item => !is_spoilt[at] && !is_entry(item),
            };
            if is_root {
                self.reach(at, declaration.file, &declaration.path, Some(NAME))?;
            }
        }
        Ok(())
    }

    /// Adds a declaration that is used in `file` at `path`, or refuses it there.
    fn reach(
        &mut self,
        at: usize,
        file: usize,
        path: &Path,
        part: Option<u8>,
    ) -> Result<(), LoadError> {
        let declaration = &self.names.declarations[at];
        let name = || declaration.name.full().into();
        let in_file = || self.names.files[declaration.file].name.into();
        let refusal = match (self.names.syntaxes[declaration.file], declaration.item) {
            (Syntax::Proto3, _) | (Syntax::Proto2, Item::Service(_)) => {
                if !std::mem::replace(&mut self.is_reached[at], true) {
                    self.open.push(at);
                }
                return Ok(());
            }
            (Syntax::Proto2, _) => Refusal::Proto2 { name: name(), file: in_file() },
            (Syntax::Edition, _) => Refusal::Edition { name: name(), file: in_file() },
        };
        Err(LoadError::Refused { at: self.names.places[file].position(path, part), refusal })
    }

    fn follow(&mut self, at: usize) -> Result<(), LoadError> {
        let names = self.names;
        let declaration = &names.declarations[at];
        match declaration.item {
            Item::Enum(_) => Ok(()),
            Item::Message(message) => self.follow_message(at, message),
            Item::Service(service) => {
                for (index, method) in service.methods.iter().enumerate() {
                    let path = declaration.path.element(2, index);
                    for (part, name) in [(2, method.input), (3, method.output)] {
                        let part = Some(part);
                        let to = names.resolve(name).map_err(|problem| LoadError::Invalid {
                            at: names.places[declaration.file].position(&path, part),
                            problem,
                        })?;
                        self.reach(to, declaration.file, &path, part)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn follow_message(&mut self, at: usize, message: &Message<'_>) -> Result<(), LoadError> {
        let names = self.names;
        let declaration = &names.declarations[at];
        let places = &names.places[declaration.file];
        for (index, field) in message.fields.iter().enumerate() {
            let path = declaration.path.element(2, index);
            if field.kind == GROUP {
                let refusal = Refusal::Group { name: field.name.chars().take(256).collect() };
                return Err(LoadError::Refused { at: places.position(&path, None), refusal });
            }
            let Some(name) = field.reference() else { continue };
            let part = Some(TYPE_NAME);
            let to = names.resolve(name).map_err(|problem| LoadError::Invalid {
                at: places.position(&path, part),
                problem,
            })?;
            self.reach(to, declaration.file, &path, part)?;
        }
        Ok(())
    }
}

const NAME: u8 = 1;
const TYPE_NAME: u8 = 6;

fn is_entry(item: Item<'_>) -> bool {
    matches!(item, Item::Message(message) if message.is_map_entry)
}

/// Which messages and enums are not proto3, or lead to such.
fn spoilt(names: &Names<'_>) -> Vec<bool> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); names.declarations.len()];
    let mut is_spoilt = vec![false; names.declarations.len()];
    for (at, declaration) in names.declarations.iter().enumerate() {
        is_spoilt[at] = names.syntaxes[declaration.file] != Syntax::Proto3;
        let Item::Message(message) = declaration.item else { continue };
        is_spoilt[at] |= message.fields.iter().any(|field: &Field<'_>| field.kind == GROUP);
        for to in message.fields.iter().filter_map(|field| names.referred(field)) {
            users[to].push(at);
        }
    }
    let mut open: Vec<usize> = (0..is_spoilt.len()).filter(|at| is_spoilt[*at]).collect();
    while let Some(at) = open.pop() {
        for user in &users[at] {
            if !std::mem::replace(&mut is_spoilt[*user], true) {
                open.push(*user);
            }
        }
    }
    is_spoilt
}
