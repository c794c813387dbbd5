//! Fields by their names.

use std::sync::Arc;

use petasos_schema::{Cardinality, Field, Kind, Message, MessageId, Schema};
use thiserror::Error;

use super::Types;
use crate::Value;
use crate::arena::Object;
use crate::plan::Op;
use crate::reflect::{is_shown, leaf};

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
#[derive(Clone, Debug)]
pub struct FieldPath {
    /// Where the steps were looked up.
    types: Arc<Types>,
    root: MessageId,
    /// At least one. All but the last lead to messages.
    steps: Box<[Step]>,
    kind: Kind,
}

/// A field on the way.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: Op,
    /// Of the struct of the message that it leads to; 0 if it is the last.
    struct_bytes: u32,
}

impl FieldPath {
    /// The path `names` in messages with this id.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn new(types: &Arc<Types>, root: MessageId, names: &str) -> Result<FieldPath, PathError> {
        let (mut steps, mut id) = (Vec::new(), root);
        let mut names = names.split('.').peekable();
        loop {
            let name = names.next().expect("there is a name: a last one ends the loop");
            let (message, plan) = (types.schema().message(id), types.plan(id));
            let field = single(message, name)?;
            let at = plan.find(field.number()).expect("plans have all fields");
            let op = plan.ops()[at];
            match (field.kind(), names.peek()) {
                (Kind::Message(_), None) => return Err(not_single(message, name)),
                (Kind::Message(next), Some(_)) => {
                    steps.push(Step { op, struct_bytes: types.plan(next).bytes() });
                    id = next;
                }
                (kind, None) => {
                    steps.push(Step { op, struct_bytes: 0 });
                    return Ok(FieldPath { types: types.clone(), root, steps: steps.into(), kind });
                }
                (_, Some(_)) => {
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
        let names = self.numbers().map(|number| {
            let field = message.field(number).expect("a path of this schema");
            if let Kind::Message(id) = field.kind() {
                message = schema.message(id);
            }
            field.name()
        });
        names.collect::<Vec<_>>().join(".")
    }

    /// The fields' numbers.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.steps.iter().map(|step| step.op.number)
    }

    /// Whether the steps were looked up in the plans of these types.
    #[inline]
    pub(super) fn is_of(&self, types: &Arc<Types>) -> bool {
        Arc::ptr_eq(&self.types, types)
    }

    /// The value at the end of the path, from a struct of the type that it begins in, with the
    /// plans that it [is of](FieldPath::is_of).
    #[inline]
    pub(super) fn value<'a>(&self, root: Object<'a>) -> Option<Value<'a>> {
        let (last, links) = self.steps.split_last().expect("a path has a name");
        let mut object = root;
        for Step { op, struct_bytes } in links {
            if !is_shown(object, op) {
                return None;
            }
            object = object.follow(op.offset, *struct_bytes)?;
        }
        is_shown(object, &last.op).then(|| leaf(self.kind, object, last.op.offset))
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
