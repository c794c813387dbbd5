//! The modules of one crate, and resolving paths to them.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use super::parse::{self, Body, ChildText, Path};
use super::tokens;
use crate::tidy::scan::Source;

/// How often an import may lead to another import. This bounds cycles of re-exports.
const STEPS_MAX: usize = 32;

/// Index of a module in its crate's tree.
pub type ModuleId = usize;

/// The crate's root.
pub const ROOT: ModuleId = 0;

/// The modules of one crate.
#[derive(Debug)]
pub struct Tree {
    pub modules: Vec<Module>,
}

#[derive(Debug)]
pub struct Module {
    /// Its name, as `mod` gives it; of the root, `crate`.
    pub name: String,
    pub file: PathBuf,
    pub parent: Option<ModuleId>,
    pub children: BTreeMap<String, ModuleId>,
    pub body: Body,
    /// Where the files of its children are.
    folder: PathBuf,
    inline: bool,
}

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module itself.
    Module(ModuleId),
    /// Something that this module defines.
    Item(ModuleId),
}

impl Tree {
    /// Reads the crate with the root file `root`. Modules whose files are not in `sources` (for
    /// example made by build scripts) are left out.
    pub fn read(root: &FilePath, sources: &BTreeMap<&FilePath, &Source>) -> Tree {
        let mut tree = Tree { modules: Vec::new() };
        let folder = root.parent().unwrap_or(FilePath::new("")).to_owned();
        tree.add_file("crate", root, folder, None, sources);
        tree
    }

    fn add_file(
        &mut self,
        name: &str,
        file: &FilePath,
        folder: PathBuf,
        parent: Option<ModuleId>,
        sources: &BTreeMap<&FilePath, &Source>,
    ) {
        let Some(source) = sources.get(file) else { return };
        let module = Module {
            name: name.to_owned(),
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            body: parse::file(&tokens::of(source)),
            folder,
            inline: false,
        };
        self.add(module, sources);
    }

    fn add(&mut self, module: Module, sources: &BTreeMap<&FilePath, &Source>) {
        let id = self.modules.len();
        if let Some(parent) = module.parent {
            self.modules[parent].children.insert(module.name.clone(), id);
        }
        self.modules.push(module);
        for child in std::mem::take(&mut self.modules[id].body.children) {
            let folder = self.modules[id].folder.join(&child.name);
            let file = self.modules[id].file.clone();
            match child.text {
                ChildText::Inline(body) => {
                    let (name, parent) = (child.name, Some(id));
                    let children = BTreeMap::new();
                    let module =
                        Module { name, file, parent, children, body, folder, inline: true };
                    self.add(module, sources);
                }
                ChildText::File => {
                    let beside = folder.with_extension("rs");
                    let within = folder.join("mod.rs");
                    let found = if sources.contains_key(&*beside) { beside } else { within };
                    self.add_file(&child.name, &found, folder, Some(id), sources);
                }
                ChildText::FileNamedAt(at) => {
                    let name = sources.get(&*file).map(|source| quoted(&source.text, at));
                    let found = file.with_file_name(name.unwrap_or_default());
                    let folder = found.with_extension("");
                    self.add_file(&child.name, &found, folder, Some(id), sources);
                }
            }
        }
    }

    /// The module's name in the list of exceptions: its file, and its path in it if it is inline.
    pub fn subject(&self, id: ModuleId) -> String {
        let module = &self.modules[id];
        match module.parent.filter(|_| module.inline) {
            Some(parent) => format!("{}::{}", self.subject(parent), module.name),
            None => module.file.display().to_string(),
        }
    }

    /// The modules from the root to this one, both included.
    pub fn lineage(&self, id: ModuleId) -> Vec<ModuleId> {
        let mut line: Vec<_> =
            std::iter::successors(Some(id), |id| self.modules[*id].parent).collect();
        line.reverse();
        line
    }

    /// The module that defines the macro by example of this name, anywhere in the crate.
    pub fn macro_definition(&self, name: &str) -> Option<ModuleId> {
        self.modules.iter().position(|module| module.body.macros.contains(name))
    }

    /// The target of `path` from the module `from`, unless it is outside the crate.
    pub fn resolve(&self, from: ModuleId, path: &Path) -> Option<Target> {
        self.walk(from, &path.names, STEPS_MAX)
    }

    /// The meaning of `name` in the module `id`, unless it is from another crate.
    pub fn lookup(&self, id: ModuleId, name: &str) -> Option<Target> {
        self.named(id, name, true, STEPS_MAX)
    }

    fn walk(&self, from: ModuleId, names: &[String], steps: usize) -> Option<Target> {
        let (mut at, mut rest, mut explicit) = (from, names, false);
        while let [first, after @ ..] = rest {
            at = match first.as_str() {
                "crate" => ROOT,
                "self" => at,
                "super" => self.modules[at].parent?,
                _ => break,
            };
            (rest, explicit) = (after, true);
        }
        while let [first, after @ ..] = rest {
            match self.named(at, first, after.is_empty(), steps) {
                Some(Target::Module(module)) => (at, rest, explicit) = (module, after, true),
                Some(item) => return Some(item),
                None => return explicit.then_some(Target::Item(at)),
            }
        }
        Some(Target::Module(at))
    }

    /// The last name of a path may mean both an item and a module: the item takes precedence.
    fn named(&self, id: ModuleId, name: &str, last: bool, steps: usize) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let module = &self.modules[id];
        let child = module.children.get(name).map(|child| Target::Module(*child));
        if child.is_some() && !last {
            return child;
        }
        if module.body.definitions.contains(name) {
            return Some(Target::Item(id));
        }
        // An import from outside the crate shadows names imported by `*`.
        let imported = self.imported(id, name, steps);
        imported.unwrap_or_else(|| child.or_else(|| self.globbed(id, name, steps))).or(child)
    }

    /// The meaning of `name` by the module's imports, if one of them has that name.
    fn imported(&self, id: ModuleId, name: &str, steps: usize) -> Option<Option<Target>> {
        let imports = self.modules[id].body.imports.iter();
        let mut found = None;
        for import in imports.filter(|import| import.name.as_deref() == Some(name)) {
            // `pub(crate) use a_macro;` leads back to itself.
            let itself = import.path.names == [name];
            let target = if itself { None } else { self.walk(id, &import.path.names, steps) };
            found = Some(found.flatten().or(target));
        }
        found
    }

    /// The meaning of `name` by the module's `use …::*`.
    fn globbed(&self, id: ModuleId, name: &str, steps: usize) -> Option<Target> {
        let imports = self.modules[id].body.imports.iter().filter(|import| import.name.is_none());
        imports
            .filter_map(|import| match self.walk(id, &import.path.names, steps) {
                Some(Target::Module(from)) if from != id => self.named(from, name, true, steps),
                _ => None,
            })
            .next()
    }
}

/// The text between quotes, the first of which is at `at`.
fn quoted(text: &str, at: usize) -> String {
    text.chars().skip(at + 1).take_while(|c| *c != '"').collect()
}
