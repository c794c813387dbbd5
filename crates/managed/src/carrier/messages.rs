//! Converts messages of streams between the service's form and the form that the stream's end uses.

use petasos_call::stream::Message;
use petasos_call::{Codec, Encoding, Status};

use crate::convert::Meant;
use crate::services::KnownServices;

/// A message as the service has it, or as protobuf: its type is `meant` then.
pub(super) fn message_of(
    services: &KnownServices,
    image: Vec<u8>,
    meant: Option<Meant>,
) -> Result<Message<Vec<u8>>, Status> {
    let (encoding, body) = match meant {
        None => (Encoding::Native, image),
        Some(meant) => (Encoding::Protobuf, services.protobuf(meant, &image)?.to_vec()),
    };
    Ok(Message { encoding, codec: Codec::IDENTITY, body })
}

/// A message as the service is to have it. It may be protobuf if its type is `meant`.
pub(super) fn as_image(
    services: &KnownServices,
    message: Message<Vec<u8>>,
    meant: Option<Meant>,
) -> Result<Message<Vec<u8>>, Status> {
    match (message.encoding, message.codec, meant) {
        (Encoding::Native, Codec::IDENTITY, _) => Ok(message),
        (Encoding::Protobuf, Codec::IDENTITY, Some(meant)) => {
            let body = services.image(meant, &message.body)?.image().to_vec();
            Ok(Message { encoding: Encoding::Native, codec: Codec::IDENTITY, body })
        }
        _ => Err(Status::internal("the message is in a form that was not agreed on")),
    }
}
