//! The JSON mapping of proto3, by reflection: for people, gateways and logs.
//!
//! `print` writes and `parse` reads. The types of `google/protobuf` with special forms are in
//! `print_known` and `parse_known`. Types are recognised by their full names, and nothing is
//! assumed about their fields, since a schema may come from anywhere: a malformed `Timestamp` is an
//! error, not a panic. `Any` finds types in the schema of the message that contains it.
//!
//! Text from outside never causes a panic. The memory that it takes is bounded by the limits, and
//! by a multiple of its length.

mod base64;
mod parse;
mod parse_known;
mod path;
mod print;
mod print_known;
mod template;
mod text;
mod time;

pub use template::json_template;

use petasos_schema::{MessageId, Schema};
use thiserror::Error;

use crate::arena::Arena;
use crate::heap::Heap;
use crate::msg::Msg;
use crate::part::Message;
use crate::plan::Plans;
use crate::protobuf::{decode, encode};
use crate::reflect::Reflect;
use crate::{DecodeError, DecodeLimits, EncodeError, Image, Input};
use path::Path;

/// How messages are written as JSON. The default is what the mapping recommends.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToJson {
    /// Use the fields' names in the .proto file instead of their JSON names.
    pub proto_names: bool,
    /// Also print fields without presence that are zero or empty.
    pub defaults: bool,
    /// Print enums as numbers instead of names.
    pub enum_numbers: bool,
}

/// How messages are read from JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromJson {
    /// Whether to skip unknown fields and unknown names of enum values. Otherwise they are an
    /// error.
    pub ignore_unknown: bool,
}

/// Why a message cannot be printed as JSON. Its author is at fault, and no retry helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToJsonError {
    /// A value of a well-known type that its JSON form cannot express: a time out of range, a
    /// number of a `Value` that is not finite, a path that is not in snake case.
    #[error("a `{message}` has a value without a form in JSON")]
    Unprintable {
        /// The full name of the message that has it.
        message: Box<str>,
    },
    /// An `Any` is of a type that the schema does not have.
    #[error("an Any is of type `{name}`, which the schema does not have")]
    UnknownType {
        /// The type's name in the `Any`.
        name: Box<str>,
    },
    /// The bytes in an `Any` are not of its type.
    #[error("the contents of an Any: {0}")]
    Any(#[from] DecodeError),
    /// More than 100 levels of messages within messages.
    #[error("messages are nested more than 100 deep")]
    TooDeep,
}

/// Why a text is not a message. The sender's fault; the same text is refused again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FromJsonError {
    /// It is not JSON.
    #[error("not JSON, from byte {at} on")]
    Syntax {
        /// Where, in bytes from the begin of the text.
        at: usize,
    },
    /// The schema has no such field.
    #[error("no field `{name}`")]
    UnknownField {
        /// As in the text.
        name: Box<str>,
    },
    /// A field, a key or a member of a oneof occurs twice.
    #[error("`{name}` comes twice, or with another field of its oneof")]
    Duplicate {
        /// The field's name, or the key.
        name: Box<str>,
    },
    /// A value that its field cannot have.
    #[error("a value that `{field}` cannot have")]
    Value {
        /// The field's name, or that of a message.
        field: Box<str>,
    },
    /// An `Any` is of a type that the schema does not have.
    #[error("an Any is of type `{name}`, which the schema does not have")]
    UnknownType {
        /// As in the text.
        name: Box<str>,
    },
    /// More than 100 levels of messages within messages.
    #[error("messages are nested more than 100 deep")]
    TooDeep,
    /// The text, or the memory for its message, exceeds the limits.
    #[error("the message is larger than the limits allow")]
    TooLarge,
}

impl From<EncodeError> for FromJsonError {
    fn from(error: EncodeError) -> FromJsonError {
        match error {
            EncodeError::TooDeep => FromJsonError::TooDeep,
            _ => FromJsonError::TooLarge,
        }
    }
}

impl Reflect<'_> {
    /// The message as JSON. Unknown fields have no form there and are left out.
    ///
    /// # Errors
    /// If a well-known type has a value without a form in JSON.
    pub fn to_json(self, how: &ToJson) -> Result<String, ToJsonError> {
        print::message(self, how)
    }
}

impl<T: Message> Msg<T> {
    /// The message as JSON. Unknown fields have no form there and are left out.
    ///
    /// # Errors
    /// If a well-known type has a value without a form in JSON.
    pub fn to_json(this: &Msg<T>, how: &ToJson) -> Result<String, ToJsonError> {
        Reflect::of(Msg::get(this)).to_json(how)
    }

    /// Reads a message from JSON.
    ///
    /// # Errors
    /// The sender's fault, or a limit: the same text is refused again.
    pub fn from_json(
        text: &str,
        how: &FromJson,
        limits: &DecodeLimits,
    ) -> Result<Msg<T>, FromJsonError> {
        let arena = Arena::new_in(Heap::process_default());
        let module = T::TYPE.module;
        let (id, _) = module.message(T::TYPE.index);
        // Binds the type, so that what is written by plan is read by type (M9).
        T::plan();
        let types = Types { schema: module.schema(), plans: module.plans() };
        let path = &mut Path::default();
        let root = parse::message(types, id, text, (how, limits), &arena, path)?.at();
        assert!(arena.is_first(root), "the root is the arena's first object");
        // SAFETY: the plan is bound to the type.
        Ok(unsafe { Msg::rooted(arena) })
    }
}

/// A schema and the plans that were made for it.
#[derive(Clone, Copy)]
struct Types<'s> {
    schema: &'s Schema,
    plans: &'s Plans,
}

/// Prints a protobuf message, of a type that is known at run time, as JSON. `plans` are those of
/// `schema`, and `id` is a message of it.
///
/// # Errors
/// The bytes are no such message, or have a value without a form in JSON.
pub fn protobuf_to_json(
    schema: &Schema,
    plans: &Plans,
    id: MessageId,
    input: Input<'_>,
    limits: &DecodeLimits,
    how: &ToJson,
) -> Result<String, ToJsonError> {
    let arena = Arena::new_in(Heap::process_default());
    let object = decode(plans.message(id), &input, limits, &arena)?;
    Reflect::of_object(schema, plans, id, object).to_json(how)
}

/// Encodes a JSON message, of a type that is known at run time, as protobuf, after `room_bytes` for
/// the caller to fill. `plans` are those of `schema`, and `id` is a message of it.
///
/// # Errors
/// The text is no such message; the error says where.
pub fn json_to_protobuf(
    schema: &Schema,
    plans: &Plans,
    id: MessageId,
    text: &str,
    limits: &DecodeLimits,
    how: &FromJson,
    room_bytes: usize,
) -> Result<Image, LocatedError> {
    let arena = Arena::new_in(Heap::process_default());
    let (types, mut path) = (Types { schema, plans }, Path::default());
    let object = parse::message(types, id, text, (how, limits), &arena, &mut path);
    let object = object.map_err(|error| LocatedError::new(error, text, &path))?;
    // SAFETY: the message was written by this plan, and the arena lives.
    let encoded = unsafe { encode(plans.message(id), object, room_bytes, None) };
    encoded.map_err(|error| LocatedError::new(error.into(), text, &Path::default()))
}

/// What is wrong in a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}{}: {error}", within(path))]
pub struct LocatedError {
    /// What is wrong.
    pub error: FromJsonError,
    /// The field that is wrong, from the outermost message on, such as `stops[2].name`; empty if
    /// it is the text itself.
    pub path: String,
    /// The line in which it begins, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
}

fn within(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(", in `{path}`") }
}

impl LocatedError {
    #[cold]
    fn new(error: FromJsonError, text: &str, path: &Path) -> LocatedError {
        let at = match error {
            FromJsonError::Syntax { at } => at,
            _ => path.find(text),
        };
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        LocatedError { error, path: path.to_string(), line, column }
    }
}
