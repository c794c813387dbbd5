//! A JSON text with every field of a message, for people to fill in.

use petasos_schema::{Cardinality, Field, Kind, MessageId, Schema};

use super::parse_known;

/// Deeper messages are left out, as are those within themselves.
const DEPTH_MAX: usize = 16;

/// Messages are left out once the text is longer: a few that each have two others take as much
/// text as one likes.
const TEXT_BYTES_MAX: usize = 1 << 18;

/// JSON of a message of the schema that shows each field with its default value: lists and maps
/// have one element, oneofs their first field. It is indented, and reads as a message again.
pub fn json_template(schema: &Schema, id: MessageId) -> String {
    let mut template = Template { schema, text: String::new(), open: Vec::new() };
    template.message(id);
    template.text
}

struct Template<'s> {
    schema: &'s Schema,
    text: String,
    /// The messages that the next one is in.
    open: Vec<MessageId>,
}

impl Template<'_> {
    fn message(&mut self, id: MessageId) {
        let message = self.schema.message(id);
        if let Some(text) = known(message.full_name()) {
            return self.text.push_str(text);
        }
        self.open.push(id);
        let mut oneofs = vec![false; message.oneofs().len()];
        let mut is_first = true;
        for field in message.fields() {
            if let Some(index) = field.oneof()
                && std::mem::replace(&mut oneofs[index.index()], true)
            {
                continue;
            }
            let begin = if is_first { "{\n" } else { ",\n" };
            is_first = false;
            self.text.push_str(begin);
            self.indent();
            self.text.push_str(&format!("\"{}\": ", field.json_name()));
            self.field(field);
        }
        self.open.pop();
        if is_first {
            return self.text.push_str("{}");
        }
        self.text.push('\n');
        self.indent();
        self.text.push('}');
    }

    fn field(&mut self, field: &Field) {
        let is_left_out = field.kind().message().is_some_and(|id| self.is_left_out(id));
        match field.cardinality() {
            Cardinality::Repeated { .. } if is_left_out => self.text.push_str("[]"),
            Cardinality::Map { .. } if is_left_out => self.text.push_str("{}"),
            _ if is_left_out => self.text.push_str("null"),
            Cardinality::Repeated { .. } => {
                self.text.push('[');
                self.value(field.kind());
                self.text.push(']');
            }
            Cardinality::Map { key } => {
                let key = match key {
                    Kind::String => "",
                    Kind::Bool => "false",
                    _ => "0",
                };
                self.text.push_str(&format!("{{\"{key}\": "));
                self.value(field.kind());
                self.text.push('}');
            }
            _ => self.value(field.kind()),
        }
    }

    fn is_left_out(&self, id: MessageId) -> bool {
        let is_long = self.open.len() >= DEPTH_MAX || self.text.len() >= TEXT_BYTES_MAX;
        is_long || self.open.contains(&id)
    }

    fn value(&mut self, kind: Kind) {
        let text = match kind {
            Kind::Message(id) => return self.message(id),
            Kind::Enum(_) if parse_known::takes_null(self.schema, kind) => "null",
            Kind::Enum(id) => {
                let zero = self.schema.enumeration(id).value(0);
                let name = zero.map(|value| value.name()).unwrap_or_default();
                return self.text.push_str(&format!("\"{name}\""));
            }
            Kind::String | Kind::Bytes => "\"\"",
            Kind::Bool => "false",
            // 64 bits are text in JSON.
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => "\"0\"",
            _ => "0",
        };
        self.text.push_str(text);
    }

    /// Blanks for what is in the messages that are open.
    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n(' ', 2 * self.open.len()));
    }
}

/// The types of `google/protobuf` with forms of their own.
fn known(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => "\"1970-01-01T00:00:00Z\"",
        "Duration" => "\"0s\"",
        "FieldMask" | "StringValue" | "BytesValue" => "\"\"",
        "Struct" | "Any" => "{}",
        "ListValue" => "[]",
        "Value" => "null",
        "BoolValue" => "false",
        "Int64Value" | "UInt64Value" => "\"0\"",
        "DoubleValue" | "FloatValue" | "Int32Value" | "UInt32Value" => "0",
        _ => return None,
    })
}
