//! Plain structs with the fields of messages, and the conversions.

use std::collections::HashSet;

use petasos_schema::{Cardinality, Kind, MessageId, Part, Schema};

use crate::docs;
use crate::member::{Member, Subject};
use crate::names::{Allocator, snake};
use crate::oneof::{self, variants};
use crate::text::Text;

/// Writes the struct for a message, and its conversions.
pub(crate) fn write(subject: &Subject<'_>, text: &mut Text) {
    let (name, owned) = (subject.name(), subject.owned());
    let fields = fields(subject);
    text.line(format!("/// The fields of a [`{name}`] as ordinary values."));
    text.line("#[derive(Clone, Debug, Default, PartialEq)]");
    match fields.is_empty() {
        true => text.line(format!("pub struct {owned} {{}}")),
        false => {
            text.open(format!("pub struct {owned} {{"));
            for field in &fields {
                text.doc(&[&field.comment, std::slice::from_ref(&field.declaration)]);
                text.line(format!("pub {}: {},", field.name, field.kind));
            }
            text.close("}");
        }
    }
    text.blank();
    text.line(format!("rt::owned! {{ {owned}, {name} }}"));
    text.blank();
    write_conversions(subject, &fields, text);
}

fn write_conversions(subject: &Subject<'_>, fields: &[OwnedField], text: &mut Text) {
    let (name, owned) = (subject.name(), subject.owned());
    let [message, to] = if fields.is_empty() { ["_", "_"] } else { ["message", "mut to"] };
    text.line("#[rustfmt::skip]");
    text.open(format!("impl rt::Owned for {owned} {{"));
    text.line(format!("type Message = {name};"));
    text.blank();
    text.open(format!("fn from_message({message}: &{name}) -> {owned} {{"));
    match fields.is_empty() {
        true => text.line(format!("{owned} {{}}")),
        false => {
            text.open(format!("{owned} {{"));
            for field in fields {
                match field.read.split_last() {
                    Some((last, [])) => text.line(format!("{}: {last},", field.name)),
                    Some((last, [first, middle @ ..])) => {
                        text.open(format!("{}: {first}", field.name));
                        text.lines(middle);
                        text.close(format!("{last},"));
                    }
                    None => {}
                }
            }
            text.close("}");
        }
    }
    text.close("}");
    text.blank();
    text.open(format!("fn write(&self, {to}: {}<'_>) {{", subject.cursor()));
    text.lines(fields.iter().flat_map(|field| &field.write));
    text.close("}");
    text.close("}");
}

/// Writes the enum for a oneof, in the module of its message. `subject` resolves types from there.
pub(crate) fn write_enum(subject: &Subject<'_>, at: usize, text: &mut Text) {
    let declared = &subject.message.oneofs()[at];
    let declaration = format!("`oneof {}`, with ordinary values.", declared.name());
    text.doc(&[&docs::lines(declared.comment()), &[declaration]]);
    text.line("#[derive(Clone, Debug, PartialEq)]");
    text.open(format!("pub enum {} {{", subject.module().owned_oneofs[at]));
    for (member, variant) in variants(subject, at) {
        let declaration = subject.declaration(member.field);
        text.doc(&[&docs::lines(member.field.comment()), &[declaration]]);
        text.line(format!("{variant}({}),", single(subject, member)));
    }
    text.close("}");
}

/// A field of the struct, with the code that reads it from `message` and writes it to the cursor.
struct OwnedField {
    name: String,
    kind: String,
    comment: Vec<String>,
    declaration: String,
    read: Vec<String>,
    write: Vec<String>,
}

fn fields(subject: &Subject<'_>) -> Vec<OwnedField> {
    let mut names = Allocator::default();
    let plain = subject.members.iter().filter(|member| member.field.oneof().is_none());
    let mut fields: Vec<OwnedField> = plain
        .map(|member| {
            let name = names.take(snake(member.field.name()));
            let (kind, read, write) = conversions(subject, member, &name);
            OwnedField {
                comment: docs::lines(member.field.comment()),
                declaration: subject.declaration(member.field),
                name,
                kind,
                read: vec![read],
                write,
            }
        })
        .collect();
    fields.extend((0..subject.oneofs.len()).map(|at| {
        let name = names.take(snake(subject.message.oneofs()[at].name()));
        oneof_field(subject, at, name)
    }));
    fields
}

fn oneof_field(subject: &Subject<'_>, at: usize, name: String) -> OwnedField {
    let declared = &subject.message.oneofs()[at];
    let module = subject.module();
    let path = module.path.last().expect("the module of a message has a name");
    let owned = format!("{path}::{}", module.owned_oneofs[at]);
    let lent = oneof::path(subject, at);
    let reader = &subject.oneofs[at].reader;
    let mut read = vec![format!("message.{reader}().map(|value| match value {{")];
    let mut write = vec![format!("match &self.{name} {{")];
    for (member, variant) in variants(subject, at) {
        let value = read_one(subject, member, "value", "value");
        read.push(format!("{lent}::{variant}(value) => {owned}::{variant}({value}),"));
        let put = write_one(subject, member, "*value", "value");
        write.push(format!("    Some({owned}::{variant}(value)) => {{"));
        write.push(format!("        {put}"));
        write.push("    }".to_owned());
    }
    read.push("})".to_owned());
    write.extend(["    None => {}".to_owned(), "}".to_owned()]);
    OwnedField {
        kind: format!("{}<{owned}>", option(subject)),
        comment: docs::lines(declared.comment()),
        declaration: format!("`oneof {}`", declared.name()),
        name,
        read,
        write,
    }
}

/// A field's type, the expression that reads it, and the statements that write it.
fn conversions(
    subject: &Subject<'_>,
    member: &Member<'_>,
    name: &str,
) -> (String, String, Vec<String>) {
    let reader = format!("message.{}()", member.reader());
    let kind = member.field.kind();
    let is_message = kind.message().is_some();
    let element = owned_type(subject, kind);
    let editor = format!("to.{}()", member.editor());
    match member.field.cardinality() {
        Cardinality::Map { key } => {
            let put = if is_message { "put_message_map" } else { "put_map" };
            let value = read_one(subject, member, "*value", "value");
            (
                format!("::std::collections::BTreeMap<{}, {element}>", owned_type(subject, key)),
                format!("rt::plain::map({reader}, |value| {value})"),
                vec![format!("rt::plain::{put}({editor}, &self.{name});")],
            )
        }
        Cardinality::Repeated { .. } => {
            let put = if is_message { "put_messages" } else { "put_list" };
            let value = read_one(subject, member, "*value", "value");
            let vec = subject.scope.prelude("Vec", "::std::vec::Vec");
            (
                format!("{vec}<{element}>"),
                format!("rt::plain::list({reader}, |value| {value})"),
                vec![format!("rt::plain::{put}({editor}, &self.{name});")],
            )
        }
        Cardinality::Optional => {
            let read = match member.layout.part {
                Part::Text | Part::Blob | Part::Link => {
                    let value = read_one(subject, member, "value", "value");
                    format!("{reader}.map(|value| {value})")
                }
                _ => reader,
            };
            let write = vec![
                format!("if let Some(value) = &self.{name} {{"),
                format!("    {}", write_one(subject, member, "*value", "value")),
                "}".to_owned(),
            ];
            (format!("{}<{}>", option(subject), single(subject, member)), read, write)
        }
        _ => {
            let field = format!("self.{name}");
            let write = write_one(subject, member, &field, &format!("&{field}"));
            (element, read_one(subject, member, &reader, &reader), vec![write])
        }
    }
}

fn option(subject: &Subject<'_>) -> &'static str {
    subject.scope.prelude("Option", "::core::option::Option")
}

/// The type of one value.
fn owned_type(subject: &Subject<'_>, kind: Kind) -> String {
    match kind {
        Kind::String => subject.scope.prelude("String", "::std::string::String").to_owned(),
        Kind::Bytes => format!("{}<u8>", subject.scope.prelude("Vec", "::std::vec::Vec")),
        Kind::Message(id) => subject.package.owned(id, subject.scope),
        _ => subject.stored(kind),
    }
}

/// The type of the value of a field that has at most one.
fn single(subject: &Subject<'_>, member: &Member<'_>) -> String {
    let kind = owned_type(subject, member.field.kind());
    match is_boxed(subject, member) {
        true => format!("{}<{kind}>", subject.scope.prelude("Box", "::std::boxed::Box")),
        false => kind,
    }
}

/// What makes a value of `scalar`, if it is one, or else of `lent`.
fn read_one(subject: &Subject<'_>, member: &Member<'_>, scalar: &str, lent: &str) -> String {
    match member.field.kind() {
        Kind::String => format!("rt::plain::text({lent})"),
        Kind::Bytes => format!("rt::plain::bytes({lent})"),
        Kind::Message(_) if is_boxed(subject, member) => format!("rt::plain::boxed({lent})"),
        Kind::Message(_) => format!("rt::Owned::from_message({lent})"),
        _ => scalar.to_owned(),
    }
}

/// The statement that sets a field from `scalar`, or from a reference.
fn write_one(subject: &Subject<'_>, member: &Member<'_>, scalar: &str, lent: &str) -> String {
    let set = member.method("set_");
    match member.field.kind() {
        Kind::String => format!("to.{set}({lent});"),
        Kind::Bytes => format!("to.{set}({}.as_slice());", lent.trim_start_matches('&')),
        Kind::Message(_) => {
            let value = if is_boxed(subject, member) { "&**value" } else { "value" };
            format!("rt::Owned::write({value}, to.{}());", member.editor())
        }
        _ => format!("to.{set}({scalar});"),
    }
}

/// Whether a message may contain itself through this field and other singular fields. Such a struct
/// would have no size without a box. Lists and maps are boxes themselves.
fn is_boxed(subject: &Subject<'_>, member: &Member<'_>) -> bool {
    let is_one =
        matches!(member.field.cardinality(), Cardinality::Optional | Cardinality::Oneof(_));
    let within = member.field.kind().message().filter(|_| is_one);
    within.is_some_and(|within| contains(subject.package.schema, within, subject.id))
}

fn contains(schema: &Schema, outer: MessageId, inner: MessageId) -> bool {
    let mut left = vec![outer];
    let mut seen = HashSet::from([outer.index()]);
    while let Some(id) = left.pop() {
        if id.index() == inner.index() {
            return true;
        }
        for field in schema.message(id).fields() {
            let is_one =
                matches!(field.cardinality(), Cardinality::Optional | Cardinality::Oneof(_));
            left.extend(field.kind().message().filter(|id| is_one && seen.insert(id.index())));
        }
    }
    false
}
