//! Reads a `FileDescriptorSet`. The numbers are the fields' in `descriptor.proto`.

use super::wire::{Fields, Value};
use super::{Enum, Field, File, Location, Message, Method, Service};
use crate::error::LoadError;
use crate::limits::Limits;

/// The files of an encoded set.
pub(crate) fn read<'a>(input: &'a [u8], limits: &Limits) -> Result<Vec<File<'a>>, LoadError> {
    if input.len() > limits.bytes_max {
        return Err(LoadError::TooLarge { what: "bytes", max: limits.bytes_max });
    }
    let mut reader = Reader { limits, elements: 0 };
    let mut files = Vec::new();
    let mut fields = Fields::new(input);
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Bytes(body)) = (number, value) {
            files.push(reader.file(body)?);
        }
    }
    Ok(files)
}

struct Reader<'l> {
    limits: &'l Limits,
    elements: usize,
}

impl Reader<'_> {
    /// Counts one more element, before it is stored.
    fn count(&mut self) -> Result<(), LoadError> {
        self.elements += 1;
        match self.elements > self.limits.elements_max {
            true => Err(LoadError::TooLarge { what: "elements", max: self.limits.elements_max }),
            false => Ok(()),
        }
    }

    fn file<'a>(&mut self, mut fields: Fields<'a>) -> Result<File<'a>, LoadError> {
        self.count()?;
        let mut file = File::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => file.name = name.text()?,
                (2, Value::Bytes(package)) => file.package = package.text()?,
                (4, Value::Bytes(body)) => file.messages.push(self.message(body, 1)?),
                (5, Value::Bytes(body)) => file.enums.push(self.enumeration(body)?),
                (6, Value::Bytes(body)) => file.services.push(self.service(body)?),
                (9, Value::Bytes(body)) => self.locations(body, &mut file.locations)?,
                (12, Value::Bytes(syntax)) => file.syntax = syntax.text()?,
                (14, Value::Varint(edition)) => file.has_edition = edition != 0,
                _ => {}
            }
        }
        Ok(file)
    }

    fn message<'a>(
        &mut self,
        mut fields: Fields<'a>,
        depth: usize,
    ) -> Result<Message<'a>, LoadError> {
        self.count()?;
        if depth > self.limits.depth_max {
            let max = self.limits.depth_max;
            return Err(LoadError::TooLarge { what: "levels of nested messages", max });
        }
        let mut message = Message::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => message.name = name.text()?,
                (2, Value::Bytes(body)) => message.fields.push(self.field(body)?),
                (3, Value::Bytes(body)) => message.nested.push(self.message(body, depth + 1)?),
                (4, Value::Bytes(body)) => message.enums.push(self.enumeration(body)?),
                (7, Value::Bytes(options)) => {
                    set(options, 7, |value| message.is_map_entry = value != 0)?;
                }
                (8, Value::Bytes(body)) => message.oneofs.push(self.named(body)?),
                _ => {}
            }
        }
        Ok(message)
    }

    fn field<'a>(&mut self, mut fields: Fields<'a>) -> Result<Field<'a>, LoadError> {
        self.count()?;
        let mut field = Field::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => field.name = name.text()?,
                (3, Value::Varint(number)) => field.number = int32(number),
                (4, Value::Varint(label)) => field.label = int32(label),
                (5, Value::Varint(kind)) => field.kind = int32(kind),
                (6, Value::Bytes(name)) => field.type_name = name.text()?,
                (7, Value::Bytes(_)) => field.has_default = true,
                (8, Value::Bytes(options)) => {
                    set(options, 2, |value| field.packed = Some(value != 0))?;
                }
                (9, Value::Varint(index)) => field.oneof = Some(int32(index)),
                (10, Value::Bytes(name)) => field.json_name = name.text()?,
                (17, Value::Varint(value)) => field.is_proto3_optional = value != 0,
                _ => {}
            }
        }
        Ok(field)
    }

    fn enumeration<'a>(&mut self, mut fields: Fields<'a>) -> Result<Enum<'a>, LoadError> {
        self.count()?;
        let mut item = Enum::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => item.name = name.text()?,
                (2, Value::Bytes(body)) => {
                    let name = self.named(body)?;
                    let mut number = 0;
                    set(body, 2, |value| number = int32(value))?;
                    item.values.push((name, number));
                }
                _ => {}
            }
        }
        Ok(item)
    }

    fn service<'a>(&mut self, mut fields: Fields<'a>) -> Result<Service<'a>, LoadError> {
        self.count()?;
        let mut service = Service::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => service.name = name.text()?,
                (2, Value::Bytes(body)) => service.methods.push(self.method(body)?),
                _ => {}
            }
        }
        Ok(service)
    }

    fn method<'a>(&mut self, mut fields: Fields<'a>) -> Result<Method<'a>, LoadError> {
        self.count()?;
        let mut method = Method::default();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => method.name = name.text()?,
                (2, Value::Bytes(name)) => method.input = name.text()?,
                (3, Value::Bytes(name)) => method.output = name.text()?,
                (4, Value::Bytes(options)) => {
                    set(options, 34, |value| method.idempotency = value)?;
                }
                (5, Value::Varint(value)) => method.client_streaming = value != 0,
                (6, Value::Varint(value)) => method.server_streaming = value != 0,
                _ => {}
            }
        }
        Ok(method)
    }

    fn locations<'a>(
        &mut self,
        mut fields: Fields<'a>,
        into: &mut Vec<Location<'a>>,
    ) -> Result<(), LoadError> {
        while let Some((number, value)) = fields.next()? {
            let (1, Value::Bytes(mut body)) = (number, value) else { continue };
            self.count()?;
            let empty = Fields::new(&[]);
            let mut location = Location { path: &[], span: empty, comment: "" };
            while let Some((number, value)) = body.next()? {
                match (number, value) {
                    (1, Value::Bytes(path)) => location.path = path.bytes(),
                    (2, Value::Bytes(span)) => location.span = span,
                    (3, Value::Bytes(comment)) => location.comment = comment.text()?,
                    _ => {}
                }
            }
            into.push(location);
        }
        Ok(())
    }

    /// An element of which only the name, field 1, matters.
    fn named<'a>(&mut self, mut fields: Fields<'a>) -> Result<&'a str, LoadError> {
        self.count()?;
        let mut name = "";
        while let Some((number, value)) = fields.next()? {
            if let (1, Value::Bytes(text)) = (number, value) {
                name = text.text()?;
            }
        }
        Ok(name)
    }
}

/// Gives `then` each value of the field `wanted` of a message whose other fields do not matter.
fn set(mut fields: Fields<'_>, wanted: u64, mut then: impl FnMut(u64)) -> Result<(), LoadError> {
    while let Some((number, value)) = fields.next()? {
        if let (true, Value::Varint(value)) = (number == wanted, value) {
            then(value);
        }
    }
    Ok(())
}

/// An `int32` or enum as it is on the wire: negative numbers take ten bytes, the rest is cut off.
fn int32(value: u64) -> i32 {
    value as u32 as i32
}
