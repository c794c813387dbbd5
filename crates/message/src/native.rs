//! Messages in native encoding whose types are known at run time only: what a service holds that
//! learns schemas from its applications.
//!
//! A [`NativeMsg`] is an image that was checked (M26), or copied out of memory that others write
//! and checked in the same walk (M23). Fields are read and set by [`FieldPath`].
//!
//! The long leaves of a message may be attached to it instead ([`NativeMsg::gathered`]): it is
//! *gathered* then, and its other fields can be read as if it were whole.
//!
//! Invariants: the image is one that `validate` accepts for the type, at an address that is a
//! multiple of 8, and nobody else writes it. No two pointers of an image that is written lead to
//! one object (M14). Of a gathered message, this holds for the image with what is attached behind
//! it; all but its long leaves lies before that, and only these have pointers that lead there.

mod path;
mod set;
mod typed_buf;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use petasos_buf::MsgBuf;
use petasos_schema::{Kind, MessageId, Schema};

use crate::arena::Object;
use crate::image::{HEADER_BYTES, InImage, compact_within, header};
use crate::plan::Plan;
use crate::protobuf::encode;
use crate::{
    CompactError, DecodeError, DecodeLimits, DynamicMsg, EncodeError, Image, Input, Plans,
    ROOM_BYTES, Reflect, Segment, Source, TooManyFields, Value, buffer, is_aligned, recycle,
    validate,
};

pub use path::{FieldPath, PathError};
pub use set::{Leaf, SetError};
use typed_buf::{RECEIVED_AT, TypedBuf};

/// A schema with its plans, as its messages share them.
#[derive(Debug)]
pub struct Types {
    schema: Schema,
    plans: Plans,
}

impl Types {
    /// Of a schema.
    ///
    /// # Errors
    /// If a message has too many fields.
    pub fn new(schema: Schema) -> Result<Arc<Types>, TooManyFields> {
        let plans = Plans::of(&schema)?;
        Ok(Arc::new(Types { schema, plans }))
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The plan of a message of the schema.
    ///
    /// # Panics
    /// On an id of a larger schema.
    pub fn plan(&self, id: MessageId) -> Plan<'_> {
        self.plans.message(id)
    }
}

/// A message in native encoding, known by its schema.
pub struct NativeMsg(TypedBuf);

impl NativeMsg {
    /// A message without fields.
    pub fn empty(types: &Arc<Types>, id: MessageId) -> NativeMsg {
        let image_bytes = HEADER_BYTES as u32 + types.plan(id).bytes();
        let mut buf = buffer(ROOM_BYTES + image_bytes as usize);
        let image = &mut buf.as_mut_slice()[ROOM_BYTES..];
        image.fill(0);
        image[..HEADER_BYTES].copy_from_slice(&header(image_bytes));
        NativeMsg::new(types.clone(), id, buf, false)
    }

    /// A copy of the message whose struct lies at the address `root` of a source, all of it, of at
    /// most `bytes_max` as an image (M23). It is cheapest if the source has an image there that
    /// takes exactly so many bytes.
    ///
    /// # Errors
    /// If the message breaks a limit or, where the source is not trusted, any rule of M26: the
    /// fault of whoever wrote it.
    pub fn copied(
        types: &Arc<Types>,
        id: MessageId,
        source: &impl Source,
        root: u64,
        bytes_max: usize,
    ) -> Result<NativeMsg, CompactError> {
        let plan = types.plan(id);
        if let Some(image) = image_around(plan, source, root, bytes_max) {
            return Ok(NativeMsg::new(types.clone(), id, image, true));
        }
        let image = compact_within(plan, source, root, bytes_max)?;
        Ok(NativeMsg::new(types.clone(), id, image.into_buf(), false))
    }

    /// The same, except that long leaves for which the source has a [`Segment`] are not copied
    /// (M24).
    ///
    /// # Errors
    /// As for [`NativeMsg::copied`].
    pub fn gathered(
        types: &Arc<Types>,
        id: MessageId,
        source: &impl Source,
        root: u64,
        bytes_max: usize,
    ) -> Result<NativeMsg, CompactError> {
        let image = compact_within(types.plan(id), source, root, bytes_max)?;
        Ok(NativeMsg::new(types.clone(), id, image.into_message(&[]), false))
    }

    /// A copy of an image that a peer has sent.
    ///
    /// # Errors
    /// If it breaks any rule of M26: the sender's fault.
    pub fn received(
        types: &Arc<Types>,
        id: MessageId,
        image: &[u8],
    ) -> Result<NativeMsg, DecodeError> {
        validate(types.plan(id), image)?;
        let image = &image[..image_bytes(image)];
        let mut buf = buffer(ROOM_BYTES + image.len());
        buf.as_mut_slice()[ROOM_BYTES..].copy_from_slice(image);
        Ok(NativeMsg::new(types.clone(), id, buf, true))
    }

    /// The image that a peer has sent, which is this range of the buffer that it was received in.
    /// It is not copied if it begins at 8, behind the head of a call (R5).
    ///
    /// # Errors
    /// If it breaks any rule of M26: the sender's fault.
    ///
    /// # Panics
    /// If the buffer has no such range.
    pub fn received_in(
        types: &Arc<Types>,
        id: MessageId,
        buf: MsgBuf,
        range: Range<usize>,
    ) -> Result<NativeMsg, DecodeError> {
        let image = &buf.as_slice()[range.clone()];
        if range.start != RECEIVED_AT {
            let message = NativeMsg::received(types, id, image);
            recycle(buf);
            return message;
        }
        let checked = validate(types.plan(id), image).map(|()| image_bytes(image));
        match checked {
            Ok(bytes) => {
                let mut buf = buf;
                buf.set_len(RECEIVED_AT + bytes);
                Ok(NativeMsg(TypedBuf::received(types.clone(), id, buf)))
            }
            Err(error) => {
                recycle(buf);
                Err(error)
            }
        }
    }

    /// Decodes protobuf (M28 to M30), to an image of at most `bytes_max`.
    ///
    /// # Errors
    /// The sender's fault, or a limit: the same bytes are refused again.
    pub fn from_protobuf(
        types: &Arc<Types>,
        id: MessageId,
        input: Input<'_>,
        limits: &DecodeLimits,
        bytes_max: usize,
    ) -> Result<NativeMsg, DecodeError> {
        let decoded = DynamicMsg::from_protobuf(types.plan(id), input, limits)?;
        let image = decoded.to_native().map_err(|error| match error {
            CompactError::TooLarge => DecodeError::TooLarge,
            CompactError::TooDeep => DecodeError::TooDeep,
            error => unreachable!("what was decoded is well-formed: {error}"),
        })?;
        let decoded = NativeMsg::new(types.clone(), id, image.into_buf(), false);
        match decoded.image_bytes() > bytes_max {
            true => Err(DecodeError::TooLarge),
            false => Ok(decoded),
        }
    }

    #[inline]
    fn new(types: Arc<Types>, id: MessageId, buf: MsgBuf, may_alias: bool) -> NativeMsg {
        let message = NativeMsg(TypedBuf::new(types, id, buf, may_alias));
        assert!(is_aligned(message.image().as_ptr()), "buffers are aligned, and so is their room");
        message
    }

    /// The same message by another schema whose type has the same hash, and so the same layout.
    ///
    /// # Errors
    /// The message, if the types' hashes differ.
    #[inline]
    pub fn retyped(self, types: &Arc<Types>, id: MessageId) -> Result<NativeMsg, NativeMsg> {
        // Bindings of one schema share it.
        if Arc::ptr_eq(self.types(), types) && self.id() == id {
            return Ok(self);
        }
        self.of_other_types(types, id)
    }

    #[cold]
    #[inline(never)]
    fn of_other_types(mut self, types: &Arc<Types>, id: MessageId) -> Result<NativeMsg, NativeMsg> {
        let [ours, theirs] = [(self.types(), self.id()), (types, id)]
            .map(|(types, id)| types.schema().message(id).hash());
        if ours != theirs {
            return Err(self);
        }
        self.0.retype(types.clone(), id);
        Ok(self)
    }

    /// What type of message it is.
    pub fn id(&self) -> MessageId {
        self.0.id()
    }

    /// Its schema.
    pub fn types(&self) -> &Arc<Types> {
        self.0.types()
    }

    /// The image (M20), up to the leaves that are [attached](NativeMsg::attached).
    #[inline]
    pub fn image(&self) -> &[u8] {
        self.0.image()
    }

    /// Bytes of the whole image.
    #[inline]
    pub fn image_bytes(&self) -> usize {
        self.0.image_bytes()
    }

    /// Whether long leaves are attached.
    #[inline]
    pub fn is_gathered(&self) -> bool {
        self.0.has_tail()
    }

    /// What follows the image, of a gathered message.
    #[inline]
    pub fn attached(&self) -> &[Segment] {
        self.0.tail()
    }

    /// Copies what is attached, so that any field can be read.
    #[inline]
    pub fn make_whole(&mut self) {
        if self.is_gathered() {
            self.0.flatten();
        }
    }

    /// The image behind [`ROOM_BYTES`] that are the caller's to fill, with what is attached. One
    /// that was [received](NativeMsg::received_in) is copied.
    pub fn into_buf(self) -> MsgBuf {
        self.0.into_buf()
    }

    /// The message, to be read by number or name.
    ///
    /// # Panics
    /// If it is gathered: it has to be [made whole](NativeMsg::make_whole) first.
    pub fn reflect(&self) -> Reflect<'_> {
        assert!(!self.is_gathered(), "a message is whole when all of it may be read");
        let Types { schema, plans } = &**self.types();
        Reflect::of_object(schema, plans, self.id(), self.root())
    }

    /// The value of a field; none if it, or a message on its path, is absent. A field without
    /// presence is zero or empty if it is not set.
    ///
    /// # Panics
    /// If the path is of another type; or if the message is gathered and not
    /// [readable](NativeMsg::is_readable) so.
    #[inline]
    pub fn get(&self, path: &FieldPath) -> Option<Value<'_>> {
        if path.is_of(self.types()) {
            assert_eq!(path.root(), self.id(), "a path of this type of message");
            let is_whole = path.kind() != Kind::Bytes || !self.is_gathered();
            assert!(is_whole, "a message is whole when a leaf of it is read");
            return path.value(self.root());
        }
        let (message, number) = self.innermost(path)?;
        message.field(number)
    }

    /// Whether the field can be read without making the message [whole](NativeMsg::make_whole).
    #[inline]
    pub fn is_readable(&self, path: &FieldPath) -> bool {
        // Other kinds of single values are copied whatever their length.
        !self.is_gathered() || (path.is_of(self.types()) && path.kind() != Kind::Bytes)
    }

    /// The message that has the field at the end of the path, and the field's number.
    fn innermost(&self, path: &FieldPath) -> Option<(Reflect<'_>, u32)> {
        assert_eq!(path.root(), self.id(), "a path of this type of message");
        let mut numbers = path.numbers();
        let last = numbers.next_back().expect("a path has a name");
        let message =
            numbers.try_fold(self.reflect(), |message, number| match message.field(number) {
                Some(Value::Message(inner)) => Some(inner),
                _ => None,
            })?;
        Some((message, last))
    }

    /// Encodes it as protobuf, behind `room_bytes` that are the caller's to fill (M31).
    ///
    /// # Errors
    /// If the encoding is larger or deeper than M18 allows.
    pub fn to_protobuf(&self, room_bytes: usize) -> Result<Image, EncodeError> {
        if self.is_gathered() {
            return self.copy().to_protobuf(room_bytes);
        }
        // SAFETY: the image was checked by the same plan, and the message is borrowed.
        unsafe { encode(self.types().plan(self.id()), self.root(), room_bytes, None) }
    }

    /// A copy, with what is attached.
    #[cold]
    pub fn copy(&self) -> NativeMsg {
        let mut buf = buffer(ROOM_BYTES + self.image_bytes());
        self.0.copy_to(&mut buf.as_mut_slice()[ROOM_BYTES..]);
        NativeMsg::new(self.types().clone(), self.id(), buf, self.0.may_alias())
    }

    /// The struct of the message.
    #[inline]
    fn root(&self) -> Object<'_> {
        let struct_bytes = self.types().plan(self.id()).bytes();
        let root = &self.image()[HEADER_BYTES..HEADER_BYTES + struct_bytes as usize];
        // Other objects of the image are reached from here by distances.
        let _ = self.image().as_ptr().expose_provenance();
        Object::new(NonNull::from(root).cast(), struct_bytes)
    }

    /// Gives each pointer an object of its own.
    fn make_unique(&mut self) -> Result<(), CompactError> {
        if self.0.may_alias() {
            let root = HEADER_BYTES as u64;
            let image = compact_within(
                self.types().plan(self.id()),
                &InImage(self.image()),
                root,
                crate::MESSAGE_BYTES_MAX,
            )?;
            self.0.replace(image.into_buf());
        }
        Ok(())
    }
}

impl std::fmt::Debug for NativeMsg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.types().schema.message(self.id()).full_name();
        f.debug_struct("NativeMsg")
            .field("type", &name)
            .field("bytes", &self.image_bytes())
            .finish()
    }
}

/// Images up to this length are copied at once, and longer ones once their headers were seen.
const AT_ONCE_BYTES_MAX: usize = 4096;

/// A copy of the image of exactly `bytes` whose root lies at `root`, behind room for a head; `None`
/// if there is none. Only the copy is checked, as what a peer has sent. That takes fewer steps than
/// to copy each object by itself.
fn image_around(plan: Plan<'_>, source: &impl Source, root: u64, bytes: usize) -> Option<MsgBuf> {
    let at = root.checked_sub(HEADER_BYTES as u64)?;
    let wanted = header(u32::try_from(bytes).ok().filter(|_| bytes >= HEADER_BYTES)?);
    if bytes > AT_ONCE_BYTES_MAX {
        let mut begin = [0; HEADER_BYTES];
        source.copy(at, &mut begin).ok().filter(|()| begin == wanted)?;
    }
    let mut buf = buffer(ROOM_BYTES + bytes);
    let image = &mut buf.as_mut_slice()[ROOM_BYTES..];
    // It may have another header by now.
    let is_image = source.copy(at, image).is_ok()
        && image[..HEADER_BYTES] == wanted
        && validate(plan, image).is_ok();
    if !is_image {
        recycle(buf);
        return None;
    }
    Some(buf)
}

/// M20: how long an image is that was checked.
fn image_bytes(image: &[u8]) -> usize {
    let bytes = image.first_chunk::<4>().expect("an image has a header");
    u32::from_le_bytes(*bytes) as usize
}
