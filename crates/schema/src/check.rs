//! The rules of protobuf that a declaration can break, checked in the same way for descriptors and
//! for the compact form.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::model::{Cardinality, Enum, Field, Message};

/// The longest full name, in bytes. It bounds the memory for many messages in a package with a long
/// name.
pub(crate) const NAME_BYTES_MAX: usize = 255;

const NUMBERS: RangeInclusive<u32> = 1..=(1 << 29) - 1;
const NUMBERS_RESERVED: RangeInclusive<u32> = 19000..=19999;

/// A rule of protobuf that a declaration breaks. Its text says what to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("`{name}` is not an identifier: use letters, digits and `_`, no digit first")]
    Identifier { name: Box<str> },
    #[error("the full name `{start}...` is longer than {NAME_BYTES_MAX} bytes: shorten it")]
    LongName { start: Box<str> },
    #[error("`{name}` is declared twice: rename one")]
    DuplicateType { name: Box<str> },
    #[error("`{name}` is used twice in this declaration: rename one")]
    DuplicateName { name: Box<str> },
    #[error("two fields are called `{name}` in JSON: rename one or give it another json_name")]
    DuplicateJsonName { name: Box<str> },
    #[error("`{first}` and `{second}` have the number {number}: give one another")]
    DuplicateNumber { number: u32, first: Box<str>, second: Box<str> },
    #[error("field `{name}` has the number {number}: use 1 to 536870911 without 19000 to 19999")]
    FieldNumber { name: Box<str>, number: i64 },
    #[error("oneof `{name}` has no fields: remove it or add one")]
    EmptyOneof { name: Box<str> },
    #[error("field `{field}` is in a oneof that does not exist")]
    UnknownOneof { field: Box<str> },
    #[error("field `{field}` is both in a oneof and repeated or optional: choose one")]
    OneofLabel { field: Box<str> },
    #[error("field `{field}` is packed, but only repeated numbers, bools and enums can be")]
    Packed { field: Box<str> },
    #[error("map `{field}` has keys that are not integers, bools or strings")]
    MapKey { field: Box<str> },
    #[error("field `{field}` uses a map entry that is malformed or not its own: write `map<K, V>`")]
    MapEntry { field: Box<str> },
    #[error("field `{field}` has a default value, which proto3 does not know: remove it")]
    Default { field: Box<str> },
    #[error("field `{field}` is required, which proto3 does not know: remove that word")]
    Required { field: Box<str> },
    #[error("field `{field}` has no type that protobuf knows")]
    UnknownType { field: Box<str> },
    #[error("`{name}` is not declared in these files: import its file, name it in full")]
    Unresolved { name: Box<str> },
    #[error("`{name}` is of the wrong kind here")]
    WrongSort { name: Box<str> },
    #[error("enum `{name}` does not begin with zero: proto3 wants a first value of 0")]
    NoZero { name: Box<str> },
    #[error("the syntax `{name}` is not known: write `syntax = \"proto3\"`")]
    Syntax { name: Box<str> },
}

/// The part of a message or enum that breaks a rule: itself, a field or value, or a oneof, by
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Itself,
    Field(usize),
    Oneof(usize),
}

pub(crate) type Checked = Result<(), (Place, Problem)>;

/// Checks a simple name.
pub(crate) fn identifier(name: &str) -> Result<(), Problem> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return match name.len() > NAME_BYTES_MAX {
            true => Err(Problem::LongName { start: name[..32].into() }),
            false => Ok(()),
        };
    }
    Err(Problem::Identifier { name: name.chars().take(64).collect() })
}

/// Checks a name of identifiers joined by dots.
pub(crate) fn full_name(name: &str) -> Result<(), Problem> {
    name.split('.').try_for_each(identifier)?;
    match name.len() > NAME_BYTES_MAX {
        true => Err(Problem::LongName { start: name[..32].into() }),
        false => Ok(()),
    }
}

/// Checks the rules for a message's fields and oneofs together, in any order.
pub(crate) fn message(message: &Message) -> Checked {
    let mut names = HashSet::new();
    let mut json_names = HashSet::new();
    let mut numbers = std::collections::HashMap::new();
    for (at, field) in message.fields.iter().enumerate() {
        let found = |problem| (Place::Field(at), problem);
        field_alone(field).map_err(found)?;
        if !names.insert(field.name()) {
            return Err(found(Problem::DuplicateName { name: field.name.clone() }));
        }
        if !json_names.insert(field.json_name()) {
            return Err(found(Problem::DuplicateJsonName { name: field.json_name.clone() }));
        }
        if let Some(first) = numbers.insert(field.number, field.name()) {
            let (number, first, second) = (field.number, first.into(), field.name.clone());
            return Err(found(Problem::DuplicateNumber { number, first, second }));
        }
    }
    let used: HashSet<usize> =
        message.fields.iter().filter_map(|f| Some(f.oneof()?.index())).collect();
    for (at, oneof) in message.oneofs.iter().enumerate() {
        let found = |problem| (Place::Oneof(at), problem);
        identifier(&oneof.name).map_err(found)?;
        if !names.insert(&oneof.name) {
            return Err(found(Problem::DuplicateName { name: oneof.name.clone() }));
        }
        if !used.contains(&at) {
            return Err(found(Problem::EmptyOneof { name: oneof.name.clone() }));
        }
    }
    Ok(())
}

fn field_alone(field: &Field) -> Result<(), Problem> {
    identifier(&field.name)?;
    let name = || field.name.clone();
    if !NUMBERS.contains(&field.number) || NUMBERS_RESERVED.contains(&field.number) {
        return Err(Problem::FieldNumber { name: name(), number: field.number.into() });
    }
    match field.cardinality {
        Cardinality::Repeated { packed: true } if !field.kind.is_packable() => {
            Err(Problem::Packed { field: name() })
        }
        Cardinality::Map { key } if !key.is_map_key() => Err(Problem::MapKey { field: name() }),
        _ => Ok(()),
    }
}

/// Checks an enum's values among themselves, in whatever order.
pub(crate) fn enumeration(item: &Enum) -> Checked {
    let mut names = HashSet::new();
    for (at, value) in item.values.iter().enumerate() {
        identifier(&value.name).map_err(|problem| (Place::Field(at), problem))?;
        if !names.insert(value.name()) {
            return Err((Place::Field(at), Problem::DuplicateName { name: value.name.clone() }));
        }
    }
    match item.values.iter().any(|value| value.number == 0) {
        true => Ok(()),
        false => Err((Place::Itself, Problem::NoZero { name: item.full_name().into() })),
    }
}

/// Protobuf's default JSON name of a field: lower camel case.
pub(crate) fn default_json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut raise = false;
    for letter in name.chars() {
        match letter {
            '_' => raise = true,
            _ if raise => {
                json.push(letter.to_ascii_uppercase());
                raise = false;
            }
            _ => json.push(letter),
        }
    }
    json
}
