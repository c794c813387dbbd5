//! Decides which file each declaration of some schemas goes to.
//!
//! If a declaration's file is not known, it goes to one file per package. Packages whose
//! declarations refer to each other in a cycle, which is possible as long as their files do not,
//! are divided. A declaration's level is the greatest number of times that a path of references
//! from it can enter another package; declarations of a package with the same level share a file.
//! Declarations that refer to each other in a cycle come from one file, hence one package, and so
//! have the same level.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ids::{EnumId, MessageId};
use crate::model::{Cardinality, Enum, Field, Kind, Message};
use crate::schema::Schema;
use crate::service::Service;

/// A file to be written.
#[derive(Debug, Default)]
pub(super) struct File<'a> {
    pub(super) name: String,
    pub(super) package: &'a str,
    pub(super) imports: BTreeSet<String>,
    pub(super) types: Types<'a>,
    pub(super) services: Vec<(&'a Schema, &'a Service)>,
}

/// The types in one scope, by their simple names. A message may be unknown itself, and only contain
/// others.
#[derive(Debug, Default)]
pub(super) struct Types<'a> {
    pub(super) messages: BTreeMap<&'a str, Outer<'a>>,
    pub(super) enums: BTreeMap<&'a str, &'a Enum>,
}

/// A message with what is nested in it.
#[derive(Debug, Default)]
pub(super) struct Outer<'a> {
    pub(super) message: Option<(&'a Schema, &'a Message)>,
    pub(super) nested: Types<'a>,
}

/// The files for everything that the schemas declare, in no order.
pub(super) fn files<'a>(schemas: impl Iterator<Item = &'a Schema>) -> Vec<File<'a>> {
    let mut tops = collect(schemas);
    level(&mut tops);
    let names: HashMap<&str, String> =
        tops.iter().map(|(name, top)| (*name, top.file_name())).collect();
    let mut files: BTreeMap<String, File<'a>> = BTreeMap::new();
    for (name, top) in tops {
        let file = files.entry(names[name].clone()).or_default();
        file.name.clone_from(&names[name]);
        file.package = top.package;
        let others = top.references.iter().filter_map(|other| names.get(other));
        file.imports.extend(others.filter(|other| **other != names[name]).cloned());
        top.items.iter().for_each(|item| file.place(*item));
    }
    files.into_values().collect()
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Message(&'a Schema, &'a Message),
    Enum(&'a Enum),
    Service(&'a Schema, &'a Service),
}

/// A declaration at the top of a file, with what is nested in it.
struct Top<'a> {
    package: &'a str,
    file: Option<&'a str>,
    level: usize,
    items: Vec<Item<'a>>,
    /// Full names of the declarations at the top that something of this one refers to.
    references: BTreeSet<&'a str>,
}

impl Top<'_> {
    fn file_name(&self) -> String {
        if let Some(file) = self.file {
            return file.to_owned();
        }
        let package = if self.package.is_empty() { "unnamed" } else { self.package };
        match self.level {
            0 => format!("{}.proto", package.replace('.', "/")),
            level => format!("{}.{level}.proto", package.replace('.', "/")),
        }
    }
}

/// Where a declaration of a message or enum belongs: its package, its file, and the full name of
/// the declaration at the top that it is in.
macro_rules! place {
    ($item:expr) => {{
        let item = $item;
        let rest = item.local_name().find('.').map_or(0, |dot| item.local_name().len() - dot);
        let full = item.full_name();
        (&full[..full.len() - rest], item.package(), item.file())
    }};
}

fn collect<'a>(schemas: impl Iterator<Item = &'a Schema>) -> BTreeMap<&'a str, Top<'a>> {
    let mut tops = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for schema in schemas {
        for (_, message) in schema.messages().filter(|(_, item)| seen.insert(item.full_name())) {
            let references = message.fields().iter().filter_map(|field| top_of(schema, field));
            add(&mut tops, place!(message), Item::Message(schema, message), references);
        }
        for (_, item) in schema.enums().filter(|(_, item)| seen.insert(item.full_name())) {
            add(&mut tops, place!(item), Item::Enum(item), [].into_iter());
        }
        for (_, service) in schema.services().filter(|(_, item)| seen.insert(item.full_name())) {
            let ends = service.methods().iter().flat_map(|method| [method.input, method.output]);
            let references = ends.map(|id| top_of_message(schema, id));
            add(&mut tops, place!(service), Item::Service(schema, service), references);
        }
    }
    tops
}

fn add<'a>(
    tops: &mut BTreeMap<&'a str, Top<'a>>,
    (name, package, file): (&'a str, &'a str, Option<&'a str>),
    item: Item<'a>,
    references: impl Iterator<Item = &'a str>,
) {
    let file = file.or(well_known(package, name));
    let new = Top { package, file, level: 0, items: Vec::new(), references: BTreeSet::new() };
    let top = tops.entry(name).or_insert(new);
    top.items.push(item);
    top.references.extend(references.filter(|other| *other != name));
}

fn top_of<'a>(schema: &'a Schema, field: &Field) -> Option<&'a str> {
    match field.kind() {
        Kind::Message(id) => Some(top_of_message(schema, id)),
        Kind::Enum(id) => Some(top_of_enum(schema, id)),
        _ => None,
    }
}

fn top_of_message(schema: &Schema, id: MessageId) -> &str {
    place!(schema.message(id)).0
}

fn top_of_enum(schema: &Schema, id: EnumId) -> &str {
    place!(schema.enumeration(id)).0
}

/// Divides the packages that refer to each other in a cycle.
fn level(tops: &mut BTreeMap<&str, Top<'_>>) {
    let circular = circular(tops);
    let names: Vec<&str> = tops.keys().copied().collect();
    let names: Vec<&str> =
        names.into_iter().filter(|name| circular.contains(tops[name].package)).collect();
    // More rounds would mean a circle of declarations through packages, which no files can have.
    for _ in 0..names.len() {
        let mut changed = false;
        for name in &names {
            let top = &tops[name];
            let enters = |other: &&str| {
                let other = tops.get(other)?;
                Some(other.level + usize::from(other.package != top.package))
            };
            let level = top.references.iter().filter_map(enters).max().unwrap_or(0);
            changed |= level > top.level;
            let top = tops.get_mut(name).expect("its name is known");
            top.level = top.level.max(level);
        }
        if !changed {
            return;
        }
    }
}

/// The packages whose files are not known and that lead back to themselves through others.
fn circular<'a>(tops: &BTreeMap<&'a str, Top<'a>>) -> BTreeSet<&'a str> {
    let mut references: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for top in tops.values().filter(|top| top.file.is_none()) {
        let others = top.references.iter().filter_map(|other| Some(tops.get(other)?.package));
        let others = others.filter(|other| *other != top.package);
        references.entry(top.package).or_default().extend(others);
    }
    // Those that refer to nothing that is left, or that nothing refers to, are in no circle.
    loop {
        let before = references.len();
        let left: BTreeSet<&str> = references.keys().copied().collect();
        references.retain(|_, others| !others.is_disjoint(&left));
        let used: BTreeSet<&str> = references.values().flatten().copied().collect();
        references.retain(|package, _| used.contains(package));
        if references.len() == before {
            return references.into_keys().collect();
        }
    }
}

impl<'a> File<'a> {
    fn place(&mut self, item: Item<'a>) {
        match item {
            Item::Message(schema, message) => {
                let (outer, name) = self.types.scope(message.local_name());
                outer.messages.entry(name).or_default().message = Some((schema, message));
            }
            Item::Enum(item) => {
                let (outer, name) = self.types.scope(item.local_name());
                outer.enums.insert(name, item);
            }
            Item::Service(schema, service) => self.services.push((schema, service)),
        }
    }
}

impl<'a> Types<'a> {
    /// The scope that a local name's last part is declared in, and that part.
    fn scope(&mut self, local: &'a str) -> (&mut Types<'a>, &'a str) {
        match local.split_once('.') {
            Some((outer, rest)) => self.messages.entry(outer).or_default().nested.scope(rest),
            None => (self, local),
        }
    }
}

/// The standard file of a type of `google.protobuf`.
fn well_known(package: &str, name: &str) -> Option<&'static str> {
    if package != "google.protobuf" {
        return None;
    }
    Some(match name.rsplit('.').next()? {
        "Any" => "google/protobuf/any.proto",
        "Duration" => "google/protobuf/duration.proto",
        "Empty" => "google/protobuf/empty.proto",
        "FieldMask" => "google/protobuf/field_mask.proto",
        "Struct" | "Value" | "ListValue" | "NullValue" => "google/protobuf/struct.proto",
        "Timestamp" => "google/protobuf/timestamp.proto",
        "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value"
        | "StringValue" | "UInt32Value" | "UInt64Value" => "google/protobuf/wrappers.proto",
        _ => return None,
    })
}

/// Whether a field is a map, whose entry's type has to be written.
pub(super) fn map_key(field: &Field) -> Option<Kind> {
    match field.cardinality() {
        Cardinality::Map { key } => Some(key),
        _ => None,
    }
}
