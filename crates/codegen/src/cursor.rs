//! A message's cursor: the methods that write it.

use petasos_schema::Cardinality;
use petasos_schema::Part;

use crate::member::{Member, Subject};
use crate::names::link_to_one;
use crate::text::{Head, Text};

/// Borrows the struct and the arena.
const BOTH: &str = "let (message, arena) = self.0.parts();";
/// The return type of a method that can be chained.
pub(crate) const CHAINED: &str = "&mut Self";
/// Borrows the struct.
const STRUCT: &str = "let (message, _) = self.0.parts();";

/// Writes the cursor of a message.
pub(crate) fn write(subject: &Subject<'_>, text: &mut Text) {
    let (name, cursor) = (subject.name(), subject.cursor());
    text.line(format!("/// Writes {}; reads as one.", link_to_one("struct", &name)));
    text.line(format!("pub struct {cursor}<'a>(rt::Edit<'a, {name}>);"));
    if subject.members.is_empty() {
        return;
    }
    text.blank();
    write_impl(&format!("{cursor}<'_>"), &all_methods(subject), text);
}

pub(crate) fn write_impl(of: &str, methods: &[Method], text: &mut Text) {
    text.open(format!("impl {of} {{"));
    for (at, method) in methods.iter().enumerate() {
        if at > 0 {
            text.blank();
        }
        text.line(format!("/// {}", method.doc));
        text.function(&method.head, &method.body);
    }
    text.close("}");
}

/// A method that writes.
pub(crate) struct Method {
    pub(crate) doc: String,
    pub(crate) head: Head,
    pub(crate) body: Vec<String>,
}

/// The methods of all fields and oneofs, as the cursor has them.
pub(crate) fn all_methods(subject: &Subject<'_>) -> Vec<Method> {
    let mut oneofs_done = vec![false; subject.oneofs.len()];
    let mut all = Vec::new();
    for member in &subject.members {
        let oneof = member.field.oneof().map(|index| index.index());
        let clears = oneof.filter(|at| !std::mem::replace(&mut oneofs_done[*at], true));
        all.extend(clears.map(|oneof| clear_oneof(subject, oneof)));
        all.extend(methods(subject, member));
    }
    all
}

fn clear_oneof(subject: &Subject<'_>, oneof: usize) -> Method {
    let (names, name) = (&subject.oneofs[oneof], subject.message.oneofs()[oneof].name());
    let clear = format!("message.{}.clear(arena);", names.part);
    Method {
        doc: format!("Leaves no member of `oneof {name}` present."),
        head: chained(names.clear.clone(), None),
        body: vec![BOTH.to_owned(), clear, "self".to_owned()],
    }
}

/// A method that returns the cursor.
fn chained(name: String, value: Option<String>) -> Head {
    let mut arguments = vec!["&mut self".to_owned()];
    arguments.extend(value.map(|value| format!("value: {value}")));
    Head { name, arguments, result: CHAINED.to_owned() }
}

fn methods(subject: &Subject<'_>, member: &Member<'_>) -> Vec<Method> {
    let doc = match member.field.oneof() {
        None => subject.declaration(member.field),
        Some(index) => {
            let oneof = subject.message.oneof(index).name();
            format!("{}, in `oneof {oneof}`", subject.declaration(member.field))
        }
    };
    let is_many = matches!(
        member.field.cardinality(),
        Cardinality::Repeated { .. } | Cardinality::Map { .. }
    );
    let mut methods = Vec::new();
    if !is_many {
        methods.push(setter(subject, member, &doc));
    }
    if is_many || member.is_link() {
        methods.push(editor(subject, member, &doc));
    }
    if member.field.cardinality() == Cardinality::Optional {
        methods.push(clear(subject, member));
    }
    methods
}

fn setter(subject: &Subject<'_>, member: &Member<'_>, doc: &str) -> Method {
    let part = &member.part;
    let mut name = member.method("set_");
    let mut doc = doc.to_owned();
    let kind = subject.read(member.field.kind(), "");
    let (value, argument) = match member.layout.part {
        Part::Text => {
            let as_ref = subject.scope.prelude("AsRef", "::core::convert::AsRef");
            (format!("impl {as_ref}<str>"), "value.as_ref()")
        }
        Part::Blob => {
            name.push_str("<'v>");
            doc.push_str(": long ones with an owner are not copied.");
            let into = subject.scope.prelude("Into", "::core::convert::Into");
            (format!("impl {into}<rt::Payload<'v>>"), "value.into()")
        }
        Part::Link => {
            doc.push_str(": copied whole.");
            (kind, "value")
        }
        _ => (kind, "value"),
    };
    let is_word = matches!(member.layout.part, Part::Word1 | Part::Word4 | Part::Word8);
    let needs_arena = !is_word || member.field.oneof().is_some();
    let mut body = vec![if needs_arena { BOTH } else { STRUCT }.to_owned()];
    if let Some(bit) = member.layout.presence_bit {
        body.push(format!("message.presence.set({bit});"));
    }
    let number = member.field.number();
    body.push(match (member.field.oneof(), is_word) {
        (None, true) => format!("message.{part} = value;"),
        (None, false) => format!("message.{part}.set(arena, {argument});"),
        (Some(_), _) => {
            let set = match member.layout.part {
                Part::Text => "set_text",
                Part::Blob => "set_blob",
                Part::Link => "set_link",
                _ => "set_scalar",
            };
            format!("message.{part}.{set}({number}, arena, {argument});")
        }
    });
    body.push("self".to_owned());
    Method { doc, head: chained(name, Some(value)), body }
}

/// The method that opens a list, a map, or a message for editing; a message is created if it is
/// absent.
fn editor(subject: &Subject<'_>, member: &Member<'_>, doc: &str) -> Method {
    let (part, kind) = (&member.part, member.field.kind());
    let stored = subject.stored(kind);
    let (result, open) = match (member.field.cardinality(), kind.message()) {
        (Cardinality::Map { key }, _) => {
            let key = subject.stored(key);
            (format!("rt::MapMut<'_, {key}, {stored}>"), format!("message.{part}.edit(arena)"))
        }
        (Cardinality::Repeated { .. }, _) => {
            (format!("rt::ListMut<'_, {stored}>"), format!("message.{part}.edit(arena)"))
        }
        (_, id) => {
            let id = id.expect("only lists, maps and messages are opened");
            let open = match member.field.oneof() {
                Some(_) => format!("message.{part}.link_mut({}, arena)", member.field.number()),
                None => format!("message.{part}.edit(arena)"),
            };
            let cursor = subject.package.cursor(id, subject.scope);
            (format!("{cursor}<'_>"), format!("{open}.into()"))
        }
    };
    let doc = match member.is_link() {
        true => format!("{doc}: made if it is absent."),
        false => doc.to_owned(),
    };
    let head = Head { name: member.editor(), arguments: vec!["&mut self".to_owned()], result };
    Method { doc, head, body: vec![BOTH.to_owned(), open] }
}

fn clear(subject: &Subject<'_>, member: &Member<'_>) -> Method {
    let part = &member.part;
    let is_object = matches!(member.layout.part, Part::Text | Part::Blob | Part::Link);
    let mut body = vec![if is_object { BOTH } else { STRUCT }.to_owned()];
    if let Some(bit) = member.layout.presence_bit {
        body.push(format!("message.presence.clear({bit});"));
    }
    body.push(match is_object {
        true => format!("message.{part}.clear(arena);"),
        false => format!("message.{part} = {};", subject.zero(member.field.kind())),
    });
    body.push("self".to_owned());
    let doc = format!("Makes {} absent.", subject.declaration(member.field));
    Method { doc, head: chained(member.method("clear_"), None), body }
}
