//! A message's struct and the methods that read it.

use petasos_schema::Cardinality;
use petasos_schema::Part;

use crate::docs;
use crate::member::{Member, Subject};
use crate::text::{Head, Text};

/// Writes the struct of a message, its trait implementations, and its getters.
pub(crate) fn write(subject: &Subject<'_>, text: &mut Text) {
    let mut comment = docs::lines(subject.message.comment());
    if comment.is_empty() {
        comment = vec![format!("`message {}`", subject.message.full_name())];
    }
    let slots = slots(subject);
    text.doc(&[&comment]);
    text.line("#[repr(C)]");
    text.open(format!("pub struct {} {{", subject.name()));
    write_slots(&slots, text);
    text.close("}");
    text.blank();
    write_macro(subject, text);
    text.blank();
    write_readers(subject, text);
}

/// A field of the struct.
struct Slot {
    offset: u32,
    declaration: String,
    /// A field, with its number, for the runtime.
    number: Option<String>,
    /// A oneof's members, for the runtime.
    oneof: Option<(String, Vec<String>)>,
}

/// The struct's fields by offset.
fn slots(subject: &Subject<'_>) -> Vec<Slot> {
    let plain =
        |offset, declaration: String| Slot { offset, declaration, number: None, oneof: None };
    let mut slots = vec![plain(0, "unknown: rt::Unknown,".to_owned())];
    for member in subject.members.iter().filter(|member| member.field.oneof().is_none()) {
        slots.push(Slot {
            number: Some(format!("{}: {}", member.part, member.field.number())),
            ..plain(
                member.layout.offset,
                format!("{}: {},", member.part, subject.part_type(member)),
            )
        });
    }
    for (at, oneof) in subject.oneofs.iter().enumerate() {
        let members: Vec<String> =
            subject.oneof_members(at).map(|member| alternative(subject, member)).collect();
        slots.push(Slot {
            oneof: Some((oneof.part.clone(), members)),
            ..plain(subject.layout.oneofs[at], format!("{}: rt::OneOf,", oneof.part))
        });
    }
    if let Some(presence) = subject.layout.presence {
        let declaration = format!("presence: rt::Presence<{}>,", presence.words);
        slots.push(plain(presence.offset, declaration));
    }
    slots.sort_by_key(|slot| slot.offset);
    slots.extend(
        padding(subject).map(|(offset, bytes)| plain(offset, format!("reserved: [u8; {bytes}],"))),
    );
    slots
}

/// The zeros after the last part: their offset and number.
fn padding(subject: &Subject<'_>) -> Option<(u32, u32)> {
    let (offset, part) = subject.layout.parts.last()?;
    let words = match (part, subject.layout.presence) {
        (Part::Presence, Some(presence)) => presence.words,
        _ => 1,
    };
    let end = offset + part.bytes() * words;
    (end < subject.layout.bytes).then_some((end, subject.layout.bytes - end))
}

/// A member of a oneof, in the form that the runtime's macro takes.
fn alternative(subject: &Subject<'_>, member: &Member<'_>) -> String {
    let number = member.field.number();
    match member.layout.part {
        Part::Link => format!("link {number} {}", subject.stored(member.field.kind())),
        part => format!("{} {number}", format!("{part:?}").to_ascii_lowercase()),
    }
}

/// Writes fields with their offsets in comments, for people who look at memory.
fn write_slots(slots: &[Slot], text: &mut Text) {
    let width = slots.iter().map(|slot| slot.declaration.len()).max().unwrap_or(0);
    let digits = slots.last().map_or(1, |slot| slot.offset.to_string().len());
    for Slot { offset, declaration, .. } in slots {
        text.line(format!("{declaration:width$} // {offset:>digits$}"));
    }
}

fn write_macro(subject: &Subject<'_>, text: &mut Text) {
    let slots = slots(subject);
    text.open("rt::message! {");
    text.line(format!(
        "{}, {}, {}, SCHEMA, index {}, bytes {};",
        subject.name(),
        subject.cursor(),
        subject.owner(),
        subject.id.index(),
        subject.layout.bytes
    ));
    let numbers: Vec<String> = slots.iter().filter_map(|slot| slot.number.clone()).collect();
    text.words(&numbers, ";");
    for (part, members) in slots.iter().filter_map(|slot| slot.oneof.as_ref()) {
        let line = format!("{part}: oneof {{ {} }};", members.join(", "));
        if text.fits(&line, 0) {
            text.line(line);
        } else {
            text.open(format!("{part}: oneof {{"));
            text.words(members, "");
            text.close("};");
        }
    }
    text.close("}");
}

fn write_readers(subject: &Subject<'_>, text: &mut Text) {
    let name = subject.name();
    text.open(format!("impl {name} {{"));
    text.line("/// An empty message in the process's default heap.");
    let result = format!("rt::Msg<{name}>");
    let head = Head { name: "new".to_owned(), arguments: Vec::new(), result };
    text.function(&head, &["rt::Msg::new()".to_owned()]);
    let mut oneofs_done = vec![false; subject.oneofs.len()];
    for member in &subject.members {
        text_of_member(subject, member, &mut oneofs_done, text);
    }
    text.close("}");
}

fn text_of_member(
    subject: &Subject<'_>,
    member: &Member<'_>,
    oneofs_done: &mut [bool],
    text: &mut Text,
) {
    if let Some(index) = member.field.oneof() {
        if !std::mem::replace(&mut oneofs_done[index.index()], true) {
            text.blank();
            crate::oneof::write_reader(subject, index.index(), text);
        }
        return;
    }
    text.blank();
    let declaration = subject.declaration(member.field);
    text.doc(&[&docs::lines(member.field.comment()), std::slice::from_ref(&declaration)]);
    let (result, body) = reader(subject, member);
    text.function(&head(&member.reader(), result), &[body]);
    if let Some(body) = presence(member) {
        text.blank();
        text.line(format!("/// Whether {declaration} is present."));
        text.function(&head(&member.method("has_"), "bool".to_owned()), &[body]);
    }
}

fn head(name: &str, result: String) -> Head {
    Head { name: name.to_owned(), arguments: vec!["&self".to_owned()], result }
}

/// The return type of a field's getter, and its expression.
fn reader(subject: &Subject<'_>, member: &Member<'_>) -> (String, String) {
    let (part, kind) = (&member.part, member.field.kind());
    let option = subject.scope.prelude("Option", "::core::option::Option");
    let read = subject.read(kind, "");
    match (member.field.cardinality(), member.layout.part) {
        (Cardinality::Repeated { .. }, _) => {
            (format!("&[{}]", subject.stored(kind)), format!("&self.{part}"))
        }
        (Cardinality::Map { .. }, _) => {
            (format!("&{}", subject.part_type(member)), format!("&self.{part}"))
        }
        (_, Part::Link) => (format!("{option}<{read}>"), format!("self.{part}.get()")),
        (_, kind) => {
            let is_leaf = matches!(kind, Part::Text | Part::Blob);
            match member.layout.presence_bit {
                None => (read, format!("{}self.{part}", if is_leaf { "&" } else { "" })),
                Some(bit) => {
                    let value = format!("{}self.{part}", if is_leaf { "&*" } else { "" });
                    let body = format!("self.presence.has({bit}).then_some({value})");
                    (format!("{option}<{read}>"), body)
                }
            }
        }
    }
}

/// The expression that tells whether the field is present, if the field has presence.
fn presence(member: &Member<'_>) -> Option<String> {
    match member.layout.presence_bit {
        Some(bit) => Some(format!("self.presence.has({bit})")),
        None if member.is_link() => Some(format!("self.{}.get().is_some()", member.part)),
        None => None,
    }
}
