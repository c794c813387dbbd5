//! Messages as bytes.

use petasos_call::Status;
use petasos_message::{DecodeLimits, Input, Msg, to_protobuf};

use super::Payload;
use crate::codec::unencodable;

impl Payload {
    /// A message with these bytes, in protobuf's encoding.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the bytes are no protobuf message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Msg<Payload>, Status> {
        let limits = DecodeLimits::for_input(bytes.len());
        Msg::from_protobuf(Input::Borrowed(bytes), &limits)
            .map_err(|error| Status::invalid_argument(format!("not a message: {error}")))
    }

    /// The message's bytes, as they arrived.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if they are longer than a message may be.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Status> {
        let image = to_protobuf(self, 0).map_err(unencodable)?;
        Ok(image.into_buf().as_slice().to_vec())
    }
}
