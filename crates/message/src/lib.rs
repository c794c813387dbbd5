//! Typed messages: arenas that are read like ordinary Rust values, and their two encodings.
//!
//! `docs/spec/message.md` specifies the layout and the rules; `docs/adr/0010` gives the reasons.
//!
//! Boundary rule: knows schemas and buffers, nothing of calls, sessions or the network.

#[cfg(not(target_endian = "little"))]
compile_error!("the native encoding lies in memory as it travels: little-endian (M2)");

mod agree;
mod arena;
mod debug;
mod edit;
mod encodings;
mod equal;
mod error;
mod heap;
mod image;
mod json;
mod macros;
mod module;
mod msg;
mod native;
mod owned;
mod owner;
mod part;
mod payload;
mod plan;
mod protobuf;
mod reflect;
mod utf8;
pub mod well_known;

pub use arena::{Arena, ROOM_BYTES};
pub use edit::Edit;
pub use encodings::{to_protobuf, view_native};
pub use error::{DecodeError, EncodeError};
pub use heap::{Heap, buffer, into_bytes, recycle};
pub use image::{
    CompactError, GATHER_BYTES_MIN, Image, Outside, SEGMENTS_MAX, Source, compact, is_aligned,
    is_native, validate,
};
pub use json::{
    FromJson, FromJsonError, LocatedError, ToJson, ToJsonError, json_template, json_to_protobuf,
    protobuf_to_json,
};
pub use module::{Module, ModuleRef};
pub use msg::Msg;
pub use native::{FieldPath, Leaf, NativeMsg, PathError, SetError, Types};
pub use owned::Owned;
pub use part::{Blob, Element, Key, Link, List, ListMut, Map, MapMut, Message, OneOf, Plain};
pub use part::{Presence, Scalar, Text, Unknown, ValueShape};
pub use payload::Payload;
pub use petasos_buf::Segment;
pub use plan::{FIELDS_MAX, Plan, Plans, Slots, TooManyFields};
pub use protobuf::{DecodeLimits, DynamicMsg, Input};
pub use reflect::{ListRef, MapRef, Reflect, Value};

// What `message!` and `open_enum!` refer to.
#[doc(hidden)]
pub use {
    agree::BoundPlan,
    debug::debug,
    equal::equal,
    image::{Flat, is_flat, validate_by_plan},
    owned::{AsKey, AsValue, plain},
    owner::Owner,
    part::{InPlace, Member, MessageType, Relocate, Shape, Slot, shape_of, slots},
    petasos_schema::Part,
};

/// The most bytes that a message can have as an image or as protobuf (M18).
pub const MESSAGE_BYTES_MAX: usize = (1 << 28) - 1;

/// The most levels of messages within messages that can be encoded (M18).
pub const DEPTH_MAX: u32 = 100;

/// `bytes` of at least this length that come with an owner are kept where they lie (M16).
pub const ADOPT_BYTES_MIN: usize = 4096;
