//! The protobuf encoding, by plan (M28 to M31).
//!
//! `decode` goes over the input once. `encode` goes over the message once, from its end to its
//! beginning, so that the length of nested messages is known when it has to be written. Neither
//! allocates per field.

mod cursor;
mod decode;
mod dynamic;
mod encode;
mod leaf;
mod limits;
mod stack;
mod struct_at;
mod varint;
mod words;
mod writer;

pub(crate) use decode::decode;
pub use dynamic::DynamicMsg;
pub(crate) use encode::{append, encode};
pub use limits::{DecodeLimits, Input};
