//! Messages of streams as bytes, from when they are encoded until they are sent, and from when they
//! are received until they are taken.

use core::ops::Range;
use std::sync::Arc;

use petasos_buf::{MsgBuf, copy_short};
use petasos_call::stream::{Body, Message as Coded};
use petasos_call::{Codec, CodecSet, Encoding, Status};
use petasos_message::{DecodeLimits, Input, Message, Msg, is_aligned, view_native};

use crate::codec::undecodable;
use crate::home::local::{Local, SPARE_BYTES_MAX};
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

/// A message to be sent.
pub(super) fn outgoing(Encoded { buf, start, encoding }: Encoded) -> Coded<Piece> {
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

/// The message in a piece. `local` is the loop of this thread, which takes buffers back.
///
/// # Errors
/// R13: the sender's fault.
pub(super) fn decode<T: Message>(
    local: Option<&Local>,
    Coded { encoding, codec, body }: Coded<Piece>,
) -> Result<Msg<T>, Status> {
    if codec != Codec::IDENTITY {
        codec.check(CodecSet::IDENTITY)?;
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
