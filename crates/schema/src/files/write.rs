//! Writes a file's descriptor. The numbers are the fields' in `descriptor.proto`.

use super::group::{File, Outer, Types, map_key};
use crate::hashing::code;
use crate::model::{Cardinality, Enum, Field, Kind, Message};
use crate::schema::Schema;
use crate::service::{Idempotency, Method, Service};

const LABEL_OPTIONAL: u64 = 1;
const LABEL_REPEATED: u64 = 3;

/// A message in protobuf's encoding, as far as descriptors need it.
#[derive(Debug, Default)]
pub(super) struct Output(Vec<u8>);

impl Output {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(0x80 | (value & 0x7f) as u8);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Output)) {
        let mut inner = Output::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

impl File<'_> {
    /// The encoded `FileDescriptorProto`.
    pub(super) fn encode(&self) -> Box<[u8]> {
        let mut output = Output::default();
        output.text(1, &self.name);
        if !self.package.is_empty() {
            output.text(2, self.package);
        }
        self.imports.iter().for_each(|import| output.text(3, import));
        types(&mut output, &self.types, 4, 5);
        for (schema, item) in &self.services {
            output.message(6, |output| service(output, schema, item));
        }
        output.text(12, "proto3");
        output.0.into()
    }
}

/// The types of a scope, which has messages and enums in these fields.
fn types(output: &mut Output, types: &Types<'_>, messages: u64, enums: u64) {
    for (name, outer) in &types.messages {
        output.message(messages, |output| message(output, name, outer));
    }
    for (name, item) in &types.enums {
        output.message(enums, |output| enumeration(output, name, item));
    }
}

fn message(output: &mut Output, name: &str, outer: &Outer<'_>) {
    output.text(1, name);
    let Some((schema, message)) = outer.message else {
        return types(output, &outer.nested, 3, 4);
    };
    let mut synthetic = Vec::new();
    for item in message.fields() {
        let oneof = match item.cardinality() {
            Cardinality::Oneof(index) => Some(index.index()),
            Cardinality::Optional if item.kind().message().is_none() => {
                synthetic.push(unused_name(message, item.name()));
                Some(message.oneofs().len() + synthetic.len() - 1)
            }
            _ => None,
        };
        output.message(2, |output| field(output, schema, message, item, oneof));
    }
    types(output, &outer.nested, 3, 4);
    for (item, key) in message.fields().iter().filter_map(|item| Some((item, map_key(item)?))) {
        output.message(3, |output| entry(output, schema, item, key));
    }
    let oneofs = message.oneofs().iter().map(|oneof| oneof.name());
    for name in oneofs.chain(synthetic.iter().map(String::as_str)) {
        output.message(8, |output| output.text(1, name));
    }
}

/// The name of an optional field's own oneof, as compilers choose it.
fn unused_name(message: &Message, field: &str) -> String {
    let mut name = format!("_{field}");
    while message.field_by_name(&name).is_some()
        || message.oneofs().iter().any(|oneof| oneof.name() == name)
    {
        name.insert(0, 'X');
    }
    name
}

fn field(
    output: &mut Output,
    schema: &Schema,
    message: &Message,
    field: &Field,
    oneof: Option<usize>,
) {
    let is_list =
        matches!(field.cardinality(), Cardinality::Repeated { .. } | Cardinality::Map { .. });
    output.text(1, field.name());
    output.number(3, field.number().into());
    output.number(4, if is_list { LABEL_REPEATED } else { LABEL_OPTIONAL });
    if map_key(field).is_some() {
        output.number(5, 11);
        output.text(6, &format!(".{}.{}", message.full_name(), entry_name(field.name())));
    } else {
        kind(output, schema, field.kind());
    }
    if let Cardinality::Repeated { packed } = field.cardinality()
        && field.kind().is_packable()
        && !packed
    {
        output.message(8, |output| output.number(2, 0));
    }
    if let Some(index) = oneof {
        output.number(9, index as u64);
    }
    output.text(10, field.json_name());
    if field.cardinality() == Cardinality::Optional && oneof.is_some() {
        output.number(17, 1);
    }
}

fn kind(output: &mut Output, schema: &Schema, kind: Kind) {
    output.number(5, code(kind).into());
    match kind {
        Kind::Message(id) => output.text(6, &format!(".{}", schema.message(id).full_name())),
        Kind::Enum(id) => output.text(6, &format!(".{}", schema.enumeration(id).full_name())),
        _ => {}
    }
}

/// The type of a map's entries.
fn entry(output: &mut Output, schema: &Schema, field: &Field, key: Kind) {
    output.text(1, &entry_name(field.name()));
    for (number, name, of) in [(1, "key", key), (2, "value", field.kind())] {
        output.message(2, |output| {
            output.text(1, name);
            output.number(3, number);
            output.number(4, LABEL_OPTIONAL);
            kind(output, schema, of);
            output.text(10, name);
        });
    }
    output.message(7, |output| output.number(7, 1));
}

/// How compilers call the type of a map's entries: the map's name in camel case, then `Entry`.
fn entry_name(field: &str) -> String {
    let mut name = String::with_capacity(field.len() + 5);
    let mut raise = true;
    for letter in field.chars() {
        match letter {
            '_' => raise = true,
            _ if raise => {
                name.push(letter.to_ascii_uppercase());
                raise = false;
            }
            _ => name.push(letter),
        }
    }
    name + "Entry"
}

fn enumeration(output: &mut Output, name: &str, item: &Enum) {
    output.text(1, name);
    // Proto3 wants zero first.
    let (zero, others): (Vec<_>, Vec<_>) = item.values().iter().partition(|v| v.number() == 0);
    let has_alias = item.values().windows(2).any(|pair| pair[0].number() == pair[1].number());
    for value in zero.into_iter().chain(others) {
        output.message(2, |output| {
            output.text(1, value.name());
            output.number(2, value.number() as i64 as u64);
        });
    }
    if has_alias {
        output.message(3, |output| output.number(2, 1));
    }
}

fn service(output: &mut Output, schema: &Schema, service: &Service) {
    output.text(1, service.local_name());
    for item in service.methods() {
        output.message(2, |output| method(output, schema, item));
    }
}

fn method(output: &mut Output, schema: &Schema, method: &Method) {
    output.text(1, method.name());
    output.text(2, &format!(".{}", schema.message(method.input()).full_name()));
    output.text(3, &format!(".{}", schema.message(method.output()).full_name()));
    let idempotency = match method.idempotency() {
        Idempotency::Unknown => 0,
        Idempotency::NoSideEffects => 1,
        Idempotency::Idempotent => 2,
    };
    if idempotency != 0 {
        output.message(4, |output| output.number(34, idempotency));
    }
    for (number, streams) in [(5, method.client_streaming()), (6, method.server_streaming())] {
        if streams {
            output.number(number, 1);
        }
    }
}
