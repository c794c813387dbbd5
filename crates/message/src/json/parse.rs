//! Messages from JSON: a tree is read, and then written by plan.

use std::borrow::Cow;

use petasos_schema::{Cardinality, Field, Kind, MessageId};

use super::text::{self, Json};
use super::{FromJson, FromJsonError, Path, Types, base64, parse_known};
use crate::arena::Object;
use crate::arena::{Arena, rounded};
use crate::plan::{Op, Plan, Shape};
use crate::{DEPTH_MAX, DecodeLimits};

pub(super) type Result<T> = std::result::Result<T, FromJsonError>;

/// Reads `text` as message `id` into an arena that is otherwise empty. In `path` it leaves where it
/// came to.
pub(super) fn message<'a>(
    types: Types<'_>,
    id: MessageId,
    text: &str,
    (how, limits): (&FromJson, &DecodeLimits),
    arena: &'a Arena,
    path: &mut Path,
) -> Result<Object<'a>> {
    if text.len() > limits.message_bytes_max {
        return Err(FromJsonError::TooLarge);
    }
    let json = text::parse(text)?;
    let left = limits.memory_bytes_max;
    let mut parser = Parser { types, how, arena, left, path: Path::default() };
    let root = parser.object(u64::from(types.plans.message(id).bytes()))?;
    let read = parser.message(id, root, &json, DEPTH_MAX);
    *path = parser.path;
    read.map(|()| root)
}

pub(super) struct Parser<'s, 'a> {
    pub(super) types: Types<'s>,
    pub(super) how: &'s FromJson,
    arena: &'a Arena,
    /// Bytes that may still be taken from the arena.
    pub(super) left: usize,
    /// What is being read; after an error, what is wrong.
    pub(super) path: Path,
}

/// A field that has a value that it cannot have.
pub(super) fn wrong(field: &str) -> FromJsonError {
    FromJsonError::Value { field: field.into() }
}

impl<'s, 'a> Parser<'s, 'a> {
    /// One for a message that is kept apart, with what is left of the same limits.
    pub(super) fn within<'b>(&self, arena: &'b Arena) -> Parser<'s, 'b> {
        let path = Path::default();
        Parser { types: self.types, how: self.how, arena, left: self.left, path }
    }

    /// A zeroed struct or array.
    pub(super) fn object(&mut self, bytes: u64) -> Result<Object<'a>> {
        self.charge(bytes)?;
        Ok(self.arena.object(bytes as u32))
    }

    /// Takes `bytes` from what is left; they fit 31 bits then.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        let left = (self.left as u64).checked_sub(bytes.next_multiple_of(8));
        let left = left.filter(|_| bytes <= u64::from(u32::MAX / 2));
        self.left = left.ok_or(FromJsonError::TooLarge)? as usize;
        Ok(())
    }

    /// Fills an empty message.
    pub(super) fn message(
        &mut self,
        id: MessageId,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        if parse_known::message(self, id, object, json, depth)? {
            return Ok(());
        }
        match json {
            Json::Object(members) => self.fields(id, object, members, depth),
            _ => Err(wrong(self.types.schema.message(id).full_name())),
        }
    }

    pub(super) fn fields(
        &mut self,
        id: MessageId,
        object: Object<'a>,
        members: &[(Cow<'_, str>, Json<'_>)],
        depth: u32,
    ) -> Result<()> {
        let message = self.types.schema.message(id);
        let mut seen = vec![false; message.fields().len()];
        for (name, json) in members {
            let names = |field: &Field| field.json_name() == name || field.name() == name;
            self.path.enter_member(name);
            let Some(at) = message.fields().iter().position(names) else {
                if self.how.ignore_unknown {
                    self.path.leave();
                    continue;
                }
                return Err(FromJsonError::UnknownField { name: name.as_ref().into() });
            };
            if std::mem::replace(&mut seen[at], true) {
                return Err(FromJsonError::Duplicate { name: name.as_ref().into() });
            }
            self.field(id, at, object, json, depth)?;
            self.path.leave();
        }
        Ok(())
    }

    /// Sets the field with a number, if there is one; `json` is judged by what the field is.
    pub(super) fn set(
        &mut self,
        id: MessageId,
        number: u32,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        let message = self.types.schema.message(id);
        let at = message.fields().iter().position(|field| field.number() == number);
        self.field(id, at.ok_or_else(|| wrong(message.full_name()))?, object, json, depth)
    }

    fn field(
        &mut self,
        id: MessageId,
        at: usize,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        let field = &self.types.schema.message(id).fields()[at];
        let plan = self.types.plans.message(id);
        let op = &plan.ops()[at];
        if *json == Json::Null && !self.takes_null(field) {
            return Ok(());
        }
        match field.cardinality() {
            Cardinality::Repeated { .. } => self.list(field, op, object, json, depth),
            Cardinality::Map { key } => self.map(plan, field, key, op, object, json, depth),
            _ => self.single(field, op, object, json, depth),
        }
    }

    /// Whether `null` is a value of a field, and not its absence.
    fn takes_null(&self, field: &Field) -> bool {
        let is_single =
            !matches!(field.cardinality(), Cardinality::Repeated { .. } | Cardinality::Map { .. });
        is_single && parse_known::takes_null(self.types.schema, field.kind())
    }

    fn single(
        &mut self,
        field: &Field,
        op: &Op,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        let word = |offset| u32::from_le_bytes(object.load(offset));
        if op.shape == Shape::Oneof && word(op.oneof_offset) != 0 {
            return Err(FromJsonError::Duplicate { name: field.name().into() });
        }
        let is_set = match field.kind() {
            Kind::Message(id) => {
                let inner = self.object(u64::from(self.types.plans.message(id).bytes()))?;
                object.link(op.offset, inner);
                self.nested(id, inner, json, depth)?;
                true
            }
            kind => self.leaf(field, kind, object, op.offset, json)?,
        };
        match op.shape {
            Shape::Oneof if is_set => object.store(op.oneof_offset, op.number.to_le_bytes()),
            Shape::Present if is_set && op.kind.bytes().is_some() => {
                let bits = word(op.oneof_offset) | 1 << (op.presence_bit % 32);
                object.store(op.oneof_offset, bits.to_le_bytes());
            }
            _ => {}
        }
        Ok(())
    }

    fn nested(
        &mut self,
        id: MessageId,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        self.message(id, object, json, depth.checked_sub(1).ok_or(FromJsonError::TooDeep)?)
    }

    /// An element or an entry's value: messages lie there whole. `false` if it is skipped.
    fn element(
        &mut self,
        field: &Field,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<bool> {
        if *json == Json::Null && !parse_known::takes_null(self.types.schema, field.kind()) {
            return Err(wrong(field.name()));
        }
        match field.kind() {
            Kind::Message(id) => self.nested(id, object, json, depth).map(|()| true),
            kind => self.leaf(field, kind, object, 0, json),
        }
    }

    fn list(
        &mut self,
        field: &Field,
        op: &Op,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        let Json::Array(values) = json else { return Err(wrong(field.name())) };
        let element_bytes = match field.kind() {
            Kind::Message(id) => self.types.plans.message(id).bytes(),
            _ => op.kind.bytes().expect("all but messages have a fixed size"),
        };
        if values.is_empty() {
            return Ok(());
        }
        let array = self.object(values.len() as u64 * u64::from(element_bytes))?;
        let mut len = 0;
        for (index, json) in values.iter().enumerate() {
            let element = array.part(len * element_bytes, element_bytes);
            self.path.enter_element(index);
            len += u32::from(self.element(field, element, json, depth)?);
            self.path.leave();
        }
        object.point(op.offset, array, len, values.len() as u32);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a map's kinds are in three places")]
    fn map(
        &mut self,
        plan: Plan<'_>,
        field: &Field,
        key_kind: Kind,
        op: &Op,
        object: Object<'a>,
        json: &Json<'_>,
        depth: u32,
    ) -> Result<()> {
        let Json::Object(members) = json else { return Err(wrong(field.name())) };
        let entry = plan.entry_of(op);
        let mut sorted = Vec::with_capacity(members.len());
        for (name, value) in members {
            self.path.enter_member(name);
            let key = Key::parse(key_kind, name).ok_or_else(|| wrong(field.name()))?;
            self.path.leave();
            sorted.push((key, name, value));
        }
        sorted.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(FromJsonError::Duplicate { name: pair[0].0.name().into() });
        }
        if sorted.is_empty() {
            return Ok(());
        }
        let array = self.object(sorted.len() as u64 * u64::from(entry.bytes))?;
        let mut len = 0;
        for (key, name, json) in &sorted {
            let at = array.part(len * entry.bytes, entry.bytes);
            let value = at.part(entry.value.offset, entry.bytes - entry.value.offset);
            let value = match field.kind() {
                Kind::Message(id) => value.part(0, self.types.plans.message(id).bytes()),
                _ => value,
            };
            self.path.enter_member(name);
            if self.element(field, value, json, depth)? {
                self.key(key, at)?;
                len += 1;
            }
            self.path.leave();
        }
        object.point(op.offset, array, len, sorted.len() as u32);
        Ok(())
    }

    fn key(&mut self, key: &Key<'_>, at: Object<'a>) -> Result<()> {
        match key {
            Key::Text(text) => self.bytes(at, 0, text.as_bytes())?,
            Key::Number { bytes: 1, value } => at.store(0, [*value as u8]),
            Key::Number { bytes: 4, value } => at.store(0, (*value as u32).to_le_bytes()),
            Key::Number { value, .. } => at.store(0, (*value as u64).to_le_bytes()),
        }
        Ok(())
    }

    /// Sets a string or bytes.
    pub(super) fn bytes(&mut self, object: Object<'a>, offset: u32, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.charge(bytes.len() as u64)?;
            let leaf = self.arena.leaf(bytes);
            object.point(offset, leaf, leaf.bytes(), rounded(leaf.bytes()) as u32);
        }
        Ok(())
    }

    /// A value that is no message. `false` if it is an enum's name that is to be ignored.
    fn leaf(
        &mut self,
        field: &Field,
        kind: Kind,
        object: Object<'a>,
        offset: u32,
        json: &Json<'_>,
    ) -> Result<bool> {
        let bad = || wrong(field.name());
        match (kind, json) {
            (Kind::String, Json::String(text)) => self.bytes(object, offset, text.as_bytes())?,
            (Kind::Bytes, Json::String(text)) => {
                let bytes = base64::decode(text).ok_or_else(bad)?;
                self.bytes(object, offset, &bytes)?;
            }
            (Kind::Bool, Json::Bool(value)) => object.store(offset, [u8::from(*value)]),
            (Kind::Enum(_), Json::Null) => {}
            (Kind::Enum(id), Json::String(name)) => {
                let declared = self.types.schema.enumeration(id).value_by_name(name);
                match declared {
                    Some(value) => object.store(offset, value.number().to_le_bytes()),
                    None if self.how.ignore_unknown => return Ok(false),
                    None => return Err(bad()),
                }
            }
            (_, Json::Number(text) | Json::String(text)) => {
                number(kind, text, object, offset).ok_or_else(bad)?;
            }
            _ => return Err(bad()),
        }
        Ok(true)
    }
}

/// Sets a number from its text; `None` if it is none, or out of range.
fn number(kind: Kind, text: &str, object: Object<'_>, offset: u32) -> Option<()> {
    match kind {
        Kind::Double => object.store(offset, float(text, f64::is_infinite)?.to_le_bytes()),
        Kind::Float => object.store(offset, float(text, f32::is_infinite)?.to_le_bytes()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => {
            object.store(offset, i32::try_from(integer(text)?).ok()?.to_le_bytes());
        }
        Kind::Uint32 | Kind::Fixed32 => {
            object.store(offset, u32::try_from(integer(text)?).ok()?.to_le_bytes());
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            object.store(offset, i64::try_from(integer(text)?).ok()?.to_le_bytes());
        }
        Kind::Uint64 | Kind::Fixed64 => {
            object.store(offset, u64::try_from(integer(text)?).ok()?.to_le_bytes());
        }
        Kind::Bool | Kind::String | Kind::Bytes | Kind::Message(_) => return None,
    }
    Some(())
}

/// A whole number, however it is written; more than 2^53 only without point and exponent.
fn integer(text: &str) -> Option<i128> {
    /// Up to here, floating-point numbers are whole numbers and the other way round.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if !text::is_number(text) {
        return None;
    }
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    (value.fract() == 0.0 && value.abs() <= EXACT_MAX).then_some(value as i128)
}

/// A number, or the name of one that is not finite. What is too large to be finite is refused.
fn float<F: Copy + std::str::FromStr>(text: &str, is_infinite: fn(F) -> bool) -> Option<F> {
    match text {
        "NaN" | "Infinity" | "-Infinity" => text.parse().ok(),
        text if text::is_number(text) => text.parse().ok().filter(|value| !is_infinite(*value)),
        _ => None,
    }
}

/// A map's key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'t> {
    Number { value: i128, bytes: u8 },
    Text(&'t str),
}

impl<'t> Key<'t> {
    fn parse(kind: Kind, name: &'t str) -> Option<Key<'t>> {
        let key = |value: i128, bytes| Some(Key::Number { value, bytes });
        let whole = |range: std::ops::RangeInclusive<i128>, bytes| {
            integer(name).filter(|value| range.contains(value)).and_then(|value| key(value, bytes))
        };
        match kind {
            Kind::String => Some(Key::Text(name)),
            Kind::Bool => match name {
                "false" => key(0, 1),
                "true" => key(1, 1),
                _ => None,
            },
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                whole(i32::MIN.into()..=i32::MAX.into(), 4)
            }
            Kind::Uint32 | Kind::Fixed32 => whole(0..=u32::MAX.into(), 4),
            Kind::Uint64 | Kind::Fixed64 => whole(0..=u64::MAX.into(), 8),
            _ => whole(i64::MIN.into()..=i64::MAX.into(), 8),
        }
    }

    fn name(&self) -> String {
        match self {
            Key::Number { value, .. } => value.to_string(),
            Key::Text(text) => (*text).to_owned(),
        }
    }
}
