//! Messages as JSON.

use std::fmt::Write;

use petasos_schema::{Cardinality, Field, Kind};

use super::{ToJson, ToJsonError, base64, print_known};
use crate::DEPTH_MAX;
use crate::reflect::{Reflect, Value};

pub(super) fn message(message: Reflect<'_>, how: &ToJson) -> Result<String, ToJsonError> {
    let mut printer = Printer { text: String::new(), how };
    printer.message(message, DEPTH_MAX)?;
    Ok(printer.text)
}

pub(super) struct Printer<'h> {
    pub(super) text: String,
    pub(super) how: &'h ToJson,
}

impl Printer<'_> {
    pub(super) fn message(&mut self, message: Reflect<'_>, depth: u32) -> Result<(), ToJsonError> {
        if print_known::message(self, message, depth)? {
            return Ok(());
        }
        self.text.push('{');
        self.fields(message, true, depth)?;
        self.text.push('}');
        Ok(())
    }

    /// A message within another.
    pub(super) fn nested(&mut self, message: Reflect<'_>, depth: u32) -> Result<(), ToJsonError> {
        self.message(message, depth.checked_sub(1).ok_or(ToJsonError::TooDeep)?)
    }

    /// The members of an object, of which some may be there already.
    pub(super) fn fields(
        &mut self,
        message: Reflect<'_>,
        mut is_first: bool,
        depth: u32,
    ) -> Result<(), ToJsonError> {
        for field in message.message().fields() {
            let Some(value) = self.shown(message, field) else { continue };
            if !std::mem::replace(&mut is_first, false) {
                self.text.push(',');
            }
            let name = if self.how.proto_names { field.name() } else { field.json_name() };
            self.string(name);
            self.text.push(':');
            self.value(message, value, depth)?;
        }
        Ok(())
    }

    /// The value of a field that is written.
    fn shown<'a>(&self, message: Reflect<'a>, field: &Field) -> Option<Value<'a>> {
        match self.how.defaults {
            true => message.field(field.number()),
            false => message.present(field.number()),
        }
    }

    /// A value in a message, whose schema names its enums.
    pub(super) fn value(
        &mut self,
        of: Reflect<'_>,
        value: Value<'_>,
        depth: u32,
    ) -> Result<(), ToJsonError> {
        match value {
            Value::Message(message) => return self.nested(message, depth),
            Value::List(list) => {
                self.text.push('[');
                for (index, element) in list.iter().enumerate() {
                    self.comma(index);
                    self.value(of, element, depth)?;
                }
                self.text.push(']');
            }
            Value::Map(map) => {
                self.text.push('{');
                for (index, (key, value)) in map.iter().enumerate() {
                    self.comma(index);
                    self.key(key);
                    self.text.push(':');
                    self.value(of, value, depth)?;
                }
                self.text.push('}');
            }
            value => self.leaf(of, value),
        }
        Ok(())
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.text.push(',');
        }
    }

    fn leaf(&mut self, of: Reflect<'_>, value: Value<'_>) {
        match value {
            Value::Bool(value) => self.plain(value),
            Value::I32(value) => self.plain(value),
            Value::U32(value) => self.plain(value),
            Value::I64(value) => self.quoted(value),
            Value::U64(value) => self.quoted(value),
            Value::F32(value) => self.float(value.is_finite(), f64::from(value), value),
            Value::F64(value) => self.float(value.is_finite(), value, value),
            Value::String(value) => self.string(value),
            Value::Bytes(value) => {
                self.text.push('"');
                base64::encode(value, &mut self.text);
                self.text.push('"');
            }
            Value::Enum(id, number) => {
                let declared = of.schema().enumeration(id);
                match declared.value(number) {
                    _ if declared.full_name() == print_known::NULL_VALUE => self.plain("null"),
                    Some(value) if !self.how.enum_numbers => self.string(value.name()),
                    _ => self.plain(number),
                }
            }
            Value::Message(_) | Value::List(_) | Value::Map(_) => {
                unreachable!("written by the caller")
            }
        }
    }

    fn plain(&mut self, value: impl std::fmt::Display) {
        write!(self.text, "{value}").expect("strings take all");
    }

    pub(super) fn quoted(&mut self, value: impl std::fmt::Display) {
        write!(self.text, "\"{value}\"").expect("strings take all");
    }

    /// In the shortest form that is read as the same; `shortest` has the value's own precision.
    fn float(&mut self, is_finite: bool, value: f64, shortest: impl std::fmt::Debug) {
        if is_finite {
            let from = self.text.len();
            write!(self.text, "{shortest:?}").expect("strings take all");
            if self.text[from..].ends_with(".0") {
                self.text.truncate(self.text.len() - 2);
            }
            return;
        }
        self.string(match value {
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ => "NaN",
        });
    }

    /// Keys are strings, whatever they are.
    fn key(&mut self, key: Value<'_>) {
        match key {
            Value::Bool(key) => self.quoted(key),
            Value::I32(key) => self.quoted(key),
            Value::U32(key) => self.quoted(key),
            Value::I64(key) => self.quoted(key),
            Value::U64(key) => self.quoted(key),
            Value::String(key) => self.string(key),
            _ => unreachable!("nothing else is a key"),
        }
    }

    pub(super) fn string(&mut self, value: &str) {
        self.text.push('"');
        let mut from = 0;
        for (at, byte) in value.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0..=0x1f => "",
                _ => continue,
            };
            self.text.push_str(&value[from..at]);
            from = at + 1;
            match escape {
                "" => write!(self.text, "\\u{byte:04x}").expect("strings take all"),
                escape => self.text.push_str(escape),
            }
        }
        self.text.push_str(&value[from..]);
        self.text.push('"');
    }
}

impl Reflect<'_> {
    /// Whether a field is a single value of a kind.
    pub(super) fn is_single(self, number: u32, kind: Kind) -> bool {
        let field = self.message().field(number);
        field.is_some_and(|field| {
            field.kind() == kind && field.cardinality() == Cardinality::Implicit
        })
    }
}
