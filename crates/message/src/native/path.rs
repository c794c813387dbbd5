//! Fields by their names.

use petasos_schema::{Cardinality, Field, Kind, Message, MessageId, Schema};
use thiserror::Error;

use super::Types;

/// A path that names no single value. The fault of whoever wrote it, or of another version of the
/// schema.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// A message has no field of this name.
    #[error("`{message}` has no field `{field}`")]
    Unknown {
        /// The message's full name.
        message: String,
        /// The part of the path.
        field: String,
    },
    /// A field before the last is no message.
    #[error("`{field}` of `{message}` is no message")]
    NotMessage {
        /// The message's full name.
        message: String,
        /// The part of the path.
        field: String,
    },
    /// A field is a list or a map, or the last one a message.
    #[error("`{field}` of `{message}` is not a single value")]
    NotSingle {
        /// The message's full name.
        message: String,
        /// The part of the path.
        field: String,
    },
}

/// The way from a message to a single value in it: names of fields with dots between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    root: MessageId,
    numbers: Box<[u32]>,
    kind: Kind,
}

impl FieldPath {
    /// The path `names` in messages with this id.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn new(types: &Types, root: MessageId, names: &str) -> Result<FieldPath, PathError> {
        let (mut numbers, mut message) = (Vec::new(), types.schema().message(root));
        let mut names = names.split('.').peekable();
        loop {
            let name = names.next().expect("there is a name: a last one ends the loop");
            let field = single(message, name)?;
            numbers.push(field.number());
            let is_last = names.peek().is_none();
            match field.kind() {
                Kind::Message(_) if is_last => return Err(not_single(message, name)),
                Kind::Message(id) => message = types.schema().message(id),
                kind if is_last => return Ok(FieldPath { root, numbers: numbers.into(), kind }),
                _ => {
                    let (message, field) = (message.full_name().to_owned(), name.to_owned());
                    return Err(PathError::NotMessage { message, field });
                }
            }
        }
    }

    /// The type of message that it begins in.
    pub fn root(&self) -> MessageId {
        self.root
    }

    /// The kind of value at its end.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of the path, by a schema that it was made for.
    pub fn names(&self, schema: &Schema) -> String {
        let mut message = schema.message(self.root);
        let names = self.numbers.iter().map(|number| {
            let field = message.field(*number).expect("a path of this schema");
            if let Kind::Message(id) = field.kind() {
                message = schema.message(id);
            }
            field.name()
        });
        names.collect::<Vec<_>>().join(".")
    }

    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

/// The field of a message with a name, if it has one value at most.
fn single<'a>(message: &'a Message, name: &str) -> Result<&'a Field, PathError> {
    let unknown =
        || PathError::Unknown { message: message.full_name().to_owned(), field: name.to_owned() };
    let field = message.field_by_name(name).ok_or_else(unknown)?;
    match field.cardinality() {
        Cardinality::Repeated { .. } | Cardinality::Map { .. } => Err(not_single(message, name)),
        _ => Ok(field),
    }
}

fn not_single(message: &Message, name: &str) -> PathError {
    PathError::NotSingle { message: message.full_name().to_owned(), field: name.to_owned() }
}
