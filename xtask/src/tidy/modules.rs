//! The order of modules inside a crate: modules must not depend on each other in a cycle.
//!
//! Every folder of modules is checked by itself. Its nodes are the modules in it, each with all
//! modules inside of it. A `use` declaration or a path in the code leads from its own module to the
//! module that *defines* the named item; re-exports are followed, and a re-export alone is not a
//! use. A cycle of such references is a finding: what both sides need belongs in a module of its
//! own, below them.
//!
//! A crate's root is one of the nodes of its folder, so `lib.rs` and `main.rs` either use their
//! modules or define what these use, not both. Further down, a module and the modules in its folder
//! are one unit: they see each other's private items, and dividing a long `impl` among them is the
//! purpose of folders. There, only the order of the parts among themselves is checked.
//!
//! Not detected, because they name no module: calls of methods, and what macros of this crate
//! expand to through `$crate`. Tests may use anything.

mod circles;
mod parse;
mod tokens;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use super::Finding;
use super::allow::AllowList;
use super::scan::Source;
use circles::{Graph, Knot};
use parse::{Import, Path};
use tree::{ModuleId, ROOT, Target, Tree};

const RULE: &str = "modules";

/// A name in one module that another defines.
#[derive(Clone, Debug)]
struct Reference {
    from: ModuleId,
    to: ModuleId,
    path: Path,
}

/// The references among the modules of one folder, by the nodes that they connect.
type Floor = BTreeMap<(ModuleId, ModuleId), Reference>;

/// Checks every crate among `sources`.
pub fn check(sources: &[Source], allow: &mut AllowList) -> Vec<Finding> {
    let by_path: BTreeMap<&FilePath, &Source> =
        sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let roots = by_path.keys().filter(|path| is_root(path));
    roots.flat_map(|root| check_crate(&Tree::read(root, &by_path), allow)).collect()
}

/// Whether a file is where cargo looks for a library or a program by default.
fn is_root(path: &FilePath) -> bool {
    let folder = |up: usize| path.ancestors().nth(up).and_then(FilePath::file_name);
    let name = path.file_name().unwrap_or_default();
    let in_source = folder(1).is_some_and(|name| name == "src");
    let in_programs =
        folder(1).is_some_and(|name| name == "bin") && folder(2).is_some_and(|name| name == "src");
    (in_source && (name == "lib.rs" || name == "main.rs")) || in_programs
}

fn check_crate(tree: &Tree, allow: &mut AllowList) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (holder, floor) in floors(tree) {
        let mut graph = Graph::new();
        for (from, to) in floor.keys() {
            graph.entry(*from).or_default().insert(*to);
        }
        let knots = circles::knots(&graph);
        if knots.is_empty() || allow.allows(RULE, &tree.subject(holder)) {
            continue;
        }
        findings.extend(knots.iter().map(|knot| finding(tree, &floor, knot)));
    }
    findings
}

fn finding(tree: &Tree, floor: &Floor, knot: &Knot) -> Finding {
    let circle = &knot.circle;
    let next = circle.iter().cycle().skip(1);
    let references: Vec<_> =
        circle.iter().zip(next).map(|edge| &floor[&(*edge.0, *edge.1)]).collect();
    let told: Vec<String> = references
        .iter()
        .map(|reference| {
            let file = tree.modules[reference.from].file.display();
            format!("{file}:{} names `{}`", reference.path.line, reference.path.names.join("::"))
        })
        .collect();
    let names: Vec<&str> = circle.iter().map(|id| tree.modules[*id].name.as_str()).collect();
    let rest = match knot.nodes - circle.len() {
        0 => String::new(),
        more => format!(" (and {more} more modules hang in this knot)"),
    };
    let advice = format!(
        "`{}` use each other{rest}: {}; move what they share into a module below them",
        names.join("`, `"),
        told.join(", ")
    );
    let first = references[0];
    Finding::new(&tree.modules[first.from].file, first.path.line, RULE, advice)
}

/// Every reference, in the folder where it leads from one node to another.
fn floors(tree: &Tree) -> BTreeMap<ModuleId, Floor> {
    let mut floors: BTreeMap<ModuleId, Floor> = BTreeMap::new();
    for from in 0..tree.modules.len() {
        for reference in references(tree, from) {
            let (up, down) = (tree.lineage(reference.from), tree.lineage(reference.to));
            let shared = up.iter().zip(&down).take_while(|(a, b)| a == b).count();
            let holder = up[shared - 1];
            let node = |line: &[ModuleId]| match line.get(shared) {
                Some(part) => Some(*part),
                None => (holder == ROOT).then_some(ROOT),
            };
            if let (Some(from), Some(to)) = (node(&up), node(&down)) {
                floors.entry(holder).or_default().entry((from, to)).or_insert(reference);
            }
        }
    }
    floors
}

/// The references of the module `from` to other modules of its crate.
fn references(tree: &Tree, from: ModuleId) -> Vec<Reference> {
    let body = &tree.modules[from].body;
    let mut found = Vec::new();
    let mut refer = |target: Option<Target>, path: &Path| {
        if let Some(Target::Item(to)) = target
            && to != from
        {
            found.push(Reference { from, to, path: path.clone() });
        }
    };
    for import in &body.imports {
        match &import.name {
            Some(name) if only_passes_on(import, name, &body.words) => {}
            Some(_) => refer(tree.resolve(from, &import.path), &import.path),
            None => {
                for (target, path) in by_glob(tree, from, import) {
                    refer(Some(target), &path);
                }
            }
        }
    }
    for path in &body.paths {
        let names_macro =
            path.names.last().is_some_and(|name| tree.macro_definition(name).is_some());
        let to_root = path.names.len() == 2 && path.names[0] == "crate";
        let target = match path.names.last() {
            Some(name) if names_macro && to_root => tree.macro_definition(name).map(Target::Item),
            _ => tree.resolve(from, path),
        };
        refer(target, path);
    }
    for call in &body.macro_calls {
        refer(tree.macro_definition(&call.names[0]).map(Target::Item), call);
    }
    found
}

/// Whether a module re-exports `name` without using it itself.
fn only_passes_on(import: &Import, name: &str, words: &BTreeSet<String>) -> bool {
    import.reexports && import.at_module_level && !words.contains(name)
}

/// The names that the module uses through `use …::*`.
fn by_glob(tree: &Tree, from: ModuleId, import: &Import) -> Vec<(Target, Path)> {
    let brought = |name: &String| match tree.resolve(from, &import.path)? {
        Target::Module(module) => {
            let target = tree.lookup(module, name)?;
            let mut path = import.path.clone();
            path.names.push(name.clone());
            Some((target, path))
        }
        item => Some((item, import.path.clone())),
    };
    let body = &tree.modules[from].body;
    let own = |name: &&String| !body.definitions.contains(*name);
    body.words.iter().filter(own).filter_map(brought).collect()
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
