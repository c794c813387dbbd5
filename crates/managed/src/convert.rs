//! Converts messages from protobuf's encoding to images for the service, and back (R4).
//!
//! Callers and servers without compiled types have messages of bytes, but the service knows only
//! images. So this module decodes such messages by the plans of the process's own schema, and
//! encodes them again. Callers and servers with types need no conversion: their messages are images
//! already.

use std::sync::Arc;

use petasos_buf::MsgBuf;
use petasos_call::Status;
use petasos_message::{DecodeError, DecodeLimits, Input, NativeMsg, Types};
use petasos_schema::{Limits, MessageId, Schema};

/// Which message of which method is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    /// The index of the service.
    pub(crate) service: usize,
    /// The index of the method in its service.
    pub(crate) method: u16,
    pub(crate) is_response: bool,
}

/// The types of a service's messages.
pub(crate) struct Converter {
    types: Arc<Types>,
    /// Requests and responses, by the index of the method.
    methods: Vec<[MessageId; 2]>,
}

impl Converter {
    /// Of a service of a compact schema.
    ///
    /// # Errors
    /// Why the schema cannot be used: the fault of whoever described the service.
    pub(crate) fn new(service: &str, schema: &[u8]) -> Result<Converter, Status> {
        let unusable = |why: &dyn core::fmt::Display| {
            Status::failed_precondition(format!("messages of {service} cannot be converted: {why}"))
        };
        let schema = Schema::decode(schema, &Limits::default()).map_err(|why| unusable(&why))?;
        let (_, found) = schema
            .service_by_name(service)
            .ok_or_else(|| unusable(&"its description does not contain it"))?;
        let methods = found.methods().iter().map(|method| [method.input(), method.output()]);
        let methods = methods.collect();
        let types = Types::new(schema).map_err(|why| unusable(&why))?;
        Ok(Converter { types, methods })
    }

    fn message(&self, meant: Meant) -> Result<MessageId, Status> {
        let method = self.methods.get(usize::from(meant.method));
        let messages = method.ok_or_else(|| Status::unimplemented("there is no such method"))?;
        Ok(messages[usize::from(meant.is_response)])
    }

    /// Decodes a message that this process has encoded.
    ///
    /// # Errors
    /// The bytes are not such a message (R13).
    pub(crate) fn image(&self, meant: Meant, bytes: &[u8]) -> Result<NativeMsg, Status> {
        let (id, limits) = (self.message(meant)?, DecodeLimits::for_input(bytes.len()));
        let input = Input::Borrowed(bytes);
        let decoded = NativeMsg::from_protobuf(&self.types, id, input, &limits, usize::MAX);
        decoded.map_err(|error| self.undecodable(id, error))
    }

    /// Encodes a message that the service has as an image.
    ///
    /// # Errors
    /// The image is none of such a message (R13), or its encoding would be too long.
    pub(crate) fn protobuf(&self, meant: Meant, image: &[u8]) -> Result<MsgBuf, Status> {
        let id = self.message(meant)?;
        let message = NativeMsg::received(&self.types, id, image);
        let message = message.map_err(|error| self.undecodable(id, error))?;
        let encoded = message.to_protobuf(0);
        let encoded = encoded.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        Ok(encoded.into_buf())
    }

    /// The status of a call whose message is none of its type (R13).
    fn undecodable(&self, id: MessageId, error: DecodeError) -> Status {
        let name = self.types.schema().message(id).full_name();
        let text = format!("this is no message of type {name}: {error}");
        match error {
            DecodeError::TooLarge => Status::resource_exhausted(text),
            _ => Status::internal(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use petasos_call::Code;

    use super::*;

    const REQUEST: Meant = Meant { service: 0, method: 0, is_response: false };
    const RESPONSE: Meant = Meant { is_response: true, ..REQUEST };

    fn schema() -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/tests/protos");
        let compiled = petasos_schema::compile(["hello.proto"], [folder], &Default::default());
        compiled.expect("it is well-formed").schema.encode()
    }

    fn code<T>(result: Result<T, Status>) -> Code {
        result.map(|_| ()).expect_err("it is refused").code()
    }

    #[test]
    fn r4_bytes_become_an_image_and_are_the_same_afterwards() {
        let converter = Converter::new("hello.Greeter", &schema()).expect("it is described");
        // A name, and a field that the schema does not have.
        let bytes = b"\x0a\x05world\xa2\x06\x03new";
        for meant in [REQUEST, RESPONSE] {
            let image = converter.image(meant, bytes).expect("it is such a message");
            let again = converter.protobuf(meant, image.image()).expect("it is such an image");
            assert_eq!(again.as_slice(), bytes);
        }
    }

    #[test]
    fn r13_what_is_no_such_message_has_a_status() {
        let converter = Converter::new("hello.Greeter", &schema()).expect("it is described");
        for bytes in [&b"\x0a\x05wor"[..], b"\x0a\x01\xff", b"\xff"] {
            assert_eq!(code(converter.image(REQUEST, bytes)), Code::Internal, "{bytes:?}");
        }
        let image = converter.image(REQUEST, b"\x0a\x05world").expect("it is such a message");
        for end in 0..image.image().len() {
            let cut = converter.protobuf(REQUEST, &image.image()[..end]);
            assert_eq!(code(cut), Code::Internal, "{end} bytes");
        }
        let other = Meant { method: 99, ..REQUEST };
        assert_eq!(code(converter.image(other, b"")), Code::Unimplemented);
    }

    #[test]
    fn a_service_that_its_schema_does_not_have_has_no_types() {
        for (service, schema) in [("hello.None", &schema()[..]), ("hello.Greeter", b"")] {
            assert_eq!(code(Converter::new(service, schema)), Code::FailedPrecondition);
        }
    }
}
