//! Encoded messages of streams: those waiting to be sent, and those received and not yet taken.

use core::ops::Range;
use std::sync::Arc;

use petasos_buf::{MsgBuf, copy_short};
use petasos_call::stream::{Body, LONE_HEAD_BYTES, Message as Coded, Messages};
use petasos_call::{Codec, Status};
use petasos_endpoint::{Context, Payload};
use petasos_message::{Message, Msg, buffer};
use petasos_rpc::codec::{Encoded, decode, decode_in};
use petasos_rpc::recode::{SPOKEN, unpacked};

use crate::buffers::{free, kept};

/// A message's bytes.
pub(crate) enum EncodedMessage {
    /// In a buffer of its own, starting at this offset. A message to be sent may have a tail.
    Own(MsgBuf, usize),
    /// In a buffer shared with the other messages of its segment.
    Shared(Arc<MsgBuf>, Range<usize>),
}

impl EncodedMessage {
    /// The bytes of a received message.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            EncodedMessage::Own(buf, start) => &buf[*start..],
            EncodedMessage::Shared(buf, range) => &buf[range.clone()],
        }
    }

    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        match self {
            EncodedMessage::Own(buf, start) => buf.copy_range(*start, to),
            EncodedMessage::Shared(buf, range) => to.copy_from_slice(&buf[range.clone()]),
        }
    }

    /// Returns the message after its head. Nothing is copied if the buffer has room for the head,
    /// as buffers of messages encoded for sending do.
    pub(crate) fn behind(self, head: [u8; LONE_HEAD_BYTES]) -> MsgBuf {
        let mut buf = match self {
            EncodedMessage::Own(buf, start) if start == LONE_HEAD_BYTES => buf,
            message => {
                let mut buf = buffer(LONE_HEAD_BYTES + message.len());
                message.copy_to(&mut buf[LONE_HEAD_BYTES..]);
                buf
            }
        };
        copy_short(&mut buf.as_mut_slice()[..LONE_HEAD_BYTES], &head);
        buf
    }
}

impl Body for EncodedMessage {
    fn len(&self) -> usize {
        match self {
            EncodedMessage::Own(buf, start) => buf.len() - start,
            EncodedMessage::Shared(_, range) => range.len(),
        }
    }
}

/// Prepares a message for sending. Compresses it if the receiver accepts that and it gets shorter
/// (R8).
pub(crate) fn outgoing(
    Encoded { mut buf, start, encoding }: Encoded,
    codec: Codec,
) -> Coded<EncodedMessage> {
    let codec = codec.for_body(buf.len() - start, SPOKEN);
    if codec != Codec::IDENTITY {
        buf.flatten();
        let plain = &buf[start..];
        let packed = petasos_call::compress::compress(codec, plain, Vec::new());
        if packed.len() < plain.len() {
            let mut body = buffer(LONE_HEAD_BYTES + packed.len());
            body[LONE_HEAD_BYTES..].copy_from_slice(&packed);
            return Coded { encoding, codec, body: EncodedMessage::Own(body, LONE_HEAD_BYTES) };
        }
    }
    Coded { encoding, codec: Codec::IDENTITY, body: EncodedMessage::Own(buf, start) }
}

/// Takes messages out of a received segment. A single message gets a buffer of its own; several
/// share one. Long messages stay in the buffer they were received in. Short ones are copied into
/// buffers of just the needed size.
pub(crate) enum Keeper<'a> {
    Nothing,
    /// The message is copied from this.
    Received(Payload<'a>),
    /// The buffer becomes that of the only message.
    Own(MsgBuf),
    /// All messages share this buffer.
    Shared(Arc<MsgBuf>),
}

impl<'a> Keeper<'a> {
    /// For a segment with this many messages, of `bytes` in total.
    pub(crate) fn new<S>(
        cx: &mut Context<S>,
        payload: Payload<'a>,
        (messages, bytes): (usize, usize),
    ) -> Keeper<'a> {
        // A short message with a long head must not keep a long buffer alive.
        let mostly_messages = bytes >= payload.len() / 2;
        let kept = match payload {
            payload if messages > 0 && mostly_messages => kept(cx, payload),
            payload => Err(payload),
        };
        match (messages, kept) {
            (0, Err(payload)) => {
                free(cx, payload);
                Keeper::Nothing
            }
            (1, Ok(buf)) => Keeper::Own(buf),
            (_, Ok(buf)) => Keeper::Shared(Arc::new(buf)),
            (1, Err(payload)) => Keeper::Received(payload),
            (_, Err(payload)) => {
                let mut copy = buffer(payload.len());
                copy_short(copy.as_mut_slice(), &payload);
                free(cx, payload);
                Keeper::Shared(Arc::new(copy))
            }
        }
    }

    /// Takes the message at `range`.
    pub(crate) fn keep(&mut self, range: Range<usize>) -> EncodedMessage {
        match self {
            Keeper::Shared(buf) => EncodedMessage::Shared(buf.clone(), range),
            Keeper::Received(payload) => {
                let mut buf = buffer(range.len());
                copy_short(buf.as_mut_slice(), &payload[range]);
                EncodedMessage::Own(buf, 0)
            }
            Keeper::Own(_) | Keeper::Nothing => {
                let Keeper::Own(mut buf) = core::mem::replace(self, Keeper::Nothing) else {
                    unreachable!("a segment has as many messages as the keeper was made for")
                };
                buf.set_len(range.end);
                EncodedMessage::Own(buf, range.start)
            }
        }
    }

    /// Frees what is left, after all messages have been taken.
    pub(crate) fn end<S>(self, cx: &mut Context<S>) {
        if let Keeper::Received(payload) = self {
            free(cx, payload);
        }
    }
}

/// The number of messages, and their total size in bytes.
pub(crate) fn extent(messages: &Messages<Range<usize>>) -> (usize, usize) {
    (messages.len(), messages.iter().map(|message| message.body.len()).sum())
}

/// Decodes a message. A compressed one may decompress to at most `unpacked_bytes_max` bytes.
///
/// # Errors
/// R13: the sender is at fault.
pub(crate) fn decoded<T: Message>(
    Coded { encoding, codec, body }: Coded<EncodedMessage>,
    unpacked_bytes_max: usize,
) -> Result<Msg<T>, Status> {
    if codec != Codec::IDENTITY {
        let plain = unpacked(codec, body.as_slice(), unpacked_bytes_max)?;
        return decode(encoding, &plain);
    }
    match body {
        EncodedMessage::Own(buf, start) => {
            let end = buf.len();
            decode_in(encoding, buf, start..end)
        }
        EncodedMessage::Shared(buf, range) => decode(encoding, &buf[range]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petasos_call::{Code, Encoding};
    use petasos_rpc::dynamic::Payload;

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
            let message = decoded::<Payload>(packed(codec), plain.len());
            assert_eq!(message.and_then(|message| message.to_bytes()), Ok(plain.clone()));
        }
        let long = decoded::<Payload>(packed(Codec::GZIP), plain.len() - 1);
        assert_eq!(long.map(|_| ()).map_err(|s| s.code()), Err(Code::ResourceExhausted));
        let unknown = Coded { codec: Codec::from_number(9), ..packed(Codec::IDENTITY) };
        let unknown = decoded::<Payload>(unknown, plain.len());
        assert_eq!(unknown.map(|_| ()).map_err(|s| s.code()), Err(Code::Unimplemented));
    }
}
