//! Messages and ends of calls, as the hub has them and as the loop takes them.

use petasos::Status;
use petasos::relay::Encoding;
use petasos_message::{Image, NativeMsg, ROOM_BYTES};
use petasos_service::{RemoteEnd, RemoteOutcome};

use super::mail::Item;

/// A message behind room for its head: its image, or protobuf.
pub(super) fn message_in(message: NativeMsg, is_native: bool) -> Result<(Encoding, Image), Status> {
    if is_native {
        let mut head = message.into_buf();
        let tail = head.take_tail();
        return Ok((Encoding::Native, Image { head, tail }));
    }
    let image = message.to_protobuf(ROOM_BYTES);
    let image = image.map_err(|error| Status::resource_exhausted(error.to_string()))?;
    Ok((Encoding::Protobuf, image))
}

pub(super) fn encoded(message: &NativeMsg) -> Result<Vec<u8>, Status> {
    let image = message.to_protobuf(0);
    let image = image.map_err(|error| Status::resource_exhausted(error.to_string()))?;
    Ok(image.into_buf().as_slice().to_vec())
}

pub(super) fn failure(status: Status, has_not_run: bool) -> RemoteOutcome<'static> {
    let (metadata, trailers) = Default::default();
    RemoteOutcome { result: Err(status), has_not_run, metadata, trailers }
}

pub(super) fn end_item(end: RemoteEnd) -> Item {
    let RemoteEnd { status, message, metadata, .. } = end;
    let trailers = status.as_ref().map(|status| status.metadata().clone()).unwrap_or_default();
    let result = match status {
        Some(status) if status.code() != petasos::Code::Ok => Err(status),
        _ => message.as_ref().map(encoded).transpose(),
    };
    Item::End { result, metadata, trailers }
}
