//! A buffer that knows the type of the message in it.
//!
//! The type lies in the room before the image, so that a message is one pointer. It changes hands
//! several times on its way through a service, each time right after it was written. A value of
//! several words would be written in parts and read as a whole there, which processors do only once
//! all stores before are done: also those to memory that another core has.
//!
//! Invariant: from [`TypedBuf::new`] on, the first [`ROOM_BYTES`] of the buffer are a [`Type`] that
//! the buffer owns. What leaves here has zeros there.

use std::sync::Arc;

use petasos_buf::MsgBuf;
use petasos_schema::MessageId;

use super::Types;
use crate::image::grow;
use crate::{ROOM_BYTES, recycle};

/// What type of message an image is. It has no padding, since a buffer has no byte that is not
/// initialised.
#[repr(C)]
struct Type {
    types: Arc<Types>,
    id: MessageId,
    /// Two pointers may lead to one object: 0 or 1.
    may_alias: u32,
}

const _: () = assert!(size_of::<Type>() == size_of::<Arc<Types>>() + 2 * size_of::<u32>());
const _: () = assert!(size_of::<Type>() <= ROOM_BYTES && align_of::<Type>() <= MsgBuf::DATA_ALIGN);

pub(super) struct TypedBuf {
    /// There until this is dropped.
    buf: Option<MsgBuf>,
}

impl TypedBuf {
    /// The image behind the [`ROOM_BYTES`] of a buffer.
    ///
    /// # Panics
    /// If the buffer has no room.
    #[inline]
    pub(super) fn new(types: Arc<Types>, id: MessageId, buf: MsgBuf, may_alias: bool) -> TypedBuf {
        assert!(buf.len() >= ROOM_BYTES, "an image has room before it");
        let mut buf = buf;
        let room = buf.data_ptr().cast::<Type>();
        // SAFETY: the data are aligned for it and at least so long, and nothing of value is there.
        unsafe { room.write(Type { types, id, may_alias: may_alias.into() }) };
        TypedBuf { buf: Some(buf) }
    }

    #[inline]
    fn of(&self) -> &Type {
        let room = self.buf().as_slice().as_ptr().cast::<Type>();
        // SAFETY: the invariant; the buffer is borrowed, and only `of_mut` writes its room.
        unsafe { &*room }
    }

    #[inline]
    fn of_mut(&mut self) -> &mut Type {
        let mut room = self.buf_mut().data_ptr().cast::<Type>();
        // SAFETY: the invariant; the buffer is borrowed mutably.
        unsafe { room.as_mut() }
    }

    #[inline]
    pub(super) fn types(&self) -> &Arc<Types> {
        &self.of().types
    }

    #[inline]
    pub(super) fn id(&self) -> MessageId {
        self.of().id
    }

    /// Two pointers may lead to one object: as in what a peer made.
    #[inline]
    pub(super) fn may_alias(&self) -> bool {
        self.of().may_alias != 0
    }

    /// The same image has another type.
    pub(super) fn retype(&mut self, types: Arc<Types>, id: MessageId) {
        let of = self.of_mut();
        (of.types, of.id) = (types, id);
    }

    #[inline]
    pub(super) fn image(&self) -> &[u8] {
        &self.buf().as_slice()[ROOM_BYTES..]
    }

    #[inline]
    pub(super) fn image_mut(&mut self) -> &mut [u8] {
        &mut self.buf_mut().as_mut_slice()[ROOM_BYTES..]
    }

    /// Makes the image so long. What is behind its old end is unspecified.
    pub(super) fn resize(&mut self, bytes: usize) {
        let bytes = ROOM_BYTES + bytes;
        if self.buf().capacity() < bytes {
            // The type moves with all else.
            grow(self.buf_mut(), bytes);
        }
        self.buf_mut().set_len(bytes);
    }

    /// Takes another image of the same message, in which no two pointers lead to one object.
    pub(super) fn replace(&mut self, image: MsgBuf) {
        let (types, id) = (self.types().clone(), self.id());
        *self = TypedBuf::new(types, id, image, false);
    }

    /// The image behind [`ROOM_BYTES`] of zeros.
    #[inline]
    pub(super) fn into_buf(mut self) -> MsgBuf {
        self.take().expect("it is there until this is dropped")
    }

    /// Takes the buffer, without the type.
    #[inline]
    fn take(&mut self) -> Option<MsgBuf> {
        let mut buf = self.buf.take()?;
        let room = buf.data_ptr().cast::<Type>();
        // SAFETY: the invariant, and nobody has the buffer any more who would use the type.
        unsafe { room.drop_in_place() };
        // Addresses of this process are nobody else's business, wherever the buffer is sent.
        buf.as_mut_slice()[..ROOM_BYTES].fill(0);
        Some(buf)
    }

    #[inline]
    fn buf(&self) -> &MsgBuf {
        self.buf.as_ref().expect("it is there until this is dropped")
    }

    #[inline]
    fn buf_mut(&mut self) -> &mut MsgBuf {
        self.buf.as_mut().expect("it is there until this is dropped")
    }
}

/// The buffer goes to the next message.
impl Drop for TypedBuf {
    fn drop(&mut self) {
        if let Some(buf) = self.take() {
            recycle(buf);
        }
    }
}
