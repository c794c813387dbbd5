//! Declarations as text in the language of .proto files, for people to read.
//!
//! Fields are sorted by number and methods by name, as in the model. Types of other packages have
//! full names. Information that a [`Schema`] does not contain is missing: options, reservations.

use std::fmt::Write;

use crate::check::default_json_name;
use crate::ids::{EnumId, MessageId, ServiceId};
use crate::model::{Cardinality, Enum, Field, Kind, Message};
use crate::schema::Schema;
use crate::service::{Idempotency, Service};

impl Schema {
    /// The declaration of a message, with everything nested in it and with comments, as far as
    /// known. Ends with a newline.
    pub fn message_text(&self, id: MessageId) -> String {
        let message = self.message(id);
        let mut text = Text::new(self, message.package());
        text.message(message);
        text.out
    }

    /// The declaration of an enum, in the same form.
    pub fn enum_text(&self, id: EnumId) -> String {
        let item = self.enumeration(id);
        let mut text = Text::new(self, item.package());
        text.enumeration(item);
        text.out
    }

    /// The declaration of a service, in the same form.
    pub fn service_text(&self, id: ServiceId) -> String {
        let service = self.service(id);
        let mut text = Text::new(self, service.package());
        text.service(service);
        text.out
    }

    /// The declaration of a service's method, in the same form; `None` if the service has no method
    /// with this name.
    pub fn method_text(&self, id: ServiceId, method: &str) -> Option<String> {
        let service = self.service(id);
        service.method_by_name(method)?;
        let mut text = Text::new(self, service.package());
        text.method(service, method);
        Some(text.out)
    }
}

struct Text<'s> {
    schema: &'s Schema,
    package: &'s str,
    out: String,
    indent: usize,
}

impl<'s> Text<'s> {
    fn new(schema: &'s Schema, package: &'s str) -> Text<'s> {
        Text { schema, package, out: String::new(), indent: 0 }
    }

    fn line(&mut self, line: &str) {
        let width = if line.is_empty() { 0 } else { 2 * self.indent };
        writeln!(self.out, "{:width$}{line}", "").expect("strings take everything");
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    fn comment(&mut self, comment: &str) {
        for line in comment.lines() {
            self.line(format!("//{line}").trim_end());
        }
    }

    /// A type's name as code in this package has to write it.
    fn kind(&self, kind: Kind) -> String {
        let name = |package: &str, local: &str, full: &str| {
            if package == self.package { local.to_owned() } else { full.to_owned() }
        };
        match kind {
            Kind::Message(id) => {
                let message = self.schema.message(id);
                name(message.package(), message.local_name(), message.full_name())
            }
            Kind::Enum(id) => {
                let item = self.schema.enumeration(id);
                name(item.package(), item.local_name(), item.full_name())
            }
            scalar => format!("{scalar:?}").to_lowercase(),
        }
    }

    fn message(&mut self, message: &Message) {
        self.comment(message.comment());
        let name = last(message.local_name());
        let nested = self.nested(message);
        if message.fields().is_empty() && nested.is_empty() {
            return self.line(&format!("message {name} {{}}"));
        }
        self.open(&format!("message {name} {{"));
        let mut begun = vec![false; message.oneofs().len()];
        for field in message.fields() {
            match field.oneof() {
                None => self.field(field),
                Some(index) if !std::mem::replace(&mut begun[index.index()], true) => {
                    let oneof = message.oneof(index);
                    self.comment(oneof.comment());
                    self.open(&format!("oneof {} {{", oneof.name()));
                    message.oneof_fields(index).for_each(|field| self.field(field));
                    self.close();
                }
                Some(_) => {}
            }
        }
        for (at, item) in nested.iter().enumerate() {
            if at > 0 || !message.fields().is_empty() {
                self.line("");
            }
            match item {
                Nested::Message(message) => self.message(message),
                Nested::Enum(item) => self.enumeration(item),
            }
        }
        self.close();
    }

    /// The declarations directly within a message.
    fn nested(&self, outer: &Message) -> Vec<Nested<'s>> {
        let is_in = |name: &str| {
            let rest = name.strip_prefix(outer.full_name()).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !rest.contains('.'))
        };
        let messages = self.schema.messages().map(|(_, message)| message);
        let messages = messages.filter(|message| is_in(message.full_name()));
        let enums = self.schema.enums().map(|(_, item)| item);
        let enums = enums.filter(|item| is_in(item.full_name()));
        messages.map(Nested::Message).chain(enums.map(Nested::Enum)).collect()
    }

    fn field(&mut self, field: &Field) {
        self.comment(field.comment());
        let kind = self.kind(field.kind());
        let mut options = Vec::new();
        let kind = match field.cardinality() {
            Cardinality::Optional if field.kind().message().is_none() => format!("optional {kind}"),
            Cardinality::Implicit | Cardinality::Optional | Cardinality::Oneof(_) => kind,
            Cardinality::Repeated { packed } => {
                if !packed && field.kind().is_packable() {
                    options.push("packed = false".to_owned());
                }
                format!("repeated {kind}")
            }
            Cardinality::Map { key } => format!("map<{}, {kind}>", self.kind(key)),
        };
        if default_json_name(field.name()) != field.json_name() {
            options.push(format!("json_name = {:?}", field.json_name()));
        }
        let options = match options.is_empty() {
            true => String::new(),
            false => format!(" [{}]", options.join(", ")),
        };
        self.line(&format!("{kind} {} = {}{options};", field.name(), field.number()));
    }

    fn enumeration(&mut self, item: &Enum) {
        self.comment(item.comment());
        self.open(&format!("enum {} {{", last(item.local_name())));
        if item.values().windows(2).any(|pair| pair[0].number() == pair[1].number()) {
            self.line("option allow_alias = true;");
        }
        let (zero, others): (Vec<_>, Vec<_>) = item.values().iter().partition(|v| v.number() == 0);
        for value in zero.into_iter().chain(others) {
            self.comment(value.comment());
            self.line(&format!("{} = {};", value.name(), value.number()));
        }
        self.close();
    }

    fn service(&mut self, service: &Service) {
        self.comment(service.comment());
        if service.methods().is_empty() {
            return self.line(&format!("service {} {{}}", service.local_name()));
        }
        self.open(&format!("service {} {{", service.local_name()));
        for method in service.methods() {
            self.method(service, method.name());
        }
        self.close();
    }

    fn method(&mut self, service: &Service, name: &str) {
        let method = service.method_by_name(name).expect("the caller has looked");
        self.comment(method.comment());
        let side = |streams: bool, id| {
            format!("({}{})", if streams { "stream " } else { "" }, self.kind(Kind::Message(id)))
        };
        let request = side(method.client_streaming(), method.input());
        let response = side(method.server_streaming(), method.output());
        let head = format!("rpc {name}{request} returns {response}");
        let level = match method.idempotency() {
            Idempotency::Unknown => return self.line(&format!("{head};")),
            Idempotency::NoSideEffects => "NO_SIDE_EFFECTS",
            Idempotency::Idempotent => "IDEMPOTENT",
        };
        self.open(&format!("{head} {{"));
        self.line(&format!("option idempotency_level = {level};"));
        self.close();
    }
}

enum Nested<'s> {
    Message(&'s Message),
    Enum(&'s Enum),
}

/// The last part of a name with dots.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
