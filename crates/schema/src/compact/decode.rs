//! Reads the compact form.

use super::input::Input;
use super::{DecodeError, FORMAT_VERSION};
use crate::build::Parts;
use crate::check::{self, Problem};
use crate::hash::Hash;
use crate::hashing::CycleTooLarge;
use crate::ids::{EnumId, MessageId, OneofIndex};
use crate::limits::Limits;
use crate::link::scalar;
use crate::model::{Cardinality, Docs, Enum, EnumValue, Field, Kind, Message, Name, Oneof};
use crate::schema::Schema;
use crate::service::{Idempotency, Method, Service};

impl Schema {
    /// The schema with this compact form. `decode(s.encode())` is `s` without its sources
    /// ([`Schema::without_sources`]).
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Schema, DecodeError> {
        if bytes.len() > limits.bytes_max {
            return Err(DecodeError::TooLarge { what: "bytes", max: limits.bytes_max });
        }
        let mut input = Input::new(bytes, limits);
        match input.byte()? {
            FORMAT_VERSION => {}
            found => return Err(DecodeError::Version { found }),
        }
        let enums = input.list(enumeration)?;
        let messages = input.list(message)?;
        let services = input.list(service)?;
        if !input.is_empty() {
            return Err(input.malformed("bytes after the end"));
        }
        let parts = Parts { messages, enums, services };
        check_names(&parts, &input)?;
        check_references(&parts, &input)?;
        let max = limits.cycle_steps_max;
        let too_large = |CycleTooLarge| DecodeError::TooLarge { what: "steps for one cycle", max };
        parts.finish(max).map_err(too_large)
    }
}

fn invalid(name: &Name) -> impl Fn(Problem) -> DecodeError {
    move |problem| DecodeError::Invalid { name: name.full().into(), problem }
}

/// Checks that every list is sorted by name, and that no name is in two of them.
fn check_names(parts: &Parts, input: &Input<'_>) -> Result<(), DecodeError> {
    let messages: Vec<&Name> = parts.messages.iter().map(|message| &message.name).collect();
    let enums: Vec<&Name> = parts.enums.iter().map(|item| &item.name).collect();
    let services: Vec<&Name> = parts.services.iter().map(|service| &service.name).collect();
    let mut all = Vec::with_capacity(messages.len() + enums.len() + services.len());
    for names in [messages, enums, services] {
        if !names.is_sorted_by_key(|name| name.full()) {
            return Err(input.malformed("names that are not sorted"));
        }
        all.extend(names);
    }
    all.sort_by_key(|name| name.full());
    match all.windows(2).find(|pair| pair[0].full() == pair[1].full()) {
        Some(pair) => Err(invalid(pair[0])(Problem::DuplicateType { name: pair[0].full().into() })),
        None => Ok(()),
    }
}

/// Checks that every id is in its arena.
fn check_references(parts: &Parts, input: &Input<'_>) -> Result<(), DecodeError> {
    let fields = parts.messages.iter().flat_map(|message| &message.fields);
    let methods = parts.services.iter().flat_map(|service| &service.methods);
    let is_there = |id: MessageId| id.index() < parts.messages.len();
    let fields_fine = fields.into_iter().all(|field| match field.kind {
        Kind::Message(id) => is_there(id),
        Kind::Enum(id) => id.index() < parts.enums.len(),
        _ => true,
    });
    match fields_fine && methods.into_iter().all(|m| is_there(m.input) && is_there(m.output)) {
        true => Ok(()),
        false => Err(input.malformed("a reference to nothing")),
    }
}

fn name(input: &mut Input<'_>) -> Result<Name, DecodeError> {
    let full = input.text()?;
    let package_bytes = input.index()?;
    let split = match package_bytes {
        0 => Some(("", full)),
        at => full.split_at_checked(at),
    };
    let split = split.and_then(|(package, local)| match package {
        "" => Some((package, local)),
        _ => Some((package, local.strip_prefix('.')?)),
    });
    let (package, local) = split.ok_or_else(|| input.malformed("a package that ends in a name"))?;
    let name = Name::new(package, local);
    match check::full_name(full) {
        Ok(()) => Ok(name),
        Err(problem) => {
            Err(DecodeError::Invalid { name: full.chars().take(64).collect(), problem })
        }
    }
}

fn enumeration(input: &mut Input<'_>) -> Result<Enum, DecodeError> {
    let name = name(input)?;
    let values = input.list(|input| {
        let zigzag = input.number()?;
        let zigzag = u32::try_from(zigzag).map_err(|_| input.malformed("a value past 32 bits"))?;
        let number = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        Ok(EnumValue { name: input.text()?.into(), comment: Box::default(), number })
    })?;
    if !values.is_sorted_by_key(EnumValue::number) {
        return Err(input.malformed("values that are not sorted"));
    }
    let item = Enum { name, docs: Docs::default(), values };
    check::enumeration(&item).map_err(|(_, problem)| invalid(&item.name)(problem))?;
    Ok(item)
}

fn message(input: &mut Input<'_>) -> Result<Message, DecodeError> {
    let name = name(input)?;
    let oneofs =
        input.list(|input| Ok(Oneof { name: input.text()?.into(), comment: Box::default() }))?;
    let fields = input.list(field)?;
    let mut oneofs_begun = 0;
    for field in &fields {
        let Some(index) = field.oneof() else { continue };
        if index.index() > oneofs_begun || index.index() >= oneofs.len() {
            return Err(input.malformed("oneofs that are not sorted"));
        }
        oneofs_begun = oneofs_begun.max(index.index() + 1);
    }
    if !fields.is_sorted_by_key(Field::number) {
        return Err(input.malformed("fields that are not sorted"));
    }
    let (docs, hash) = (Docs::default(), Hash::default());
    let message = Message { name, docs, fields, oneofs, cycle: None, hash };
    check::message(&message).map_err(|(_, problem)| invalid(&message.name)(problem))?;
    Ok(message)
}

fn field(input: &mut Input<'_>) -> Result<Field, DecodeError> {
    let number = input.number()?;
    let number = u32::try_from(number).map_err(|_| input.malformed("a number past 32 bits"))?;
    let name: Box<str> = input.text()?.into();
    let default_json_name = check::default_json_name(&name);
    let json_name = match input.text()? {
        "" => default_json_name.into(),
        same if same == default_json_name => {
            return Err(input.malformed("a needless JSON name"));
        }
        json_name => json_name.into(),
    };
    let cardinality = match input.byte()? {
        0 => Cardinality::Implicit,
        1 => Cardinality::Optional,
        packed @ 2..=3 => Cardinality::Repeated { packed: packed == 3 },
        4 => Cardinality::Map { key: kind(input)? },
        5 => Cardinality::Oneof(OneofIndex::new(small(input)?)),
        _ => return Err(input.malformed("an unknown cardinality")),
    };
    let kind = kind(input)?;
    if cardinality == Cardinality::Implicit && kind.message().is_some() {
        return Err(input.malformed("a message that is always present"));
    }
    Ok(Field { name, json_name, comment: Box::default(), number, kind, cardinality })
}

fn kind(input: &mut Input<'_>) -> Result<Kind, DecodeError> {
    match input.byte()? {
        11 => Ok(Kind::Message(MessageId::new(small(input)?))),
        14 => Ok(Kind::Enum(EnumId::new(small(input)?))),
        code => scalar(code.into()).ok_or_else(|| input.malformed("an unknown type")),
    }
}

/// An index that fits an id.
fn small(input: &mut Input<'_>) -> Result<usize, DecodeError> {
    let index = input.index()?;
    match u32::try_from(index) {
        Ok(_) => Ok(index),
        Err(_) => Err(input.malformed("an index past 32 bits")),
    }
}

fn service(input: &mut Input<'_>) -> Result<Service, DecodeError> {
    let name = name(input)?;
    let methods = input.list(method)?;
    for method in &methods {
        check::identifier(&method.name).map_err(invalid(&name))?;
    }
    if !methods.is_sorted_by_key(|method| &method.name) {
        return Err(input.malformed("methods that are not sorted"));
    }
    if let Some(pair) = methods.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(invalid(&name)(Problem::DuplicateName { name: pair[0].name.clone() }));
    }
    Ok(Service { name, docs: Docs::default(), methods, hash: Hash::default() })
}

fn method(input: &mut Input<'_>) -> Result<Method, DecodeError> {
    let name: Box<str> = input.text()?.into();
    let (request, response) = (MessageId::new(small(input)?), MessageId::new(small(input)?));
    let flags = input.byte()?;
    let idempotency = match flags >> 2 {
        0 => Idempotency::Unknown,
        1 => Idempotency::NoSideEffects,
        2 => Idempotency::Idempotent,
        _ => return Err(input.malformed("unknown flags")),
    };
    Ok(Method {
        name,
        comment: Box::default(),
        input: request,
        output: response,
        client_streaming: flags & 1 != 0,
        server_streaming: flags & 2 != 0,
        idempotency,
    })
}
