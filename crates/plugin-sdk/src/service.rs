//! What the service offers, in whichever form it is reached: a shared object's table, a module's
//! imports, or a test's substitute.

use std::borrow::Cow;

use petasos_plugin_abi::{Fact, Failure, FieldKind, TEXT_BYTES_MAX};

use crate::value::Value;

/// What an engine may do while it is told of a method.
pub(crate) trait Declaring {
    /// Declares a field, of any kind without one. Gives its number.
    fn declare_field(
        &mut self,
        path: &str,
        kind: Option<FieldKind>,
        writes: bool,
    ) -> Result<u32, Failure>;
}

/// What an engine may do while it decides about an item.
///
/// What is borrowed stays valid until something is changed: that takes a `&mut`.
pub(crate) trait Deciding {
    /// Something to know of the item.
    fn fact(&self, fact: Fact) -> u64;

    /// Who the other end is, if that is proved.
    fn identity(&self) -> Option<&str>;

    /// The value of a declared field.
    fn field(&self, field: u32) -> Option<Value<'_>>;

    /// Changes the value of a field that was declared as written.
    fn set_field(&mut self, field: u32, value: &Value<'_>) -> Result<(), Failure>;

    /// The first value of a key.
    fn metadata(&self, key: &str) -> Option<Cow<'_, [u8]>>;

    /// Replaces the values of a key, or removes them.
    fn set_metadata(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Failure>;

    /// Random bits.
    fn random(&mut self) -> u64;
}

/// As much of a text as the service takes.
pub(crate) fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// What is returned by a function of the service that gives a number, or a failure below 0.
pub(crate) fn number(returned: i32) -> Result<u32, Failure> {
    u32::try_from(returned).map_err(|_| match returned {
        -1 => Failure::Gone,
        -3 => Failure::Absent,
        -4 => Failure::Full,
        _ => Failure::Invalid,
    })
}
