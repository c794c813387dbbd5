//! Allocation of arenas' chunks.
//!
//! A chunk is a [`MsgBuf`], so that an image that was built in one chunk is sent without a copy
//! (M21). Each thread keeps chunks of three sizes, including those that were sent and returned:
//! building, sending, receiving and dropping small messages allocates nothing. Longer chunks come
//! from the process's spare buffers (`petasos_buf::take_spare`).
//!
//! The pool has no destructor, since a thread-local with one checks its state with each access.
//! Instead, a guard that is registered with the first chunk empties the pool when the thread ends.

use std::cell::Cell;
use std::mem::MaybeUninit;

use bytes::Bytes;
use petasos_buf::{MsgBuf, give_spare, take_spare};

/// Bytes of an arena's first chunk, unless it is asked for more.
pub(crate) const CHUNK_BYTES: usize = 512;

/// Bytes of medium chunks that are kept: the second chunk of a message that outgrew its first.
const MEDIUM_BYTES: usize = 2 << 10;

/// Bytes of larger chunks that are kept, for messages with room of their own and received ones.
pub(crate) const LARGE_BYTES: usize = 8 << 10;

/// Chunks of [`CHUNK_BYTES`] that a thread keeps: as many as it has small calls under way.
const KEPT_MAX: usize = 256;
/// Chunks of [`MEDIUM_BYTES`] that a thread keeps.
const MEDIUM_KEPT_MAX: usize = 64;
/// Chunks of [`LARGE_BYTES`] that a thread keeps.
const LARGE_KEPT_MAX: usize = 32;

/// Where messages are built.
///
/// There is one heap now, private to the process: memory that no other process sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heap {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Private,
}

impl Heap {
    /// Memory of this process.
    pub const PRIVATE: Heap = Heap { kind: Kind::Private };

    /// The heap that [`Msg::new`](crate::Msg::new) and clones use.
    #[inline(always)]
    pub fn process_default() -> &'static Heap {
        &Heap::PRIVATE
    }

    /// A buffer with room for exactly [`CHUNK_BYTES`], its contents unspecified.
    #[inline(always)]
    pub(crate) fn take_chunk(&self) -> MsgBuf {
        match self.kind {
            Kind::Private => {
                POOL.with(|pool| pool.small.pop()).unwrap_or_else(|| fresh(CHUNK_BYTES))
            }
        }
    }

    /// A buffer with room for at least `bytes`, its contents unspecified.
    #[inline(always)]
    pub(crate) fn take(&self, bytes: usize) -> MsgBuf {
        match self.kind {
            Kind::Private if bytes <= CHUNK_BYTES => self.take_chunk(),
            Kind::Private => large(bytes),
        }
    }
}

/// A copy of bytes, in a chunk of the thread's pool if it is short.
#[inline]
pub(crate) fn copied(bytes: &[u8]) -> MsgBuf {
    let mut copy = Heap::PRIVATE.take(bytes.len());
    copy.copy_from(bytes);
    copy
}

/// A buffer of `bytes` with unspecified contents: from the thread's pool if it is short, and from
/// the process's if it is long. A message that is read in it returns it.
#[inline]
pub fn buffer(bytes: usize) -> MsgBuf {
    let mut buf = Heap::PRIVATE.take(bytes);
    buf.set_len(bytes);
    buf
}

/// Like [`buffer`], for an encoding. Not every transport returns such buffers, so none is allocated
/// that is much larger than asked for.
#[inline]
pub(crate) fn outgoing(bytes: usize) -> MsgBuf {
    if bytes <= CHUNK_BYTES || bytes > LARGE_BYTES {
        return buffer(bytes);
    }
    match POOL.with(|pool| pool.pop_for(bytes)) {
        Some(mut buf) => {
            buf.set_len(bytes);
            buf
        }
        None => MsgBuf::new(bytes),
    }
}

/// Returns the buffer of a message that has been sent, or any other, to the pool of the thread or
/// the process, for the next message.
#[inline]
pub fn recycle(mut buf: MsgBuf) {
    buf.rewind();
    give(buf);
}

/// A buffer's data as bytes that may be shared. The last owner recycles the buffer.
pub fn into_bytes(buf: MsgBuf) -> Bytes {
    Bytes::from_owner(Shared(Some(buf)))
}

struct Shared(Option<MsgBuf>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(buf) = self.0.take() {
            recycle(buf);
        }
    }
}

/// Takes back a chunk from [`Heap::take`], on any thread.
#[inline(always)]
pub(crate) fn give(chunk: MsgBuf) {
    POOL.with(|pool| pool.give(chunk));
}

/// Free chunks of one thread.
struct Pool {
    small: Stack<KEPT_MAX>,
    medium: Stack<MEDIUM_KEPT_MAX>,
    large: Stack<LARGE_KEPT_MAX>,
}

/// Free chunks of one size, of which those before `len` are there.
struct Stack<const N: usize> {
    /// At most `N`.
    len: Cell<usize>,
    /// `N`; but 0 until the guard is registered, and again after it ran: nothing is kept then.
    len_max: Cell<usize>,
    free: [Cell<MaybeUninit<MsgBuf>>; N],
}

thread_local! {
    static POOL: Pool = const {
        Pool { small: Stack::new(), medium: Stack::new(), large: Stack::new() }
    };
    static GUARD: Guard = const { Guard };
}

impl Pool {
    #[inline(always)]
    fn give(&self, chunk: MsgBuf) {
        let left =
            if chunk.capacity() == CHUNK_BYTES { self.small.push(chunk) } else { Some(chunk) };
        if let Some(chunk) = left {
            self.give_other(chunk);
        }
    }

    /// A chunk for more than [`CHUNK_BYTES`] and at most [`LARGE_BYTES`].
    fn pop_for(&self, bytes: usize) -> Option<MsgBuf> {
        if bytes <= MEDIUM_BYTES { self.medium.pop() } else { self.large.pop() }
    }

    #[inline(never)]
    fn give_other(&self, chunk: MsgBuf) {
        match chunk.capacity() {
            MEDIUM_BYTES => drop(self.medium.push(chunk)),
            LARGE_BYTES => drop(self.large.push(chunk)),
            _ => give_spare(chunk),
        }
    }
}

impl<const N: usize> Stack<N> {
    const fn new() -> Stack<N> {
        Stack {
            len: Cell::new(0),
            len_max: Cell::new(0),
            free: [const { Cell::new(MaybeUninit::uninit()) }; N],
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<MsgBuf> {
        let last = self.len.get().checked_sub(1)?;
        self.len.set(last);
        // SAFETY: `last` was below `len`, so it is below `N`, and a chunk is there; it is taken
        // once, as `len` excludes it now.
        Some(unsafe { self.free.get_unchecked(last).replace(MaybeUninit::uninit()).assume_init() })
    }

    /// Keeps a chunk, or returns it if there are enough.
    #[inline(always)]
    fn push(&self, chunk: MsgBuf) -> Option<MsgBuf> {
        let len = self.len.get();
        if len >= self.len_max.get() {
            return Some(chunk);
        }
        // SAFETY: `len_max` is at most `N`.
        unsafe { self.free.get_unchecked(len) }.set(MaybeUninit::new(chunk));
        self.len.set(len + 1);
        None
    }

    fn close(&self) {
        self.len_max.set(0);
        while self.pop().is_some() {}
    }
}

#[inline(never)]
fn large(bytes: usize) -> MsgBuf {
    if bytes > LARGE_BYTES {
        return take_spare(bytes);
    }
    let size = if bytes <= MEDIUM_BYTES { MEDIUM_BYTES } else { LARGE_BYTES };
    POOL.with(|pool| pool.pop_for(bytes)).unwrap_or_else(|| fresh(size))
}

#[cold]
#[inline(never)]
fn fresh(bytes: usize) -> MsgBuf {
    if GUARD.try_with(|_| ()).is_ok() {
        POOL.with(|pool| {
            pool.small.len_max.set(KEPT_MAX);
            pool.medium.len_max.set(MEDIUM_KEPT_MAX);
            pool.large.len_max.set(LARGE_KEPT_MAX);
        });
    }
    MsgBuf::with_capacity(bytes)
}

/// Empties the thread's pool when the thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        POOL.with(|pool| {
            pool.small.close();
            pool.medium.close();
            pool.large.close();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        POOL.with(|pool| pool.small.len.get())
    }

    #[test]
    fn a_chunk_is_used_again_by_the_thread_that_dropped_it() {
        let mut chunk = Heap::PRIVATE.take(100);
        let at = chunk.as_mut_slice().as_mut_ptr();
        let before = kept();
        give(chunk);
        assert_eq!(kept(), before + 1);
        assert_eq!(Heap::PRIVATE.take(CHUNK_BYTES).as_mut_slice().as_mut_ptr(), at);
    }

    #[test]
    fn a_thread_that_builds_nothing_keeps_nothing() {
        let chunk = Heap::PRIVATE.take(1);
        let kept = std::thread::spawn(move || {
            give(chunk);
            kept()
        });
        assert_eq!(kept.join().expect("the thread ends"), 0);
    }

    #[test]
    fn the_pool_is_bounded_and_takes_usual_chunks_only() {
        let chunks: Vec<MsgBuf> = (0..2 * KEPT_MAX).map(|_| Heap::PRIVATE.take(1)).collect();
        chunks.into_iter().for_each(give);
        assert_eq!(kept(), KEPT_MAX);
        drop(Heap::PRIVATE.take(1));
        give(Heap::PRIVATE.take(CHUNK_BYTES + 1));
        give(Heap::PRIVATE.take(MEDIUM_BYTES + 1));
        give(Heap::PRIVATE.take(LARGE_BYTES + 1));
        assert_eq!(kept(), KEPT_MAX - 1);
        let larger = |pool: &Pool| (pool.medium.len.get(), pool.large.len.get());
        assert_eq!(POOL.with(larger), (1, 1));
    }

    #[test]
    fn what_was_sent_comes_back_whole() {
        let mut chunk = buffer(64);
        let at = chunk.data_ptr();
        chunk.skip(16);
        recycle(chunk);
        let mut again = buffer(CHUNK_BYTES);
        assert_eq!((again.data_ptr(), again.len()), (at, CHUNK_BYTES));
        let mut large = buffer(MEDIUM_BYTES + 1);
        let at = large.data_ptr();
        recycle(large);
        assert_eq!(copied(&[7; LARGE_BYTES]).data_ptr(), at);
    }
}
