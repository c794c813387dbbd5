//! Oneofs: an enum of the members that may be present.

use petasos_schema::Kind;
use petasos_schema::Part;

use crate::docs;
use crate::member::{Member, Subject};
use crate::names::{Allocator, variant};
use crate::text::{Head, Text};

/// Writes the method that reads a oneof.
pub(crate) fn write_reader(subject: &Subject<'_>, oneof: usize, text: &mut Text) {
    let names = &subject.oneofs[oneof];
    let declared = &subject.message.oneofs()[oneof];
    let declaration = format!("`oneof {}`", declared.name());
    text.doc(&[&docs::lines(declared.comment()), &[declaration]]);
    let option = subject.scope.prelude("Option", "::core::option::Option");
    let name = path(subject, oneof);
    let lifetime = if borrows(subject, oneof) { "<'_>" } else { "" };
    let head = Head {
        name: names.reader.clone(),
        arguments: vec!["&self".to_owned()],
        result: format!("{option}<{name}{lifetime}>"),
    };
    let mut body = vec![format!("match self.{}.case() {{", names.part)];
    for (member, variant) in variants(subject, oneof) {
        let number = member.field.number();
        let value = format!("self.{}.{}", names.part, getter(member));
        body.push(format!("    {number} => Some({name}::{variant}({value})),"));
    }
    body.push("    _ => None,".to_owned());
    body.push("}".to_owned());
    text.function(&head, &body);
}

/// Writes the enum of a oneof, in the module of its message. `subject` resolves types from there,
/// and `outer` is the message's path.
pub(crate) fn write_enum(subject: &Subject<'_>, oneof: usize, outer: &str, text: &mut Text) {
    let declared = &subject.message.oneofs()[oneof];
    let last = outer.rsplit("::").next().unwrap_or(outer);
    let declaration = format!("`oneof {}` of [`{last}`]({outer}).", declared.name());
    text.doc(&[&docs::lines(declared.comment()), &[declaration]]);
    text.line("#[derive(Clone, Copy, Debug, PartialEq)]");
    let lifetime = if borrows(subject, oneof) { "<'a>" } else { "" };
    text.open(format!("pub enum {}{lifetime} {{", subject.module().oneofs[oneof]));
    for (member, variant) in variants(subject, oneof) {
        let declaration = subject.declaration(member.field);
        text.doc(&[&docs::lines(member.field.comment()), &[declaration]]);
        text.line(format!("{variant}({}),", subject.read(member.field.kind(), "'a ")));
    }
    text.close("}");
}

/// The members with their variants.
pub(crate) fn variants<'s, 'a>(
    subject: &'s Subject<'a>,
    oneof: usize,
) -> Vec<(&'s Member<'a>, String)> {
    let mut names = Allocator::default();
    let members = subject.oneof_members(oneof);
    members.map(|member| (member, names.take(variant(member.field.name())))).collect()
}

/// Whether a value refers to the message.
fn borrows(subject: &Subject<'_>, oneof: usize) -> bool {
    subject
        .oneof_members(oneof)
        .any(|member| matches!(member.field.kind(), Kind::String | Kind::Bytes | Kind::Message(_)))
}

/// The enum's path from the message's module.
pub(crate) fn path(subject: &Subject<'_>, oneof: usize) -> String {
    let module = subject.module();
    format!("{}::{}", module.path[module.path.len() - 1], module.oneofs[oneof])
}

fn getter(member: &Member<'_>) -> &'static str {
    match member.layout.part {
        Part::Text => "text()",
        Part::Blob => "blob()",
        Part::Link => "link()",
        _ => "scalar()",
    }
}
