//! The compact form: a model as bytes, without comments, files or descriptors.
//!
//! Applications pass it to a service, and peers whose hashes differ send it to each other. Each
//! model has one form, whatever the order of declaration. Decoding accepts no other bytes, so what
//! decodes also encodes to the same bytes. Numbers are LEB128 of at most 64 bits without needless
//! bytes; texts and lists begin with their length:
//!
//! ```text
//! schema  = version:u8 enums messages services         each sorted by full name
//! name    = text:full number:package_bytes
//! enum    = name [ zigzag:number text:name ]             sorted by number
//! message = name [ text:oneof ] [ field ]              fields by number, oneofs by first field
//! field   = number text:name text:json_name? cardinality type     json name empty if the default
//! type    = u8:code number:index?                      codes of FieldDescriptorProto.Type; the
//!                                                      index for 11, a message, and 14, an enum
//! cardinality = 0 implicit | 1 optional | 2 repeated | 3 packed | 4 map u8:key | 5 number:oneof
//! service = name [ text:name number:input number:output u8:flags ]          sorted by name
//! flags   = client_streaming | server_streaming << 1 | idempotency << 2
//! ```

mod decode;
mod encode;
mod input;

use thiserror::Error;

use crate::check::Problem;

/// The version of the compact form, its first byte. This crate writes and reads no other.
pub const FORMAT_VERSION: u8 = 1;

/// Why [`Schema::decode`](crate::Schema::decode) failed. The sender of the bytes is at fault, or
/// the limits are too low for them; a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input is larger than its [`Limits`](crate::Limits).
    #[error("the schema has more than {max} {what}: raise the limit if this is meant")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The bytes are of another version of the form.
    #[error("the schema has format version {found}, this program reads {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes are not the form of any model.
    #[error("not a schema: {what} at byte {offset}")]
    Malformed {
        /// Where the input stops making sense.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A declaration breaks a rule of protobuf.
    #[error("in `{name}`: {problem}")]
    Invalid {
        /// The declaration's full name.
        name: Box<str>,
        /// The rule.
        problem: Problem,
    },
}
