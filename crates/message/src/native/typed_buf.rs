//! A buffer that knows the type of the message in it.
//!
//! The type lies in the room before the image, so that a message is one pointer. It changes hands
//! several times on its way through a service, each time right after it was written. A value of
//! several words would be written in parts and read as a whole there, which processors do only once
//! all stores before are done: also those to memory that another core has.
//!
//! An image has [`ROOM_BYTES`] before it if it was made here. One that was received has only the
//! head of its call there, [`RECEIVED_AT`] bytes: it stays where it is, since it may be long. So
//! the type begins before the data, in the room for packet 0's header, which is written when the
//! buffer is sent and not before.
//!
//! Invariant: from [`TypedBuf::new`] on, the [`Type`] at [`TypedBuf::place`] is initialised, and
//! the buffer owns it. What leaves here has zeros there.

use std::sync::Arc;

use petasos_buf::{HEADER_BYTES, MsgBuf, Segment};
use petasos_schema::MessageId;

use super::Types;
use crate::image::grow;
use crate::{ROOM_BYTES, buffer, recycle};

/// Where an image begins in the buffer that it was received in: behind the head of its call (R5).
pub(super) const RECEIVED_AT: usize = 8;

/// What type of message an image is. It has no padding, since a buffer has no byte that is not
/// initialised.
#[repr(C)]
struct Type {
    types: Arc<Types>,
    id: MessageId,
    /// Two pointers may lead to one object: 0 or 1.
    may_alias: u16,
    /// Where the image begins: [`ROOM_BYTES`] or [`RECEIVED_AT`].
    start: u16,
}

/// Bytes of the type that lie before the data.
const BEFORE_BYTES: usize = size_of::<Type>() - RECEIVED_AT;

const _: () = assert!(size_of::<Type>() == size_of::<Arc<Types>>() + 2 * size_of::<u32>());
const _: () = assert!(BEFORE_BYTES <= HEADER_BYTES && RECEIVED_AT <= ROOM_BYTES);
const _: () = assert!(BEFORE_BYTES.is_multiple_of(align_of::<Type>()));
const _: () = assert!(align_of::<Type>() <= MsgBuf::DATA_ALIGN);

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
        let start = ROOM_BYTES as u16;
        TypedBuf::with(Type { types, id, may_alias: may_alias.into(), start }, buf)
    }

    /// The image behind the [`RECEIVED_AT`] bytes of a buffer, of which two pointers may lead to
    /// one object.
    ///
    /// # Panics
    /// If the buffer is shorter.
    #[inline]
    pub(super) fn received(types: Arc<Types>, id: MessageId, buf: MsgBuf) -> TypedBuf {
        TypedBuf::with(Type { types, id, may_alias: 1, start: RECEIVED_AT as u16 }, buf)
    }

    #[inline]
    fn with(of: Type, buf: MsgBuf) -> TypedBuf {
        let mut buf = buf;
        assert!(buf.as_slice().len() >= usize::from(of.start), "an image has room before it");
        // SAFETY: the place is aligned for it and has so many bytes, and nothing of value is there:
        // no packet of the buffer is being sent.
        unsafe { TypedBuf::place(&mut buf).write(of) };
        TypedBuf { buf: Some(buf) }
    }

    /// Where the type lies: from [`BEFORE_BYTES`] before the data on.
    #[inline]
    fn place(buf: &mut MsgBuf) -> *mut Type {
        // SAFETY: the room for a header is before the data, in the same allocation.
        unsafe { buf.data_ptr().as_ptr().sub(BEFORE_BYTES).cast() }
    }

    #[inline]
    fn of(&self) -> &Type {
        // SAFETY: as for `place`.
        let place = unsafe { self.buf().as_ptr().sub(BEFORE_BYTES).cast::<Type>() };
        // SAFETY: the invariant; the buffer is borrowed, and only `of_mut` writes there.
        unsafe { &*place }
    }

    #[inline]
    fn of_mut(&mut self) -> &mut Type {
        // SAFETY: the invariant; the buffer is borrowed mutably.
        unsafe { &mut *TypedBuf::place(self.buf_mut()) }
    }

    #[inline]
    fn start(&self) -> usize {
        self.of().start.into()
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

    /// The image, without what is attached to it.
    #[inline]
    pub(super) fn image(&self) -> &[u8] {
        &self.buf().as_slice()[self.start()..]
    }

    /// Bytes of the image, with what is attached to it.
    #[inline]
    pub(super) fn image_bytes(&self) -> usize {
        self.buf().len() - self.start()
    }

    /// Copies the image, with what is attached to it, to a place of [`Self::image_bytes`].
    pub(super) fn copy_to(&self, to: &mut [u8]) {
        self.buf().copy_range(self.start(), to);
    }

    /// What is attached to the image.
    #[inline]
    pub(super) fn tail(&self) -> &[Segment] {
        self.buf().attached()
    }

    /// Whether something is attached to the image.
    #[inline]
    pub(super) fn has_tail(&self) -> bool {
        self.buf().has_tail()
    }

    /// Copies what is attached behind the image.
    #[cold]
    pub(super) fn flatten(&mut self) {
        let (of, mut buf) = self.take().expect("it is there until this is dropped");
        buf.flatten();
        *self = TypedBuf::with(of, buf);
    }

    #[inline]
    pub(super) fn image_mut(&mut self) -> &mut [u8] {
        let start = self.start();
        &mut self.buf_mut().as_mut_slice()[start..]
    }

    /// Makes the image so long. What is behind its old end is unspecified.
    pub(super) fn resize(&mut self, bytes: usize) {
        let bytes = self.start() + bytes;
        if self.buf().capacity() < bytes {
            let (of, mut buf) = self.take().expect("it is there until this is dropped");
            grow(&mut buf, bytes);
            *self = TypedBuf::with(of, buf);
        }
        self.buf_mut().set_len(bytes);
    }

    /// Takes another image of the same message, in which no two pointers lead to one object.
    pub(super) fn replace(&mut self, image: MsgBuf) {
        let (types, id) = (self.types().clone(), self.id());
        *self = TypedBuf::new(types, id, image, false);
    }

    /// The image behind [`ROOM_BYTES`], whose contents are unspecified, with what is attached.
    #[inline]
    pub(super) fn into_buf(mut self) -> MsgBuf {
        let (of, buf) = self.take().expect("it is there until this is dropped");
        match usize::from(of.start) {
            ROOM_BYTES => buf,
            start => moved(buf, start),
        }
    }

    /// Takes the type, and the buffer without it.
    #[inline]
    fn take(&mut self) -> Option<(Type, MsgBuf)> {
        let mut buf = self.buf.take()?;
        let place = TypedBuf::place(&mut buf);
        // SAFETY: the invariant, and nobody has the buffer any more who would use the type. Zeros
        // are put there, since addresses of this process are nobody else's business, wherever the
        // buffer is sent.
        let of = unsafe {
            let of = place.read();
            place.write_bytes(0, 1);
            of
        };
        Some((of, buf))
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

/// The image that begins at `start`, behind room.
#[cold]
fn moved(buf: MsgBuf, start: usize) -> MsgBuf {
    let image = &buf.as_slice()[start..];
    let mut roomy = buffer(ROOM_BYTES + image.len());
    roomy.as_mut_slice()[ROOM_BYTES..].copy_from_slice(image);
    recycle(buf);
    roomy
}

/// The buffer goes to the next message.
impl Drop for TypedBuf {
    #[inline]
    fn drop(&mut self) {
        if let Some((_, buf)) = self.take() {
            recycle(buf);
        }
    }
}
