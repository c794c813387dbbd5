//! The parts of `google/protobuf/descriptor.proto` that a schema is made from.
//!
//! Read by hand instead of with `prost-types`: texts stay in place in the input, everything is
//! counted against the limits before it is stored, and programs that receive schemas from their
//! peers need no other library. A test compares it with `prost-reflect`.

mod read;
mod wire;

pub(crate) use read::read;
pub(crate) use wire::{Fields, Value};

/// `FileDescriptorProto`.
#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    pub(crate) name: &'a str,
    pub(crate) package: &'a str,
    pub(crate) syntax: &'a str,
    pub(crate) has_edition: bool,
    pub(crate) messages: Vec<Message<'a>>,
    pub(crate) enums: Vec<Enum<'a>>,
    pub(crate) services: Vec<Service<'a>>,
    pub(crate) locations: Vec<Location<'a>>,
}

/// `DescriptorProto`.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) name: &'a str,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) nested: Vec<Message<'a>>,
    pub(crate) enums: Vec<Enum<'a>>,
    pub(crate) oneofs: Vec<&'a str>,
    pub(crate) is_map_entry: bool,
}

/// `FieldDescriptorProto`. Zero stands for what is not set.
#[derive(Debug, Default)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) json_name: &'a str,
    pub(crate) type_name: &'a str,
    pub(crate) number: i32,
    pub(crate) label: i32,
    pub(crate) kind: i32,
    pub(crate) oneof: Option<i32>,
    pub(crate) packed: Option<bool>,
    pub(crate) has_default: bool,
    pub(crate) is_proto3_optional: bool,
}

impl<'a> Field<'a> {
    /// The type that the field refers to by name, unless its kind says that there is none.
    pub(crate) fn reference(&self) -> Option<&'a str> {
        let refers = matches!(self.kind, 0 | GROUP | MESSAGE | ENUM);
        (refers && !self.type_name.is_empty()).then_some(self.type_name)
    }
}

/// `TYPE_GROUP`.
pub(crate) const GROUP: i32 = 10;
/// `TYPE_MESSAGE`.
pub(crate) const MESSAGE: i32 = 11;
/// `TYPE_ENUM`.
pub(crate) const ENUM: i32 = 14;

/// `EnumDescriptorProto`.
#[derive(Debug, Default)]
pub(crate) struct Enum<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: Vec<(&'a str, i32)>,
}

/// `ServiceDescriptorProto`.
#[derive(Debug, Default)]
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    pub(crate) methods: Vec<Method<'a>>,
}

/// `MethodDescriptorProto`.
#[derive(Debug, Default)]
pub(crate) struct Method<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: &'a str,
    pub(crate) output: &'a str,
    pub(crate) client_streaming: bool,
    pub(crate) server_streaming: bool,
    pub(crate) idempotency: u64,
}

/// `SourceCodeInfo.Location`, its path as encoded.
#[derive(Debug)]
pub(crate) struct Location<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) span: Fields<'a>,
    pub(crate) comment: &'a str,
}
