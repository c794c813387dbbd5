//! `map`.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Element, Key, Relocate, Span};
use crate::arena::Arena;
use crate::part::MapMut;

/// Entries sorted by key (M8).
///
/// Keys are `i32`, `i64`, `u32`, `u64`, `bool` or [`Text`](crate::Text), which are asked for as
/// `&str`; values are as a list's elements.
#[repr(transparent)]
pub struct Map<K, V>(Span, PhantomData<Entry<K, V>>);

/// Key, then value, each at its natural alignment, in a multiple of 8 bytes.
#[repr(C, align(8))]
pub struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Entry<K, V> {
    /// # Safety
    /// `at` is an entry, or memory for one.
    #[inline(always)]
    pub(crate) unsafe fn key(at: NonNull<Self>) -> NonNull<K> {
        // SAFETY: within the entry.
        unsafe { at.byte_add(std::mem::offset_of!(Self, key)).cast() }
    }

    /// # Safety
    /// `at` is an entry, or memory for one.
    #[inline(always)]
    pub(crate) unsafe fn value(at: NonNull<Self>) -> NonNull<V> {
        // SAFETY: within the entry.
        unsafe { at.byte_add(std::mem::offset_of!(Self, value)).cast() }
    }
}

impl<K: Key, V: Element> Map<K, V> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// The value of a key. A binary search.
    pub fn get(&self, key: K::Ref<'_>) -> Option<&V> {
        let at = self.find(key).ok()?;
        Some(&self.entries()[at].value)
    }

    /// Whether there is an entry with this key.
    pub fn contains_key(&self, key: K::Ref<'_>) -> bool {
        self.find(key).is_ok()
    }

    /// The entries, ascending by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (K::Ref<'_>, &V)> + DoubleEndedIterator {
        self.entries().iter().map(|entry| (entry.key.as_key(), &entry.value))
    }

    /// The keys, ascending.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = K::Ref<'_>> + DoubleEndedIterator {
        self.entries().iter().map(|entry| entry.key.as_key())
    }

    /// The values, ascending by key.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + DoubleEndedIterator {
        self.entries().iter().map(|entry| &entry.value)
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn edit<'a>(&'a mut self, arena: &'a Arena) -> MapMut<'a, K, V> {
        // SAFETY: the map lies in this arena, and is borrowed as long as the cursor lives.
        unsafe { MapMut::new(NonNull::from(self), arena) }
    }

    pub(crate) fn entries(&self) -> &[Entry<K, V>] {
        // SAFETY: the module's invariant; the elements of a map are its entries.
        unsafe { self.0.elements() }
    }

    pub(crate) fn span(&mut self) -> &mut Span {
        &mut self.0
    }

    /// Where the key is, or would be.
    pub(crate) fn find(&self, key: K::Ref<'_>) -> Result<usize, usize> {
        self.entries().binary_search_by(|entry| entry.key.compare(key))
    }
}

impl<K: Key, V: Element + PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Map<K, V>) -> bool {
        let mut pairs = self.entries().iter().zip(other.entries());
        self.len() == other.len()
            && pairs.all(|(a, b)| a.key.as_key().eq(&b.key.as_key()) && a.value == b.value)
    }
}

impl<K: Key, V: Element + fmt::Debug> fmt::Debug for Map<K, V>
where
    for<'a> K::Ref<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// SAFETY: both halves are relocated, and between them is padding.
unsafe impl<K: Key, V: Element> Relocate for Entry<K, V> {
    unsafe fn clear(at: NonNull<Self>, arena: &Arena) {
        // SAFETY: the entry is the caller's to write.
        unsafe {
            K::clear(Entry::key(at), arena);
            V::clear(Entry::value(at), arena);
        }
    }

    #[inline(always)]
    unsafe fn relocate(at: NonNull<Self>, distance: i64) {
        // SAFETY: the entry is the caller's to write.
        unsafe {
            K::relocate(Entry::key(at), distance);
            V::relocate(Entry::value(at), distance);
        }
    }
}
