//! The owner of a message.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::MsgBuf;

use crate::arena::{Arena, OwnedArena};
use crate::edit::Edit;
use crate::heap::{self, Heap};
use crate::image::HEADER_BYTES;
use crate::part::Message;

/// Owns a message, as `Box<str>` owns a string: with the arena that it was built in, or the buffer
/// that it was received in. It dereferences to `&T`. Setters write, as in `message.set_name("…")`.
/// They return a cursor that sets more, as does [`Msg::edit`].
///
/// All other functions are associated functions (`Msg::into_bytes(message, …)`), since methods
/// would hide getters of the same name. Setters are methods of [`Message::Owner`], to which a `Msg`
/// dereferences, and which dereferences to the message.
///
/// There is never a `&mut T`, so messages cannot be swapped or moved out of their arenas (M12):
///
/// ```compile_fail,E0596
/// fn swap<T: petasos_message::Message>(
///     mut a: petasos_message::Msg<T>,
///     mut b: petasos_message::Msg<T>,
/// ) {
///     std::mem::swap(&mut **a, &mut **b);
/// }
/// ```
///
/// Cursors do not allow that either, and a message cannot be moved out:
///
/// ```compile_fail,E0594
/// fn overwrite<T: petasos_message::Message<Mut<'static> = M>, M>(mut cursor: M, value: T)
/// where
///     M: std::ops::Deref<Target = T>,
/// {
///     *cursor = value;
/// }
/// ```
///
/// ```compile_fail,E0507
/// fn take<T: petasos_message::Message>(message: petasos_message::Msg<T>) -> T {
///     **message
/// }
/// ```
pub struct Msg<T> {
    /// In `buf` or in what is attached to it, behind an arena or behind the header of an image that
    /// M26 accepted and that nobody writes.
    root: NonNull<T>,
    buf: ManuallyDrop<MsgBuf>,
}

// SAFETY: the message owns all memory that it consists of. Arenas are written through `&mut` only,
// and values are read through `&`, which for messages is allowed from any thread.
unsafe impl<T: Message> Send for Msg<T> {}
// SAFETY: `&Msg` gives `&T`, and of the arena what writes none of its cells (see there).
unsafe impl<T: Message> Sync for Msg<T> {}

impl<T: Message> Msg<T> {
    /// An empty message in the process's default heap.
    #[inline]
    pub fn new() -> Msg<T> {
        Msg::in_arena(Arena::new_in(Heap::process_default()))
    }

    /// An empty message in a heap.
    pub fn new_in(heap: &Heap) -> Msg<T> {
        Msg::in_arena(Arena::new_in(heap))
    }

    /// An empty message with room for `bytes`, including the structs' own. If that is enough, the
    /// message is sent without being copied (M21).
    pub fn with_capacity(bytes: usize) -> Msg<T> {
        Msg::in_arena(Arena::with_capacity(Heap::process_default(), bytes))
    }

    #[inline(always)]
    fn in_arena(arena: OwnedArena) -> Msg<T> {
        arena.object(size_of::<T>() as u32);
        // SAFETY: zeros are an empty message.
        unsafe { Msg::rooted(arena) }
    }

    /// The message that is the first object of an arena.
    ///
    /// # Safety
    /// That object is a `T`.
    #[inline(always)]
    pub(crate) unsafe fn rooted(arena: OwnedArena) -> Msg<T> {
        let (root, buf) = arena.into_parts();
        Msg { root: root.cast(), buf: ManuallyDrop::new(buf) }
    }

    /// The image at `start`, a multiple of 8.
    ///
    /// # Safety
    /// M26 accepted it as a `T`.
    #[inline(always)]
    pub(crate) unsafe fn received(mut buf: MsgBuf, start: usize) -> Msg<T> {
        let base = buf.data_ptr();
        base.as_ptr().expose_provenance();
        // SAFETY: the root lies behind the image's header, within the buffer.
        let root = unsafe { base.add(start + HEADER_BYTES) }.cast();
        Msg { root, buf: ManuallyDrop::new(buf) }
    }

    /// The image in these bytes, which are kept for as long as the message lives.
    ///
    /// # Safety
    /// M26 accepted it as a `T`.
    #[cold]
    pub(crate) unsafe fn received_elsewhere(image: Bytes) -> Msg<T> {
        let start = image.as_ptr();
        start.expose_provenance();
        let start = NonNull::new(start.cast_mut()).expect("a slice is nowhere null");
        // SAFETY: the root lies behind the image's header, within the bytes.
        let root = unsafe { start.add(HEADER_BYTES) }.cast();
        // A buffer of a size that no pool keeps: the bytes go when the message does.
        let mut buf = MsgBuf::with_capacity(0);
        buf.attach(vec![image.into()]);
        Msg { root, buf: ManuallyDrop::new(buf) }
    }

    /// The arena, unless the message was received.
    #[inline(always)]
    pub(crate) fn arena(this: &Msg<T>) -> Option<&Arena> {
        // SAFETY: what `root` says of itself. The arena lives as long as the buffer.
        unsafe { Arena::before(this.root.cast()) }
    }

    /// The image, if the message was received.
    fn image(this: &Msg<T>) -> &[u8] {
        // SAFETY: the root lies behind the header of an image that was accepted, so that all of it
        // is in the buffer, and nobody writes it.
        unsafe {
            let start = this.root.cast::<u8>().sub(HEADER_BYTES);
            let image_bytes = u32::from_le_bytes(start.cast().read());
            std::slice::from_raw_parts(start.as_ptr(), image_bytes as usize)
        }
    }

    /// Returns a cursor that writes the message. A received message is copied first (M14).
    #[inline]
    pub fn edit(&mut self) -> T::Mut<'_> {
        Msg::cursor(self).into()
    }

    #[inline(always)]
    pub(crate) fn cursor(this: &mut Msg<T>) -> Edit<'_, T> {
        if Msg::arena(this).is_none() {
            this.make_editable();
        }
        // SAFETY: the root of a message that was built follows its arena, and both are borrowed
        // with the owner.
        unsafe { Edit::new(this.root, this.root.cast::<Arena>().sub(1).as_ref()) }
    }

    /// The message.
    #[inline(always)]
    pub(crate) fn get(this: &Msg<T>) -> &T {
        // SAFETY: the root lies in the store, and is written through `cursor` only, which borrows
        // the owner.
        unsafe { this.root.as_ref() }
    }

    #[cold]
    #[inline(never)]
    fn make_editable(&mut self) {
        *self = Msg::from(Msg::get(self));
    }

    /// The first chunk with the number of bytes in use, if it contains the whole message and
    /// nothing else (M21); otherwise the message.
    #[inline(always)]
    pub(crate) fn into_first_chunk(this: Msg<T>) -> Result<(MsgBuf, usize), Msg<T>> {
        let Some(arena) = Msg::arena(&this) else { return Err(this) };
        let Some(used) = arena.whole_bytes() else { return Err(this) };
        // SAFETY: nothing is asked of the arena any more.
        unsafe { arena.drop_rest() };
        let mut this = ManuallyDrop::new(this);
        // SAFETY: the buffer is taken once, from a message that is not dropped.
        Ok((unsafe { ManuallyDrop::take(&mut this.buf) }, used))
    }

    /// The owner of these bytes, if they were adopted (M16).
    pub(crate) fn owner(this: &Msg<T>, bytes: &[u8]) -> Option<Bytes> {
        Msg::arena(this)?.adopted(bytes)
    }

    /// Bytes of this message, with the whole message as their owner.
    pub(crate) fn shared(this: &Arc<Msg<T>>, bytes: &[u8]) -> Bytes {
        let (at, len) = (NonNull::from(bytes).cast(), bytes.len());
        Bytes::from_owner(Kept { _message: Arc::clone(this), at, len })
    }

    /// About how many bytes the message takes.
    pub(crate) fn bytes_hint(this: &Msg<T>) -> usize {
        Msg::arena(this).map_or_else(|| this.buf.len(), Arena::used_bytes)
    }

    /// Bytes of one field, or a part of them, without a copy. They keep the memory that they need:
    /// only the field's own if it was adopted (M16), otherwise the whole message's.
    pub fn into_bytes(this: Msg<T>, field: impl FnOnce(&T) -> &[u8]) -> Bytes {
        let bytes = field(&this);
        let (at, len) = (NonNull::from(bytes).cast(), bytes.len());
        match Msg::owner(&this, bytes) {
            Some(owner) => owner,
            None if len == 0 => Bytes::new(),
            None => Bytes::from_owner(Kept { _message: this, at, len }),
        }
    }
}

/// Bytes with the message that contains them, which is kept alive: alone (`Msg`) or shared
/// (`Arc<Msg>`).
struct Kept<M> {
    _message: M,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: bytes that nobody writes, owned together with their memory.
unsafe impl<M: Send> Send for Kept<M> {}

impl<M> AsRef<[u8]> for Kept<M> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the slice was lent by the message, which lives and is out of everybody's reach,
        // so that it is not written; moving its owner moved no memory.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Message> Deref for Msg<T> {
    type Target = T::Owner;
    #[inline(always)]
    fn deref(&self) -> &T::Owner {
        // SAFETY: `T::Owner` is this very type, in wrappers that are transparent.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

impl<T: Message> DerefMut for Msg<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T::Owner {
        // SAFETY: as for `deref`.
        unsafe { &mut *ptr::from_mut(self).cast() }
    }
}

impl<T: Message> AsRef<T> for Msg<T> {
    fn as_ref(&self) -> &T {
        Msg::get(self)
    }
}

impl<T: Message> Default for Msg<T> {
    fn default() -> Msg<T> {
        Msg::new()
    }
}

impl<T: Message> From<&T> for Msg<T> {
    /// A copy of a message at any address.
    fn from(message: &T) -> Msg<T> {
        let copy = Msg::new();
        let arena = Msg::arena(&copy).expect("just built");
        // SAFETY: the root of a new message, which nothing else reaches.
        unsafe { crate::part::assign(copy.root, message, arena) };
        copy
    }
}

impl<T: Message> Clone for Msg<T> {
    /// A copy in the process's default heap that shares adopted bytes.
    fn clone(&self) -> Msg<T> {
        let Some(arena) = Msg::arena(self) else {
            // SAFETY: a copy of an image that was accepted.
            return unsafe { Msg::received(heap::copied(Msg::image(self)), 0) };
        };
        if let Some(copy) = arena.copied() {
            // SAFETY: its first object is a copy of the root; pointers are relative.
            return unsafe { Msg::rooted(copy) };
        }
        let copy = Msg::new();
        let arena = Msg::arena(&copy).expect("just built");
        let owner = |bytes: &[u8]| Msg::owner(self, bytes);
        // SAFETY: the root of a new message, which nothing else reaches.
        unsafe { crate::part::assign_sharing(copy.root, Msg::get(self), arena, &owner) };
        copy
    }
}

impl<T> Drop for Msg<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: what `root` says of itself, and nothing asks the arena any more; the buffer is
        // taken once.
        unsafe {
            if let Some(arena) = Arena::before(self.root.cast()) {
                arena.drop_rest();
            }
            heap::give(ManuallyDrop::take(&mut self.buf));
        }
    }
}

impl<T: Message> PartialEq for Msg<T> {
    fn eq(&self, other: &Msg<T>) -> bool {
        Msg::get(self) == Msg::get(other)
    }
}

impl<T: Message> PartialEq<T> for Msg<T> {
    fn eq(&self, other: &T) -> bool {
        Msg::get(self) == other
    }
}

impl<T: Message> fmt::Debug for Msg<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(Msg::get(self), f)
    }
}
