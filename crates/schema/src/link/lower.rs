//! From descriptors to the model, with every reference resolved and every rule checked.

use super::names::{Declaration, Item, Names};
use super::places::{Path, Places};
use crate::build::Parts;
use crate::check::{self, Place, Problem};
use crate::descriptor::{self, ENUM, MESSAGE};
use crate::error::LoadError;
use crate::hash::Hash;
use crate::ids::{EnumId, MessageId, OneofIndex};
use crate::model::{Cardinality, Docs, Enum, EnumValue, Field, Kind, Message, Oneof};
use crate::service::{Idempotency, Method, Service};

/// The declarations that are reached, as parts of a schema.
pub(super) fn lower(names: &Names<'_>, is_reached: &[bool]) -> Result<Parts, LoadError> {
    let mut order: Vec<usize> = (0..is_reached.len()).filter(|at| is_reached[*at]).collect();
    order.sort_by_key(|at| names.declarations[*at].name.full());
    let mut lowering = Lowering { names, kinds: vec![None; is_reached.len()] };
    let (mut messages, mut enums) = (0, 0);
    for at in &order {
        match names.declarations[*at].item {
            Item::Message(message) if !message.is_map_entry => {
                lowering.kinds[*at] = Some(Kind::Message(MessageId::new(messages)));
                messages += 1;
            }
            Item::Enum(_) => {
                lowering.kinds[*at] = Some(Kind::Enum(EnumId::new(enums)));
                enums += 1;
            }
            _ => {}
        }
    }
    let mut parts = Parts::default();
    for at in order {
        let declaration = &names.declarations[at];
        match declaration.item {
            Item::Message(message) if message.is_map_entry => {}
            Item::Message(message) => parts.messages.push(lowering.message(declaration, message)?),
            Item::Enum(item) => parts.enums.push(lowering.enumeration(declaration, item)?),
            Item::Service(item) => parts.services.push(lowering.service(declaration, item)?),
        }
    }
    Ok(parts)
}

struct Lowering<'n, 'a> {
    names: &'n Names<'a>,
    /// What the reached messages and enums are as types; `None` for all else.
    kinds: Vec<Option<Kind>>,
}

impl<'a> Lowering<'_, 'a> {
    fn places(&self, declaration: &Declaration<'_>) -> &Places<'a> {
        &self.names.places[declaration.file]
    }

    fn docs(&self, declaration: &Declaration<'_>) -> Docs {
        let file = Some(self.names.files[declaration.file].name.into());
        Docs { file, comment: self.places(declaration).comment(&declaration.path) }
    }

    fn message(
        &self,
        declaration: &Declaration<'_>,
        message: &descriptor::Message<'_>,
    ) -> Result<Message, LoadError> {
        let places = self.places(declaration);
        let oneofs = Oneofs::of(message);
        let mut fields = Vec::with_capacity(message.fields.len());
        for (index, field) in message.fields.iter().enumerate() {
            let path = declaration.path.element(2, index);
            let lowered = self.field(declaration, &oneofs, field);
            let mut lowered = lowered.map_err(|problem| places.invalid(&path, problem))?;
            lowered.comment = places.comment(&path);
            fields.push(lowered);
        }
        let (oneofs, origins): (Vec<Oneof>, Vec<usize>) = oneofs
            .kept
            .iter()
            .map(|at| {
                let comment = places.comment(&declaration.path.element(8, *at));
                (Oneof { name: message.oneofs[*at].into(), comment }, *at)
            })
            .unzip();
        let message = Message {
            name: declaration.name.clone(),
            docs: self.docs(declaration),
            fields,
            oneofs,
            cycle: None,
            hash: Hash::default(),
        };
        check::message(&message).map_err(|(place, problem)| {
            places.invalid(&path_of(&declaration.path, place, &origins), problem)
        })?;
        Ok(message)
    }

    fn field(
        &self,
        declaration: &Declaration<'_>,
        oneofs: &Oneofs,
        field: &descriptor::Field<'_>,
    ) -> Result<Field, Problem> {
        check::identifier(field.name)?;
        let name: Box<str> = field.name.into();
        if field.has_default {
            return Err(Problem::Default { field: name });
        }
        let number = u32::try_from(field.number).map_err(|_| Problem::FieldNumber {
            name: name.clone(),
            number: field.number.into(),
        })?;
        let (kind, cardinality) = match self.entry(field) {
            Some(entry) => self.map(declaration, field, entry)?,
            None => {
                let kind = self.kind(field)?;
                (kind, cardinality(field, kind, oneofs)?)
            }
        };
        let json_name = match field.json_name {
            "" => check::default_json_name(field.name).into(),
            name => name.into(),
        };
        Ok(Field { name, json_name, comment: Box::default(), number, kind, cardinality })
    }

    /// The map entry that a field refers to, if it is one.
    fn entry(&self, field: &descriptor::Field<'_>) -> Option<&Declaration<'a>> {
        let declaration = &self.names.declarations[self.names.referred(field)?];
        match declaration.item {
            Item::Message(message) if message.is_map_entry => Some(declaration),
            _ => None,
        }
    }

    /// The types of a map's values and keys. The entry must be declared in the map's message.
    fn map(
        &self,
        declaration: &Declaration<'_>,
        field: &descriptor::Field<'_>,
        entry: &Declaration<'_>,
    ) -> Result<(Kind, Cardinality), Problem> {
        let malformed = || Problem::MapEntry { field: field.name.into() };
        let Item::Message(message) = entry.item else { return Err(malformed()) };
        let outer = entry.name.full().rsplit_once('.').map(|(outer, _)| outer);
        let [key, value] = &message.fields[..] else { return Err(malformed()) };
        let is_own = outer == Some(declaration.name.full()) && entry.file == declaration.file;
        let is_plain = [key, value]
            .iter()
            .all(|part| part.label != REQUIRED && part.label != REPEATED && part.oneof.is_none());
        if !is_own || !is_plain || field.label != REPEATED || field.oneof.is_some() {
            return Err(malformed());
        }
        if (key.number, value.number) != (1, 2) || self.entry(value).is_some() {
            return Err(malformed());
        }
        let key = self.kind(key)?;
        if !key.is_map_key() {
            return Err(Problem::MapKey { field: field.name.into() });
        }
        Ok((self.kind(value)?, Cardinality::Map { key }))
    }

    fn kind(&self, field: &descriptor::Field<'_>) -> Result<Kind, Problem> {
        if let Some(kind) = scalar(field.kind) {
            return Ok(kind);
        }
        let Some(name) = field.reference() else {
            return Err(Problem::UnknownType { field: field.name.into() });
        };
        let wrong = || Problem::WrongSort { name: name.into() };
        let kind = self.kinds[self.names.resolve(name)?].ok_or_else(wrong)?;
        match (kind, field.kind) {
            (Kind::Message(_), ENUM) | (Kind::Enum(_), MESSAGE) => Err(wrong()),
            _ => Ok(kind),
        }
    }

    fn enumeration(
        &self,
        declaration: &Declaration<'_>,
        item: &descriptor::Enum<'_>,
    ) -> Result<Enum, LoadError> {
        let places = self.places(declaration);
        let values = item.values.iter().enumerate().map(|(index, (name, number))| {
            let comment = places.comment(&declaration.path.element(2, index));
            EnumValue { name: (*name).into(), comment, number: *number }
        });
        let values: Vec<_> = values.collect();
        let begins_with_zero = values.first().is_some_and(|value| value.number == 0);
        let docs = self.docs(declaration);
        let lowered = Enum { name: declaration.name.clone(), docs, values };
        if !begins_with_zero {
            let problem = Problem::NoZero { name: lowered.full_name().into() };
            return Err(places.invalid(&declaration.path, problem));
        }
        check::enumeration(&lowered).map_err(|(place, problem)| {
            places.invalid(&path_of(&declaration.path, place, &[]), problem)
        })?;
        Ok(lowered)
    }

    fn service(
        &self,
        declaration: &Declaration<'_>,
        service: &descriptor::Service<'_>,
    ) -> Result<Service, LoadError> {
        let places = self.places(declaration);
        let mut names = std::collections::HashSet::new();
        let mut methods = Vec::with_capacity(service.methods.len());
        for (index, method) in service.methods.iter().enumerate() {
            let path = declaration.path.element(2, index);
            let invalid = |problem| places.invalid(&path, problem);
            check::identifier(method.name).map_err(invalid)?;
            if !names.insert(method.name) {
                return Err(invalid(Problem::DuplicateName { name: method.name.into() }));
            }
            methods.push(Method {
                name: method.name.into(),
                comment: places.comment(&path),
                input: self.message_type(method.input).map_err(invalid)?,
                output: self.message_type(method.output).map_err(invalid)?,
                client_streaming: method.client_streaming,
                server_streaming: method.server_streaming,
                idempotency: idempotency(method.idempotency),
            });
        }
        let (name, docs) = (declaration.name.clone(), self.docs(declaration));
        Ok(Service { name, docs, methods, hash: Hash::default() })
    }

    fn message_type(&self, name: &str) -> Result<MessageId, Problem> {
        let kind = self.kinds[self.names.resolve(name)?];
        kind.and_then(Kind::message).ok_or_else(|| Problem::WrongSort { name: name.into() })
    }
}

/// The oneofs of a message: those that `optional` makes are left out.
struct Oneofs {
    /// Where each declared oneof is among the kept ones.
    places: Vec<Option<usize>>,
    /// The kept ones' indices as declared.
    kept: Vec<usize>,
}

impl Oneofs {
    fn of(message: &descriptor::Message<'_>) -> Oneofs {
        let mut is_synthetic = vec![false; message.oneofs.len()];
        for field in message.fields.iter().filter(|field| field.is_proto3_optional) {
            let index = field.oneof.and_then(|index| usize::try_from(index).ok());
            if let Some(synthetic) = index.and_then(|index| is_synthetic.get_mut(index)) {
                *synthetic = true;
            }
        }
        let kept: Vec<usize> = (0..is_synthetic.len()).filter(|at| !is_synthetic[*at]).collect();
        let mut places = vec![None; is_synthetic.len()];
        kept.iter().enumerate().for_each(|(place, at)| places[*at] = Some(place));
        Oneofs { places, kept }
    }

    fn place(&self, index: i32) -> Option<OneofIndex> {
        let place = self.places.get(usize::try_from(index).ok()?)?;
        place.map(OneofIndex::new)
    }
}

const REQUIRED: i32 = 2;
const REPEATED: i32 = 3;

fn cardinality(
    field: &descriptor::Field<'_>,
    kind: Kind,
    oneofs: &Oneofs,
) -> Result<Cardinality, Problem> {
    let name = || field.name.into();
    let is_repeated = field.label == REPEATED;
    if field.label == REQUIRED {
        return Err(Problem::Required { field: name() });
    }
    if field.packed.is_some() && !is_repeated {
        return Err(Problem::Packed { field: name() });
    }
    if is_repeated {
        if field.oneof.is_some() || field.is_proto3_optional {
            return Err(Problem::OneofLabel { field: name() });
        }
        return Ok(Cardinality::Repeated { packed: field.packed.unwrap_or(kind.is_packable()) });
    }
    match field.oneof {
        Some(_) if field.is_proto3_optional => Ok(Cardinality::Optional),
        Some(index) => {
            let place = oneofs.place(index);
            place.map(Cardinality::Oneof).ok_or_else(|| Problem::UnknownOneof { field: name() })
        }
        None if field.is_proto3_optional || kind.message().is_some() => Ok(Cardinality::Optional),
        None => Ok(Cardinality::Implicit),
    }
}

fn path_of(declaration: &Path, place: Place, oneofs: &[usize]) -> Path {
    match place {
        Place::Itself => declaration.clone(),
        Place::Field(index) => declaration.element(2, index),
        Place::Oneof(index) => declaration.element(8, oneofs[index]),
    }
}

fn idempotency(level: u64) -> Idempotency {
    match level {
        1 => Idempotency::NoSideEffects,
        2 => Idempotency::Idempotent,
        _ => Idempotency::Unknown,
    }
}

/// The kind with a number in `FieldDescriptorProto.Type`, if it refers to no other type.
pub(crate) fn scalar(code: i32) -> Option<Kind> {
    Some(match code {
        1 => Kind::Double,
        2 => Kind::Float,
        3 => Kind::Int64,
        4 => Kind::Uint64,
        5 => Kind::Int32,
        6 => Kind::Fixed64,
        7 => Kind::Fixed32,
        8 => Kind::Bool,
        9 => Kind::String,
        12 => Kind::Bytes,
        13 => Kind::Uint32,
        15 => Kind::Sfixed32,
        16 => Kind::Sfixed64,
        17 => Kind::Sint32,
        18 => Kind::Sint64,
        _ => return None,
    })
}
