//! Writes the compact form.

use super::FORMAT_VERSION;
use crate::check;
use crate::hashing::code;
use crate::model::{Cardinality, Enum, Field, Kind, Message, Name};
use crate::schema::Schema;
use crate::service::{Idempotency, Service};

impl Schema {
    /// The schema in its compact form, without comments, files and descriptors. Two schemas have
    /// the same bytes if and only if they are equal apart from those.
    pub fn encode(&self) -> Vec<u8> {
        let mut output = Output(vec![FORMAT_VERSION]);
        output.list(&self.enums, Output::enumeration);
        output.list(&self.messages, Output::message);
        output.list(&self.services, Output::service);
        output.0
    }
}

struct Output(Vec<u8>);

impl Output {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.byte(0x80 | (number & 0x7f) as u8);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    fn index(&mut self, index: usize) {
        self.number(index as u64);
    }

    fn text(&mut self, text: &str) {
        self.index(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], one: impl Fn(&mut Output, &T)) {
        self.index(items.len());
        items.iter().for_each(|item| one(self, item));
    }

    fn name(&mut self, name: &Name) {
        self.text(name.full());
        self.index(name.package().len());
    }

    fn enumeration(&mut self, item: &Enum) {
        self.name(&item.name);
        self.list(&item.values, |output, value| {
            output.number(u64::from((value.number << 1 ^ value.number >> 31) as u32));
            output.text(&value.name);
        });
    }

    fn message(&mut self, message: &Message) {
        self.name(&message.name);
        self.list(&message.oneofs, |output, oneof| output.text(&oneof.name));
        self.list(&message.fields, Output::field);
    }

    fn field(&mut self, field: &Field) {
        self.number(field.number.into());
        self.text(&field.name);
        let is_default = check::default_json_name(&field.name) == *field.json_name;
        self.text(if is_default { "" } else { &field.json_name });
        match field.cardinality {
            Cardinality::Implicit => self.byte(0),
            Cardinality::Optional => self.byte(1),
            Cardinality::Repeated { packed } => self.byte(2 + u8::from(packed)),
            Cardinality::Map { key } => {
                self.byte(4);
                self.byte(code(key));
            }
            Cardinality::Oneof(index) => {
                self.byte(5);
                self.index(index.index());
            }
        }
        self.byte(code(field.kind));
        match field.kind {
            Kind::Message(id) => self.index(id.index()),
            Kind::Enum(id) => self.index(id.index()),
            _ => {}
        }
    }

    fn service(&mut self, service: &Service) {
        self.name(&service.name);
        self.list(&service.methods, |output, method| {
            output.text(&method.name);
            output.index(method.input.index());
            output.index(method.output.index());
            let streams =
                u8::from(method.client_streaming) | u8::from(method.server_streaming) << 1;
            let idempotency = match method.idempotency {
                Idempotency::Unknown => 0,
                Idempotency::NoSideEffects => 1,
                Idempotency::Idempotent => 2,
            };
            output.byte(streams | idempotency << 2);
        });
    }
}
