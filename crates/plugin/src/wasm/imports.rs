//! What modules may ask of the service.
//!
//! Each function uses up fuel for itself and for the bytes that it moves, so that a module cannot
//! have the service work for longer than it may work itself.

use petasos_engine::{FieldKind, Value};
use petasos_plugin_abi::{Fact, Failure};
use wasmi::{Caller, Error, Linker, Memory, TrapCode};

use super::data::Data;
use crate::context::{self, field_kind, field_kind_number, returned};

/// What any function costs, in fuel.
const CALL_FUEL: u64 = 32;
/// So many bytes cost one fuel.
const BYTES_PER_FUEL: u64 = 8;

type Host<'a> = Caller<'a, Data>;

/// All functions, in the module `petasos`.
pub(super) fn linker(engine: &wasmi::Engine) -> Result<Linker<Data>, Error> {
    const MODULE: &str = "petasos";
    let mut linker = Linker::new(engine);
    linker.func_wrap(MODULE, "input", input)?;
    linker.func_wrap(MODULE, "say", say)?;
    linker.func_wrap(MODULE, "declare_field", declare_field)?;
    linker.func_wrap(MODULE, "has_field", has_field)?;
    linker.func_wrap(MODULE, "field_number", field_number)?;
    linker.func_wrap(MODULE, "field_bytes", field_bytes)?;
    linker.func_wrap(MODULE, "set_field_number", set_field_number)?;
    linker.func_wrap(MODULE, "set_field_bytes", set_field_bytes)?;
    linker.func_wrap(MODULE, "metadata", metadata)?;
    linker.func_wrap(MODULE, "set_metadata", set_metadata)?;
    linker.func_wrap(MODULE, "remove_metadata", remove_metadata)?;
    linker.func_wrap(MODULE, "item", item)?;
    linker.func_wrap(MODULE, "random", random)?;
    Ok(linker)
}

/// Part of the configuration (0), the state (1) or the method's name (2). Gives its whole length.
fn input(mut host: Host<'_>, which: i32, offset: i32, to: i32, room: i32) -> Result<i32, Error> {
    charge(&mut host, room)?;
    let input = usize::try_from(which).ok().and_then(|which| host.data().inputs.get(which));
    let Some(input) = input else { return Ok(Failure::Invalid as i32) };
    let Some(input) = input.clone() else { return Ok(Failure::Absent as i32) };
    Ok(copy(input.as_bytes(), offset, room_mut(&mut host, to, room)?))
}

fn say(mut host: Host<'_>, text: i32, len: i32) -> Result<i32, Error> {
    charge(&mut host, len)?;
    let (token, text) = (host.data().token, bytes(&host, text, len)?);
    Ok(returned(context::with(token, |context| context.say(text))))
}

/// Gives the field's number, or what is wrong.
fn declare_field(
    mut host: Host<'_>,
    path: i32,
    len: i32,
    kind: i32,
    writes: i32,
) -> Result<i32, Error> {
    charge(&mut host, len)?;
    let (token, path) = (host.data().token, bytes(&host, path, len)?);
    let declared = field_kind(kind.cast_unsigned()).and_then(|kind| {
        context::with(token, |context| context.declare_field(path, kind, writes != 0))
    });
    Ok(number(declared.map(|(number, _)| number as usize)))
}

/// The kind of a field's value, or that there is none.
fn has_field(mut host: Host<'_>, field: i32) -> Result<i32, Error> {
    charge(&mut host, 0)?;
    let found = context::with(host.data().token, |context| {
        context.field(field.cast_unsigned()).map(|value| field_kind_number(value.kind()))
    });
    Ok(number(found.map(|kind| kind as usize)))
}

/// The bits of a value; 0 if it has none.
fn field_number(mut host: Host<'_>, field: i32) -> Result<i64, Error> {
    charge(&mut host, 0)?;
    let found = context::with(host.data().token, |context| {
        Ok(match context.field(field.cast_unsigned())? {
            Value::Bool(value) => i64::from(value),
            Value::Signed(value) => value,
            Value::Unsigned(value) => value.cast_signed(),
            Value::Float(value) => value.to_bits().cast_signed(),
            Value::Text(_) | Value::Bytes(_) => 0,
        })
    });
    Ok(found.unwrap_or(0))
}

/// Part of a text or bytes. Gives the whole length.
fn field_bytes(
    mut host: Host<'_>,
    field: i32,
    offset: i32,
    to: i32,
    room: i32,
) -> Result<i32, Error> {
    charge(&mut host, room)?;
    let token = host.data().token;
    let to = room_mut(&mut host, to, room)?;
    let found = context::with(token, |context| match context.field(field.cast_unsigned())? {
        Value::Text(text) => Ok(copy(text.as_bytes(), offset, to)),
        Value::Bytes(bytes) => Ok(copy(bytes, offset, to)),
        _ => Err(Failure::Invalid),
    });
    Ok(found.unwrap_or_else(|failure| failure as i32))
}

fn set_field_number(mut host: Host<'_>, field: i32, bits: i64) -> Result<i32, Error> {
    charge(&mut host, 0)?;
    let field = field.cast_unsigned();
    Ok(returned(context::with(host.data().token, |context| {
        let value = match context.field_kind(field)? {
            FieldKind::Bool => Value::Bool(bits != 0),
            FieldKind::Signed => Value::Signed(bits),
            FieldKind::Unsigned => Value::Unsigned(bits.cast_unsigned()),
            FieldKind::Float => Value::Float(f64::from_bits(bits.cast_unsigned())),
            FieldKind::Text | FieldKind::Bytes => return Err(Failure::Invalid),
        };
        context.set_field(field, value)
    })))
}

fn set_field_bytes(mut host: Host<'_>, field: i32, from: i32, len: i32) -> Result<i32, Error> {
    charge(&mut host, len)?;
    let field = field.cast_unsigned();
    let (token, from) = (host.data().token, bytes(&host, from, len)?);
    Ok(returned(context::with(token, |context| {
        let value = match context.field_kind(field)? {
            FieldKind::Text => Value::Text(str::from_utf8(from).map_err(|_| Failure::Invalid)?),
            FieldKind::Bytes => Value::Bytes(from),
            _ => return Err(Failure::Invalid),
        };
        context.set_field(field, value)
    })))
}

/// The first value of a key. Gives its whole length.
fn metadata(mut host: Host<'_>, key: i32, key_len: i32, to: i32, room: i32) -> Result<i32, Error> {
    charge_metadata(&mut host)?;
    charge(&mut host, key_len)?;
    charge(&mut host, room)?;
    let (token, key) = (host.data().token, bytes(&host, key, key_len)?.to_vec());
    let to = room_mut(&mut host, to, room)?;
    let found = context::with(token, |context| Ok(copy(context.metadata(&key)?, 0, to)));
    Ok(found.unwrap_or_else(|failure| failure as i32))
}

fn set_metadata(
    mut host: Host<'_>,
    key: i32,
    key_len: i32,
    value: i32,
    len: i32,
) -> Result<i32, Error> {
    charge_metadata(&mut host)?;
    charge(&mut host, key_len)?;
    charge(&mut host, len)?;
    let token = host.data().token;
    let (key, value) = (bytes(&host, key, key_len)?, bytes(&host, value, len)?);
    Ok(returned(context::with(token, |context| context.set_metadata(key, Some(value)))))
}

fn remove_metadata(mut host: Host<'_>, key: i32, key_len: i32) -> Result<i32, Error> {
    charge_metadata(&mut host)?;
    charge(&mut host, key_len)?;
    let (token, key) = (host.data().token, bytes(&host, key, key_len)?);
    Ok(returned(context::with(token, |context| context.set_metadata(key, None))))
}

/// A fact about the item, by its number.
fn item(mut host: Host<'_>, what: i32) -> Result<i64, Error> {
    charge(&mut host, 0)?;
    let Some(what) = Fact::from_number(what.cast_unsigned()) else { return Ok(0) };
    let facts = &host.data().facts;
    let fact = match what {
        Fact::Call => facts.call,
        Fact::Now => facts.now_ns,
        Fact::Arrived => facts.arrived_ns,
        Fact::Deadline => facts.deadline_ns,
        Fact::Kind => facts.kind.into(),
        Fact::Flags => facts.flags.into(),
        Fact::Application => facts.application.into(),
        Fact::Peer => facts.peer.into(),
        Fact::Method => facts.method.into(),
        Fact::Bytes => facts.bytes.into(),
        Fact::Status => facts.status.into(),
        Fact::Attempt => facts.attempt.into(),
    };
    Ok(fact.cast_signed())
}

fn random(mut host: Host<'_>) -> Result<i64, Error> {
    charge(&mut host, 0)?;
    let random = context::with(host.data().token, |context| context.random());
    Ok(random.map_or(0, u64::cast_signed))
}

/// Uses up fuel for a call that moves so many bytes.
fn charge(host: &mut Host<'_>, bytes: i32) -> Result<(), Error> {
    spend(host, CALL_FUEL + u64::from(bytes.cast_unsigned()) / BYTES_PER_FUEL)
}

/// Uses up fuel for looking through the item's metadata.
fn charge_metadata(host: &mut Host<'_>) -> Result<(), Error> {
    let bytes = context::with(host.data().token, |context| context.metadata_bytes());
    spend(host, bytes.unwrap_or(0) as u64 / BYTES_PER_FUEL)
}

fn spend(host: &mut Host<'_>, fuel: u64) -> Result<(), Error> {
    let left = host.get_fuel()?.checked_sub(fuel);
    host.set_fuel(left.ok_or(Error::from(TrapCode::OutOfFuel))?)
}

fn memory(host: &Host<'_>) -> Result<Memory, Error> {
    host.data().memory.ok_or_else(|| Error::new("the module exports no `memory`"))
}

/// Bytes of the module's memory.
fn bytes<'a>(host: &'a Host<'_>, at: i32, len: i32) -> Result<&'a [u8], Error> {
    let memory = memory(host)?.data(host);
    let (at, len) = (at.cast_unsigned() as usize, len.cast_unsigned() as usize);
    memory.get(at..).and_then(|bytes| bytes.get(..len)).ok_or_else(outside)
}

fn room_mut<'a>(host: &'a mut Host<'_>, at: i32, len: i32) -> Result<&'a mut [u8], Error> {
    let memory = memory(host)?.data_mut(host);
    let (at, len) = (at.cast_unsigned() as usize, len.cast_unsigned() as usize);
    memory.get_mut(at..).and_then(|bytes| bytes.get_mut(..len)).ok_or_else(outside)
}

fn outside() -> Error {
    Error::new("a pointer or a length is outside of the module's memory")
}

/// Copies what there is room for, from an offset on. Gives the whole length.
fn copy(from: &[u8], offset: i32, to: &mut [u8]) -> i32 {
    let rest = from.get(offset.cast_unsigned() as usize..).unwrap_or(&[]);
    let len = rest.len().min(to.len());
    to[..len].copy_from_slice(&rest[..len]);
    i32::try_from(from.len()).unwrap_or(i32::MAX)
}

fn number(result: Result<usize, Failure>) -> i32 {
    result.map_or_else(|failure| failure as i32, |number| number as i32)
}
