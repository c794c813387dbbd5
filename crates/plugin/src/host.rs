//! The functions that the service offers to shared objects.
//!
//! Each finds the call that goes on by the token that it is given, and leaves all checks but those
//! of pointers to `context`. None panics on what it is given: a panic would end the process here,
//! since it must not cross into C.

use std::slice;

use petasos_engine::Value;
use petasos_plugin_abi::{ABI_VERSION, Bytes, CValue, Failure, Host};

use crate::context::{self, field_kind, field_kind_number, returned};

/// What objects are given.
pub(crate) static HOST: Host = Host {
    abi_version: ABI_VERSION,
    size: size_of::<Host>() as u32,
    say,
    declare_field,
    field,
    set_field,
    metadata,
    set_metadata,
    random,
};

/// No text or value that a plug-in passes is longer.
const BYTES_MAX: u64 = 1 << 30;

/// The bytes that a plug-in passes.
///
/// # Safety
/// If the pointer is not null, so many bytes are there, and nobody writes them during `'a`.
unsafe fn bytes<'a>(bytes: Bytes) -> Result<&'a [u8], Failure> {
    match (bytes.data.is_null(), bytes.len) {
        (_, 0) => Ok(&[]),
        (true, _) | (_, BYTES_MAX..) => Err(Failure::Invalid),
        // SAFETY: the caller's promise; the length is far below `isize::MAX`.
        (false, len) => Ok(unsafe { slice::from_raw_parts(bytes.data, len as usize) }),
    }
}

/// Stores a result where a plug-in wants it.
///
/// # Safety
/// If the pointer is not null, it is that of a `T` which may be written.
unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::Invalid);
    }
    // SAFETY: the caller's promise. `T` has no destructor that an earlier value would need.
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
/// Here and below: pointers are null or valid during the call, as the header says.
unsafe extern "C" fn say(token: u64, text: Bytes) -> i32 {
    // SAFETY: the plug-in keeps the header's rules.
    let text = unsafe { bytes(text) };
    returned(text.and_then(|text| context::with(token, |context| context.say(text))))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn declare_field(
    token: u64,
    path: Bytes,
    kind: u32,
    writes: u32,
    field: *mut u32,
    kind_found: *mut u32,
) -> i32 {
    // SAFETY: the plug-in keeps the header's rules.
    let path = unsafe { bytes(path) };
    let declared = path.and_then(|path| {
        let kind = field_kind(kind)?;
        context::with(token, |context| context.declare_field(path, kind, writes != 0))
    });
    returned(declared.and_then(|(number, found)| {
        if !kind_found.is_null() {
            // SAFETY: it is not null, and the plug-in keeps the header's rules.
            unsafe { kind_found.write(field_kind_number(found)) };
        }
        // SAFETY: the plug-in keeps the header's rules.
        unsafe { store(field, number) }
    }))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn field(token: u64, field: u32, value: *mut CValue) -> i32 {
    let found = context::with(token, |context| context.field(field).map(to_c));
    // SAFETY: the plug-in keeps the header's rules.
    returned(found.and_then(|found| unsafe { store(value, found) }))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn set_field(token: u64, field: u32, value: *const CValue) -> i32 {
    if value.is_null() {
        return Failure::Invalid as i32;
    }
    // SAFETY: it is not null, and the plug-in keeps the header's rules. Any bits are a `CValue`.
    let value = unsafe { value.read() };
    // SAFETY: the plug-in keeps the header's rules.
    let text = unsafe { bytes(value.bytes) };
    returned(text.and_then(|text| {
        let value = from_c(&value, text)?;
        context::with(token, |context| context.set_field(field, value))
    }))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn metadata(token: u64, key: Bytes, value: *mut Bytes) -> i32 {
    // SAFETY: the plug-in keeps the header's rules.
    let key = unsafe { bytes(key) };
    let found =
        key.and_then(|key| context::with(token, |context| context.metadata(key).map(Bytes::of)));
    // SAFETY: the plug-in keeps the header's rules.
    returned(found.and_then(|found| unsafe { store(value, found) }))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn set_metadata(token: u64, key: Bytes, value: Bytes) -> i32 {
    let removes = value.data.is_null();
    // SAFETY: the plug-in keeps the header's rules.
    let (key, value) = unsafe { (bytes(key), bytes(value)) };
    returned(key.and_then(|key| {
        let value = value?;
        let value = (!removes).then_some(value);
        context::with(token, |context| context.set_metadata(key, value))
    }))
}

/// # Safety
/// See [`say`].
unsafe extern "C" fn random(token: u64, bits: *mut u64) -> i32 {
    let random = context::with(token, |context| context.random());
    // SAFETY: the plug-in keeps the header's rules.
    returned(random.and_then(|random| unsafe { store(bits, random) }))
}

/// A value for a plug-in. What it points to stays until the item's fields change.
fn to_c(value: Value<'_>) -> CValue {
    let (number, bytes) = match value {
        Value::Bool(value) => (u64::from(value), Bytes::NONE),
        Value::Signed(value) => (value.cast_unsigned(), Bytes::NONE),
        Value::Unsigned(value) => (value, Bytes::NONE),
        Value::Float(value) => (value.to_bits(), Bytes::NONE),
        Value::Text(text) => (0, Bytes::of(text.as_bytes())),
        Value::Bytes(bytes) => (0, Bytes::of(bytes)),
    };
    CValue { kind: field_kind_number(value.kind()), reserved: 0, number, bytes }
}

/// A value of a plug-in.
fn from_c<'a>(value: &CValue, bytes: &'a [u8]) -> Result<Value<'a>, Failure> {
    use petasos_engine::FieldKind::{Bool, Bytes, Float, Signed, Text, Unsigned};
    let number = value.number;
    Ok(match field_kind(value.kind)?.ok_or(Failure::Invalid)? {
        Bool => Value::Bool(number != 0),
        Signed => Value::Signed(number.cast_signed()),
        Unsigned => Value::Unsigned(number),
        Float => Value::Float(f64::from_bits(number)),
        Text => Value::Text(str::from_utf8(bytes).map_err(|_| Failure::Invalid)?),
        Bytes => Value::Bytes(bytes),
    })
}
