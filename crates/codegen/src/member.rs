//! A message's fields and oneofs, with their Rust names and types.

use petasos_schema::{Cardinality, Field, Kind, Message, MessageId};
use petasos_schema::{FieldLayout, MessageLayout, Part};

use crate::names::{Allocator, around, base, snake, unkeyword};
use crate::package::Package;
use crate::scope::Scope;

/// A message for which code is generated.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) package: &'a Package<'a>,
    /// The module that will contain the code.
    pub(crate) scope: &'a Scope,
    /// The module of the items nested in the message.
    module: Option<&'a Scope>,
    pub(crate) id: MessageId,
    pub(crate) message: &'a Message,
    pub(crate) layout: &'a MessageLayout,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) oneofs: Vec<OneofNames>,
}

/// A field.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    pub(crate) field: &'a Field,
    pub(crate) layout: FieldLayout,
    /// The struct's field; for a member of a oneof, the oneof's field.
    pub(crate) part: String,
    base: String,
}

/// A oneof.
#[derive(Debug)]
pub(crate) struct OneofNames {
    /// The field of the struct.
    pub(crate) part: String,
    /// The method that reads it.
    pub(crate) reader: String,
    /// The method that empties it.
    pub(crate) clear: String,
}

impl<'a> Subject<'a> {
    /// The message `id`, seen from `scope`; `module` is the one that has what is within it.
    pub(crate) fn new(
        package: &'a Package<'a>,
        scope: &'a Scope,
        module: Option<&'a Scope>,
        id: MessageId,
    ) -> Subject<'a> {
        let message = package.schema.message(id);
        let layout = package.layouts.message(id);
        let mut parts = Allocator::without(&["unknown", "presence", "reserved"]);
        let mut methods = Allocator::default();
        let mut members: Vec<Member<'_>> = Vec::with_capacity(message.fields().len());
        for (field, layout) in message.fields().iter().zip(&layout.fields) {
            let made = |base: &str| methods_of(field, base);
            let base = methods.take_all(base(field.name()), made);
            let part = match field.oneof() {
                Some(_) => String::new(),
                None => parts.take(snake(field.name())),
            };
            members.push(Member { field, layout: *layout, part, base });
        }
        let names = message.oneofs().iter().map(|oneof| {
            let clear = |base: &str| around("clear_", base, "");
            let made = |base: &str| vec![reader(base), clear(base)];
            let base = methods.take_all(base(oneof.name()), made);
            let part = parts.take(snake(oneof.name()));
            OneofNames { part, clear: clear(&base), reader: reader(&base) }
        });
        let oneofs: Vec<OneofNames> = names.collect();
        for member in &mut members {
            if let Some(index) = member.field.oneof() {
                member.part = oneofs[index.index()].part.clone();
            }
        }
        Subject { package, scope, module, id, message, layout, members, oneofs }
    }

    /// The message's type.
    pub(crate) fn name(&self) -> String {
        self.package.message(self.id, self.scope)
    }

    /// The type of its cursor.
    pub(crate) fn cursor(&self) -> String {
        self.package.cursor(self.id, self.scope)
    }

    /// The type that its `Msg` dereferences to.
    pub(crate) fn owner(&self) -> String {
        self.package.owner(self.id, self.scope)
    }

    /// Its plain struct.
    pub(crate) fn owned(&self) -> String {
        self.package.owned(self.id, self.scope)
    }

    /// The module of what is within a message that has oneofs.
    pub(crate) fn module(&self) -> &'a Scope {
        self.module.expect("a message with oneofs has a module for their enums")
    }

    /// The members of a oneof.
    pub(crate) fn oneof_members(&self, oneof: usize) -> impl Iterator<Item = &Member<'a>> {
        let is_in = move |member: &&Member<'_>| {
            member.field.oneof().is_some_and(|index| index.index() == oneof)
        };
        self.members.iter().filter(is_in)
    }

    /// The type of one value as stored in a struct, a list or a map.
    pub(crate) fn stored(&self, kind: Kind) -> String {
        let name = match kind {
            Kind::Double => "f64",
            Kind::Float => "f32",
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "i32",
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "i64",
            Kind::Uint32 | Kind::Fixed32 => "u32",
            Kind::Uint64 | Kind::Fixed64 => "u64",
            Kind::Bool => "bool",
            Kind::String => "rt::Text",
            Kind::Bytes => "rt::Blob",
            Kind::Enum(id) => return self.package.enumeration(id, self.scope),
            Kind::Message(id) => return self.package.message(id, self.scope),
        };
        name.to_owned()
    }

    /// The type of one value as a getter returns it, borrowed for `lifetime`, which is empty or
    /// ends with a blank.
    pub(crate) fn read(&self, kind: Kind, lifetime: &str) -> String {
        match kind {
            Kind::String => format!("&{lifetime}str"),
            Kind::Bytes => format!("&{lifetime}[u8]"),
            Kind::Message(_) => format!("&{lifetime}{}", self.stored(kind)),
            _ => self.stored(kind),
        }
    }

    /// The type of a field's part.
    pub(crate) fn part_type(&self, member: &Member<'_>) -> String {
        let kind = member.field.kind();
        let stored = self.stored(kind);
        match (member.field.cardinality(), member.layout.part) {
            (Cardinality::Map { key }, _) => format!("rt::Map<{}, {stored}>", self.stored(key)),
            (Cardinality::Repeated { .. }, _) => format!("rt::List<{stored}>"),
            (_, Part::Link) => format!("rt::Link<{stored}>"),
            _ => stored,
        }
    }

    /// The zero of a scalar.
    pub(crate) fn zero(&self, kind: Kind) -> String {
        match kind {
            Kind::Bool => "false".to_owned(),
            Kind::Double | Kind::Float => "0.0".to_owned(),
            Kind::Enum(_) => format!("{}(0)", self.stored(kind)),
            _ => "0".to_owned(),
        }
    }

    /// The field's declaration in its .proto file, as a code span.
    pub(crate) fn declaration(&self, field: &Field) -> String {
        let kind = self.declared(field.kind());
        let (name, number) = (field.name(), field.number());
        match field.cardinality() {
            Cardinality::Map { key } => {
                format!("`map<{}, {kind}> {name} = {number}`", self.declared(key))
            }
            Cardinality::Repeated { .. } => format!("`repeated {kind} {name} = {number}`"),
            Cardinality::Optional if field.kind().message().is_none() => {
                format!("`optional {kind} {name} = {number}`")
            }
            _ => format!("`{kind} {name} = {number}`"),
        }
    }

    fn declared(&self, kind: Kind) -> String {
        let schema = self.package.schema;
        let of_package = |full: &str, package: &str, local: &str| {
            let full = if package == self.message.package() { local } else { full };
            full.to_owned()
        };
        match kind {
            Kind::Enum(id) => {
                let item = schema.enumeration(id);
                of_package(item.full_name(), item.package(), item.local_name())
            }
            Kind::Message(id) => {
                let item = schema.message(id);
                of_package(item.full_name(), item.package(), item.local_name())
            }
            scalar => format!("{scalar:?}").to_ascii_lowercase(),
        }
    }
}

impl Member<'_> {
    /// The method that reads it; a oneof's is another.
    pub(crate) fn reader(&self) -> String {
        reader(&self.base)
    }

    /// `before` is "has_", "set_" or "clear_".
    pub(crate) fn method(&self, before: &str) -> String {
        around(before, &self.base, "")
    }

    /// The method that opens it for changes.
    pub(crate) fn editor(&self) -> String {
        around("", &self.base, "_mut")
    }

    /// Whether it is one message.
    pub(crate) fn is_link(&self) -> bool {
        self.layout.part == Part::Link
    }
}

/// The name of a field's getter: the field's name, unless that is a keyword or `new`.
fn reader(base: &str) -> String {
    if base == "new" { "new_".to_owned() } else { unkeyword(base.to_owned()) }
}

/// The names of all the methods that a field gets.
fn methods_of(field: &Field, base: &str) -> Vec<String> {
    let reader = reader(base);
    let editor = around("", base, "_mut");
    let [has, set, clear] = ["has_", "set_", "clear_"].map(|verb| around(verb, base, ""));
    let mut names = match field.cardinality() {
        Cardinality::Implicit => vec![reader, set],
        Cardinality::Optional => vec![reader, has, set, clear],
        Cardinality::Oneof(_) => vec![set],
        Cardinality::Repeated { .. } | Cardinality::Map { .. } => return vec![reader, editor],
    };
    if field.kind().message().is_some() {
        names.push(editor);
    }
    names
}
