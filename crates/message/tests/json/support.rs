//! One schema, as we and as the oracle see it.

use petasos_message::{
    DecodeLimits, FromJson, FromJsonError, Input, LocatedError, Plans, ToJson, ToJsonError,
    json_to_protobuf, protobuf_to_json,
};
use petasos_schema::{Options, Schema};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

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

    /// All well-known types, in messages of every form.
    pub fn known() -> Fixture {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/json");
        let mut compiler = protox::Compiler::new([directory]).unwrap();
        compiler.include_imports(true);
        Fixture::of(&compiler.open_file("known.proto").unwrap().encode_file_descriptor_set())
    }

    pub fn descriptor(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(name).unwrap()
    }

    /// Our JSON of a message in protobuf.
    pub fn print(&self, name: &str, bytes: &[u8]) -> Result<String, ToJsonError> {
        self.print_as(name, bytes, &ToJson::default())
    }

    pub fn print_as(&self, name: &str, bytes: &[u8], how: &ToJson) -> Result<String, ToJsonError> {
        let (id, _) = self.schema.message_by_name(name).unwrap();
        let limits = DecodeLimits::for_input(bytes.len());
        protobuf_to_json(&self.schema, &self.plans, id, Input::Borrowed(bytes), &limits, how)
    }

    /// Our protobuf of a message in JSON.
    pub fn parse(&self, name: &str, text: &str) -> Result<Vec<u8>, FromJsonError> {
        self.parse_as(name, text, &FromJson::default())
    }

    pub fn parse_as(
        &self,
        name: &str,
        text: &str,
        how: &FromJson,
    ) -> Result<Vec<u8>, FromJsonError> {
        self.located(name, text, how).map_err(|located| located.error)
    }

    pub fn located(&self, name: &str, text: &str, how: &FromJson) -> Result<Vec<u8>, LocatedError> {
        let (id, _) = self.schema.message_by_name(name).unwrap();
        let limits = DecodeLimits::for_input(text.len());
        let image = json_to_protobuf(&self.schema, &self.plans, id, text, &limits, how, 0)?;
        Ok(image.into_buf().as_slice().to_vec())
    }

    /// What the oracle reads in a JSON text.
    pub fn oracle(&self, name: &str, text: &str) -> Result<DynamicMessage, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        DynamicMessage::deserialize(self.descriptor(name), &mut json)
    }

    /// What the oracle reads in protobuf.
    pub fn decoded(&self, name: &str, bytes: &[u8]) -> DynamicMessage {
        DynamicMessage::decode(self.descriptor(name), bytes).unwrap()
    }
}
