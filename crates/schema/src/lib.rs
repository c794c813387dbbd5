//! Protobuf schemas: a checked model, a canonical hash, and what makes two schemas compatible.
//!
//! A [`Schema`] holds proto3 messages, enums and services in arenas, addressed by [`MessageId`],
//! [`EnumId`] and [`ServiceId`]. It is made from an encoded `FileDescriptorSet`
//! ([`Schema::from_descriptors`]: bytes of a peer's reflection, or of an application), from .proto
//! files (`compile`, behind the cargo feature of that name, so that programs that only use a model
//! carry no parser), or from its own compact form ([`Schema::decode`]).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
//! let compiled = petasos_schema::compile(["hello.proto"], [dir], &Default::default())?;
//! let schema = &compiled.schema;
//! let (id, request) = schema.message_by_name("hello.HelloRequest").ok_or("no such message")?;
//! for field in request.fields() {
//!     println!("{} = {}: {:?}", field.name(), field.number(), field.kind());
//! }
//! println!("{} {}", request.hash(), schema.hash());
//! # assert_eq!(schema.compare_messages(id, schema, id), petasos_schema::Compatibility::Equal);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants of every `Schema`, however it was made:
//! - arenas are sorted by full name, fields, oneofs and enum values by number (a oneof by its first
//!   field), methods by name: the order of declaration cannot be told from a model;
//! - every id in it is valid in it; names are unique, and identifiers in the sense of protobuf;
//! - what it contains is proto3: there are no groups, required fields, extensions or defaults.
//!
//! Input from outside never causes a panic, and [`Limits`] bound how much memory this crate
//! allocates for it.
//!
//! # The hash
//!
//! Two processes use the native encoding for a message if its hashes at both ends are equal,
//! otherwise protobuf's encoding if the schemas are compatible at all (`compare_messages`). So a
//! message's hash covers exactly what determines its layout in memory and its marshalling plan:
//! each field's number, kind, cardinality (presence, packing, a map's key) and oneof, the same for
//! the messages in it, and whether these lead back to it ([`Schema::is_recursive`]). In return,
//! layouts and plans may depend on nothing else: not on names, ids, or the length of a cycle.
//!
//! Deliberately left out, so that a rolling upgrade keeps the native encoding:
//! - names of messages, fields, oneofs and packages: no binary encoding carries them. A renamed
//!   field changes only JSON, which is never exchanged on the strength of a hash;
//! - an enum's values: proto3 enums are open, any number is a value in memory and on the wire;
//! - comments, files, options, order of declaration, and numbers that are reserved.
//!
//! A service's hash covers its full name and its methods' names, since calls are addressed by them,
//! with the directions of streaming and both messages' hashes. The hash of a whole schema covers
//! the hashes of all services and messages, with their names. Where services differ (a method was
//! added), the messages' hashes still tell which methods can be called natively.
//!
//! Hashes are 128 bits of SHA-256, so two honest schemas never share one by chance. An attacker who
//! can choose both schemas could find a collision in 2^64 steps, and can give one other names at no
//! cost. So a table that strangers share is keyed by the [`Digest`] of [`Schema::encode`].
//!
//! # Layouts
//!
//! [`Layouts`] says where each field of a message is in memory, according to
//! `docs/spec/message.md`. It is arithmetic on the model; other crates use such memory.
//!
//! # Descriptors by file
//!
//! [`Files`] finds encoded `FileDescriptorProto`s by name, symbol and extension, and makes them
//! from schemas that have none. Servers of reflection answer from it, and their clients collect
//! files in it.
//!
//! Boundary rule: no I/O except in `compile`, and nothing of marshalling or the network.

mod build;
mod check;
mod compact;
mod compare;
#[cfg(feature = "compile")]
mod compile;
mod cycles;
mod descriptor;
mod digest;
mod error;
mod files;
mod hash;
mod hashing;
mod ids;
mod layout;
mod limits;
mod link;
mod model;
mod print;
mod schema;
mod service;

pub use check::Problem;
pub use compact::{DecodeError, FORMAT_VERSION};
pub use compare::{Compatibility, Difference, Mismatch};
#[cfg(feature = "compile")]
pub use compile::{CompileError, Compiled, compile};
pub use digest::{Digest, NoDigest};
pub use error::{LoadError, Position, Refusal};
pub use files::{DescriptorFile, Files};
pub use hash::Hash;
pub use ids::{CycleId, EnumId, MessageId, OneofIndex, ServiceId};
pub use layout::{
    EntryLayout, FieldLayout, LAYOUT_VERSION, Layouts, MessageLayout, OBJECT_ALIGN, Part,
    PresenceLayout, entry,
};
pub use limits::Limits;
pub use link::Options;
pub use model::{Cardinality, Enum, EnumValue, Field, Kind, Message, Oneof};
pub use schema::Schema;
pub use service::{Idempotency, Method, Service};
