//! Schemas and messages for the tests beside this file.

use petasos_message::{DecodeError, DecodeLimits, DynamicMsg, Input, Plans};
use petasos_schema::{Options, Schema};
use prost_reflect::{DescriptorPool, MessageDescriptor};

/// One schema, as we and as the oracle see it.
pub struct Fixture {
    pub schema: Schema,
    pub plans: Plans,
    pub pool: DescriptorPool,
}

impl Fixture {
    pub fn of(descriptors: &[u8]) -> Fixture {
        let schema = Schema::from_descriptors(descriptors, &Options::default()).unwrap();
        let plans = Plans::of(&schema).unwrap();
        Fixture { plans, schema, pool: DescriptorPool::decode(descriptors).unwrap() }
    }

    /// The schema of proto3 declarations.
    pub fn text(declarations: &str) -> Fixture {
        use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
        struct Text(String);
        impl FileResolver for Text {
            fn open_file(&self, name: &str) -> Result<File, protox::Error> {
                match name {
                    "test.proto" => Ok(File::from_source(name, &self.0)?),
                    _ => Err(protox::Error::file_not_found(name)),
                }
            }
        }
        let mut resolver = ChainFileResolver::new();
        resolver.add(Text(format!("syntax = \"proto3\"; {declarations}")));
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true);
        Fixture::of(&compiler.open_file("test.proto").unwrap().encode_file_descriptor_set())
    }

    /// Everything, deep and wide.
    pub fn wide() -> Fixture {
        Fixture::text(
            "message M {
                M a = 1; repeated M b = 2; map<int32, M> c = 3; string d = 4; bytes e = 5;
                repeated int32 f = 6; oneof o { M g = 7; string h = 8; } Wide w = 9;
                repeated Wide v = 10;
             }
             message Wide {
                string a = 1; string b = 2; string c = 3; string d = 4; string e = 5;
                string f = 6; string g = 7; string h = 8; string i = 9; string j = 10;
                string k = 11; string l = 12;
             }",
        )
    }

    pub fn descriptor(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(name).unwrap()
    }

    pub fn decode(&self, name: &str, bytes: &[u8]) -> Result<DynamicMsg<'_>, DecodeError> {
        self.decode_within(name, bytes, &DecodeLimits::for_input(bytes.len()))
    }

    pub fn decode_within(
        &self,
        name: &str,
        bytes: &[u8],
        limits: &DecodeLimits,
    ) -> Result<DynamicMsg<'_>, DecodeError> {
        let (id, _) = self.schema.message_by_name(name).unwrap();
        DynamicMsg::from_protobuf(self.plans.message(id), Input::Borrowed(bytes), limits)
    }

    /// What becomes of `bytes` when they are decoded and encoded.
    pub fn recode(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Ok(encode(&self.decode(name, bytes)?))
    }
}

/// The protobuf encoding, the same in a buffer of its own and behind what is there already.
pub fn encode(message: &DynamicMsg<'_>) -> Vec<u8> {
    let image = message.to_protobuf(0).unwrap().into_buf();
    let mut all = vec![0xee];
    message.append_protobuf(&mut all).unwrap();
    assert_eq!(all[1..], *image.as_slice());
    all.split_off(1)
}

/// Bytes of one record, by pieces.
pub fn record(pieces: &[&[u8]]) -> Vec<u8> {
    pieces.concat()
}

/// `tag`, then a length, then `bytes`; all short.
pub fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
    record(&[&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes])
}
