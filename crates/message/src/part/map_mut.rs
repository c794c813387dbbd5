//! The cursor on a map.

use std::ops::Deref;
use std::ptr::NonNull;

use super::array;
use crate::arena::Arena;
use crate::edit::Edit;
use crate::part::Message;
use crate::part::{Element, Entry, Key, Map, Span};

/// Writes a map; reads as one.
pub struct MapMut<'a, K, V> {
    map: NonNull<Map<K, V>>,
    arena: &'a Arena,
}

impl<'a, K: Key, V: Element> MapMut<'a, K, V> {
    /// # Safety
    /// `map` lies in `arena`, lives for `'a`, and is reached in that time only through this.
    #[inline(always)]
    pub(crate) unsafe fn new(map: NonNull<Map<K, V>>, arena: &'a Arena) -> MapMut<'a, K, V> {
        MapMut { map, arena }
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Span, &'a Arena) {
        // SAFETY: the cursor alone reaches the map, and is borrowed.
        (unsafe { self.map.as_mut() }.span(), self.arena)
    }

    /// Sets the value of a key. Takes time in proportion to the entries behind it: many are better
    /// given to [`MapMut::extend`].
    pub fn insert(&mut self, key: K::Ref<'_>, value: V::Value<'_>) -> &mut Self {
        let at = self.entry(key);
        // SAFETY: the entry is the cursor's to write.
        unsafe { V::put(Entry::value(at), value, self.arena) };
        self
    }

    /// Sets the values of many keys; the last of equal keys counts. Sorts them, and moves each
    /// entry of the map at most once.
    pub fn extend<'v>(
        &mut self,
        entries: impl IntoIterator<Item = (K::Ref<'v>, V::Value<'v>)>,
    ) -> &mut Self {
        let mut added: Vec<_> = entries.into_iter().collect();
        added.reverse();
        added.sort_by_key(|(key, _)| *key);
        added.dedup_by(|(a, _), (b, _)| a == b);
        let mut merged = Vec::with_capacity(added.len());
        for (key, value) in added {
            match self.find(key) {
                Ok(index) => self.set_at(index, value),
                Err(index) => merged.push((index, key, value)),
            }
        }
        self.merge(merged);
        self
    }

    /// Puts entries before those at the given indices, which ascend; so do the keys.
    fn merge(&mut self, added: Vec<(usize, K::Ref<'_>, V::Value<'_>)>) {
        let more = u32::try_from(added.len()).expect("an array is less than 4 GiB");
        let (span, arena) = self.parts();
        // SAFETY: the map's entries are in this arena and the cursor's to write.
        unsafe { array::reserve::<Entry<K, V>>(span, arena, more) };
        let (old_len, mut behind) = (span.len, span.len);
        // While entries lie twice, the map counts none: a panic leaves it empty.
        span.len = 0;
        for (before, (index, key, value)) in added.into_iter().enumerate().rev() {
            let (index, before) = (index as u32, before as u32);
            // SAFETY: there is room for `more` entries. Those from `index` on move behind the
            // `before` entries that are still to come and this one; the place of this one has been
            // left, or was never used.
            unsafe {
                let from = array::element::<Entry<K, V>>(span, index);
                array::move_elements(from, from.add(before as usize + 1), behind - index);
                let at = from.add(before as usize);
                at.write_bytes(0, 1);
                K::put(Entry::key(at), K::value(key), arena);
                V::put(Entry::value(at), value, arena);
            }
            behind = index;
        }
        span.len = old_len + more;
    }

    /// Takes out the entry of a key, if there is one.
    pub fn remove(&mut self, key: K::Ref<'_>) -> &mut Self {
        if let Ok(index) = self.find(key) {
            let (span, arena) = self.parts();
            // SAFETY: the map's entries are in this arena and the cursor's to write.
            unsafe { array::remove::<Entry<K, V>>(span, arena, index as u32) };
        }
        self
    }

    /// Takes out all entries. The room stays.
    pub fn clear(&mut self) -> &mut Self {
        let (span, arena) = self.parts();
        // SAFETY: the map's entries are in this arena and the cursor's to write.
        unsafe { array::truncate::<Entry<K, V>>(span, arena, 0) };
        self
    }

    fn set_at(&mut self, index: usize, value: V::Value<'_>) {
        let (span, arena) = self.parts();
        // SAFETY: an index that `find` gave; the entry is the cursor's to write.
        unsafe { V::put(Entry::<K, V>::value(array::element(span, index as u32)), value, arena) }
    }

    /// The entry of a key, made with a zero value if it is absent.
    fn entry(&mut self, key: K::Ref<'_>) -> NonNull<Entry<K, V>> {
        let found = self.find(key);
        let (span, arena) = self.parts();
        // SAFETY: the map's entries are in this arena and the cursor's to write. The key of a new
        // one is set before the map is read again; till then its zeros are a valid value.
        unsafe {
            match found {
                Ok(index) => array::element(span, index as u32),
                Err(index) => {
                    let at = array::insert::<Entry<K, V>>(span, arena, index as u32);
                    K::put(Entry::key(at), K::value(key), arena);
                    at
                }
            }
        }
    }
}

impl<K: Key, V: Message> MapMut<'_, K, V> {
    /// The message of a key, to be written; an empty one is made if it is absent.
    pub fn at(&mut self, key: K::Ref<'_>) -> V::Mut<'_> {
        let at = self.entry(key);
        // SAFETY: the entry's message lies in this arena, and is reached through this alone.
        unsafe { Edit::new(Entry::value(at), self.arena) }.into()
    }
}

impl<K: Key, V: Element> Deref for MapMut<'_, K, V> {
    type Target = Map<K, V>;
    fn deref(&self) -> &Map<K, V> {
        // SAFETY: the cursor alone reaches the map, and is borrowed.
        unsafe { self.map.as_ref() }
    }
}
