//! Messages of streams as bytes, from when they are encoded until they are sent, and from when they
//! are received until they are taken.

use core::ops::Range;
use std::sync::Arc;

use petasos_buf::{MsgBuf, copy_short};
use petasos_call::stream::{Body, Message as Coded};
use petasos_call::{Codec, Encoding, Status};
use petasos_message::{DecodeLimits, Input, Message, Msg, is_aligned, view_native};

use crate::codec::undecodable;
use crate::home::local::{Local, SPARE_BYTES_MAX};
use crate::recode::{SPOKEN, unpacked};
use crate::stream::Encoded;

/// A message's bytes.
pub(crate) enum Piece {
    /// In a buffer of its own, from a place on.
    Own(MsgBuf, usize),
    /// In a buffer with others of its segment.
    Shared(Arc<MsgBuf>, Range<usize>),
}

impl Piece {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Own(buf, start) => &buf[*start..],
            Piece::Shared(buf, range) => &buf[range.clone()],
        }
    }
}

impl Body for Piece {
    fn len(&self) -> usize {
        self.as_slice().len()
    }
}

/// A message to be sent: compressed, if the receiver takes that and it becomes shorter (R8).
pub(super) fn outgoing(Encoded { buf, start, encoding }: Encoded, codec: Codec) -> Coded<Piece> {
    let plain = &buf[start..];
    let codec = codec.for_body(plain.len(), SPOKEN);
    if codec != Codec::IDENTITY {
        let packed = petasos_compress::compress(codec, plain, Vec::new());
        if packed.len() < plain.len() {
            return Coded { encoding, codec, body: Piece::Own(MsgBuf::from_slice(&packed), 0) };
        }
    }
    Coded { encoding, codec: Codec::IDENTITY, body: Piece::Own(buf, start) }
}

/// Takes messages out of what was received: one alone gets a buffer of its own, several share a
/// copy of the whole. Either way they keep what they need and no more.
pub(super) struct Keeper<'a> {
    local: &'a Local,
    bytes: &'a [u8],
    shared: Option<Arc<MsgBuf>>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(local: &'a Local, bytes: &'a [u8], messages: usize) -> Keeper<'a> {
        let shared = (messages > 1).then(|| Arc::new(MsgBuf::from_slice(bytes)));
        Keeper { local, bytes, shared }
    }

    pub(super) fn keep(&self, range: Range<usize>) -> Piece {
        if let Some(shared) = &self.shared {
            return Piece::Shared(shared.clone(), range);
        }
        let mut buf = self.local.calls.borrow_mut().buffer(range.len());
        copy_short(buf.as_mut_slice(), &self.bytes[range]);
        Piece::Own(buf, 0)
    }
}

/// The message in a piece. `local` is the loop of this thread, which takes buffers back. One that
/// is compressed may become as long as `unpacked_bytes_max`.
///
/// # Errors
/// R13: the sender's fault.
pub(super) fn decode<T: Message>(
    local: Option<&Local>,
    Coded { encoding, codec, mut body }: Coded<Piece>,
    unpacked_bytes_max: usize,
) -> Result<Msg<T>, Status> {
    if codec != Codec::IDENTITY {
        let plain = unpacked(codec, body.as_slice(), unpacked_bytes_max)?;
        body = Piece::Own(MsgBuf::from_slice(&plain), 0);
    }
    let bytes = body.as_slice();
    let is_short = bytes.len() <= SPARE_BYTES_MAX;
    let decoded = match (encoding, body) {
        (Encoding::None, _) => return Err(Status::internal("a message without an encoding")),
        (Encoding::Native, Piece::Own(buf, start)) if !is_short => {
            let end = buf.len();
            return Msg::from_native(buf, start..end).map_err(undecodable);
        }
        (Encoding::Native, body) => {
            let bytes = body.as_slice();
            let decoded = match is_short && is_aligned(bytes.as_ptr()) {
                true => view_native::<T>(bytes).map(Msg::from),
                false => Msg::from_native(MsgBuf::from_slice(bytes), 0..bytes.len()),
            };
            recycle(local, body);
            decoded
        }
        (Encoding::Protobuf, body) => {
            let bytes = body.as_slice();
            let limits = DecodeLimits::for_input(bytes.len());
            let decoded = Msg::from_protobuf(Input::Borrowed(bytes), &limits);
            recycle(local, body);
            decoded
        }
    };
    decoded.map_err(undecodable)
}

fn recycle(local: Option<&Local>, body: Piece) {
    if let (Some(local), Piece::Own(buf, _)) = (local, body) {
        local.calls.borrow_mut().give_buffer(buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::untyped::Payload;
    use petasos_call::Code;

    fn encoded(bytes: &[u8]) -> Encoded {
        Encoded { buf: MsgBuf::from_slice(bytes), start: 0, encoding: Encoding::Protobuf }
    }

    #[test]
    fn r8_what_is_long_and_becomes_shorter_is_compressed() {
        for codec in [Codec::GZIP, Codec::LZ4] {
            let message = outgoing(encoded(&[7; 4000]), codec);
            assert_eq!(message.codec, codec);
            assert!(message.body.len() < 400);
            assert_eq!(outgoing(encoded(&[7; 1000]), codec).codec, Codec::IDENTITY, "short");
            let mut state = 1_u32;
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            let noise: Vec<u8> = noise.take(4000).collect();
            let message = outgoing(encoded(&noise), codec);
            assert_eq!((message.codec, message.body.len()), (Codec::IDENTITY, 4000), "noise");
        }
        assert_eq!(
            outgoing(encoded(&[7; 4000]), Codec::from_number(9)).codec,
            Codec::IDENTITY,
            "not spoken"
        );
    }

    #[test]
    fn r8_what_was_compressed_comes_back_within_its_limit() {
        // Field 1 with 4000 bytes.
        let plain = [&[0x0a, 0xa0, 0x1f][..], &[7; 4000]].concat();
        let packed = |codec| outgoing(encoded(&plain), codec);
        for codec in [Codec::IDENTITY, Codec::GZIP, Codec::LZ4] {
            let message = decode::<Payload>(None, packed(codec), plain.len());
            assert_eq!(message.and_then(|message| message.to_bytes()), Ok(plain.clone()));
        }
        let long = decode::<Payload>(None, packed(Codec::GZIP), plain.len() - 1);
        assert_eq!(long.map(|_| ()).map_err(|s| s.code()), Err(Code::ResourceExhausted));
        let unknown = Coded { codec: Codec::from_number(9), ..packed(Codec::IDENTITY) };
        let unknown = decode::<Payload>(None, unknown, plain.len());
        assert_eq!(unknown.map(|_| ()).map_err(|s| s.code()), Err(Code::Unimplemented));
    }
}
