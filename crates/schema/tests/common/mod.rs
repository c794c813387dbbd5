//! Schemas for tests, from text and at random.
#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test helper fails its test")]

pub mod random;

use std::path::Path;

use petasos_schema::{LoadError, MessageId, Options, Schema};
pub use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// Where the fixtures are.
pub const PROTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");

/// Compiles a fixture.
pub fn fixture(name: &str) -> Schema {
    petasos_schema::compile([name], [PROTOS], &Options::default()).unwrap().schema
}

/// One file that is only text.
struct Text(String);

impl FileResolver for Text {
    fn resolve_path(&self, _path: &Path) -> Option<String> {
        None
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            "test.proto" => Ok(File::from_source(name, &self.0)?),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// The encoded descriptors of proto3 declarations, with source information.
pub fn descriptors(declarations: &str) -> Vec<u8> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Text(format!("syntax = \"proto3\"; {declarations}")));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file("test.proto").unwrap().encode_file_descriptor_set()
}

/// The schema of proto3 declarations.
pub fn schema(declarations: &str) -> Schema {
    Schema::from_descriptors(&descriptors(declarations), &Options::default()).unwrap()
}

/// Loads descriptors that were made by hand.
pub fn load(set: &FileDescriptorSet) -> Result<Schema, LoadError> {
    Schema::from_descriptors(&set.encode_to_vec(), &Options::default())
}

/// The id of a message by its full name.
pub fn id(schema: &Schema, name: &str) -> MessageId {
    schema.message_by_name(name).unwrap_or_else(|| panic!("no message {name}")).0
}
