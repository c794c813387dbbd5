//! The modules of one crate, and which module a path leads to.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use super::parse::{self, Body, ChildText, Path};
use super::tokens;
use crate::tidy::scan::Source;

/// How often an import may lead to another import: a bound on circles of re-exports.
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

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module itself.
    Module(ModuleId),
    /// Something that this module defines.
    Item(ModuleId),
}

impl Tree {
    /// Reads the crate whose root is `root`; modules whose files are not among `sources` (made by
    /// build scripts, say) are left out.
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

    /// The module in which a macro by example of this name is, wherever it is.
    pub fn macro_definition(&self, name: &str) -> Option<ModuleId> {
        self.modules.iter().position(|module| module.body.macros.contains(name))
    }

    /// What `path` leads to from the module `from`, unless it leaves the crate.
    pub fn resolve(&self, from: ModuleId, path: &Path) -> Option<Target> {
        self.walk(from, &path.names, STEPS_MAX)
    }

    /// What `name` means in the module `id`, unless it is from another crate.
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

    /// A name that ends a path may mean an item and a module at once: the item counts.
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
        // An import that leaves the crate hides what a `*` brings.
        let imported = self.imported(id, name, steps);
        imported.unwrap_or_else(|| child.or_else(|| self.globbed(id, name, steps))).or(child)
    }

    /// What `name` means by the module's imports, if one of them has that name.
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

    /// What `name` means by the module's `use …::*`.
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

/// What stands between the quotes of which the first is at `at`.
fn quoted(text: &str, at: usize) -> String {
    text.chars().skip(at + 1).take_while(|c| *c != '"').collect()
}
