//! Writes: one bucket changes, from one state to another (K2), or nothing does.

use crate::item::{Header, Key};
use crate::locks::LockOwner;
use crate::memory::SLOTS;
use crate::partition::{Log, Partition, Spot};
use crate::ring::Ring;
use crate::slot::Slot;

/// Bytes of a value that [`Partition::update`] can change.
pub const UPDATED_BYTES_MAX: usize = 64;

/// What must be so for a change to happen (K6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// The key has no item.
    Absent,
    /// It has one.
    Present,
    /// It has the item that this write made.
    Stamp(u64),
}

/// A write of a whole value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write<'v> {
    /// The value.
    pub value: &'v [u8],
    /// Whatever the caller wants to find there again.
    pub flags: u16,
    /// When it expires, by the table's clock, in milliseconds.
    pub expiry_ms: Option<u64>,
    /// What must be so.
    pub condition: Condition,
    /// For whom, if the bucket is locked (K15).
    pub owner: Option<LockOwner>,
}

/// Why a change did not happen. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The key has no item, as the condition wants.
    #[error("the key has no item")]
    Absent,
    /// The key has an item, or another one than the condition wants: read it, and try again.
    #[error("the key has an item, or has another one by now")]
    Present,
    /// There is no room: try again when there is.
    #[error("the store has no room for it")]
    Full,
    /// The value would be too long (K1): the caller's fault.
    #[error("the value is too long")]
    TooLong,
    /// Somebody else has locked the key's bucket: try again soon (K15).
    #[error("another owner has locked the key's bucket")]
    Locked,
    /// [`Partition::update`]'s caller does not want the change, or the value is too long for it.
    #[error("the value cannot be changed so")]
    Unsuitable,
}

/// Where bytes are added to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Behind it.
    Append,
    /// Before it.
    Prepend,
}

/// What a new value is made of.
#[derive(Clone, Copy)]
struct Pieces<'v> {
    before: &'v [u8],
    /// Whether the old value comes between.
    keeps_old: bool,
    after: &'v [u8],
}

impl Pieces<'_> {
    fn bytes(&self, old: Option<&Spot>) -> usize {
        let kept = old.filter(|_| self.keeps_old).map_or(0, |spot| spot.header.value_bytes);
        self.before.len() + kept as usize + self.after.len()
    }
}

impl Partition {
    /// Writes a value, and returns its stamp (K6).
    ///
    /// # Errors
    /// If the condition does not hold, or there is no room. Nothing has changed then.
    pub fn set(&mut self, now_ms: u64, key: &Key<'_>, write: &Write<'_>) -> Result<u64, Refused> {
        // K1: before anything is looked at.
        if write.value.len() > self.value_bytes_max() {
            return Err(Refused::TooLong);
        }
        let old = self.look_to_change(now_ms, key, write.condition, write.owner)?;
        let pieces = Pieces { before: write.value, keeps_old: false, after: &[] };
        let Write { flags, expiry_ms, .. } = *write;
        self.replace(key, old, &pieces, flags, expiry_ms.unwrap_or(0))
    }

    /// Adds bytes to a value, and returns the new stamp. Flags and expiry stay.
    ///
    /// # Errors
    /// As [`Partition::set`]. In a cache, what would be overwritten by this is gone, and absent.
    pub fn extend(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        side: Side,
        bytes: &[u8],
        owner: Option<LockOwner>,
    ) -> Result<u64, Refused> {
        if bytes.len() > self.value_bytes_max() {
            return Err(Refused::TooLong);
        }
        let old = self.look_to_change(now_ms, key, Condition::Present, owner)?;
        let Header { flags, expiry_ms, .. } = old.ok_or(Refused::Absent)?.header;
        let (before, after): (&[u8], &[u8]) = match side {
            Side::Append => (&[], bytes),
            Side::Prepend => (bytes, &[]),
        };
        self.replace(key, old, &Pieces { before, keeps_old: true, after }, flags, expiry_ms)
    }

    /// Changes a short value in one step (K9), and returns the new stamp. `change` gets it, and
    /// makes a new one of it in the same memory, whose length it returns. Flags and expiry stay.
    ///
    /// # Errors
    /// As [`Partition::set`], and if `change` returns nothing, or there are more than
    /// [`UPDATED_BYTES_MAX`] bytes.
    pub fn update(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        owner: Option<LockOwner>,
        change: impl FnOnce(&mut [u8; UPDATED_BYTES_MAX], usize) -> Option<usize>,
    ) -> Result<u64, Refused> {
        let old = self.look_to_change(now_ms, key, Condition::Present, owner)?;
        let Spot { place, header, .. } = old.ok_or(Refused::Absent)?;
        let mut bytes = [0; UPDATED_BYTES_MAX];
        let len = header.value_bytes as usize;
        let value = bytes.get_mut(..len).ok_or(Refused::Unsuitable)?;
        self.memory.copy_out(header.value_at(place), value);
        let len = change(&mut bytes, len).ok_or(Refused::Unsuitable)?;
        let before = bytes.get(..len).ok_or(Refused::Unsuitable)?;
        let pieces = Pieces { before, keeps_old: false, after: &[] };
        self.replace(key, old, &pieces, header.flags, header.expiry_ms)
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// If there is none, or the condition does not hold.
    pub fn delete(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        condition: Condition,
        owner: Option<LockOwner>,
    ) -> Result<(), Refused> {
        let old = self.look_to_change(now_ms, key, condition, owner)?;
        let old = old.ok_or(Refused::Absent)?;
        self.remove(self.bucket(key), &old);
        Ok(())
    }

    /// Gives an item another expiry, or none. Its stamp stays.
    ///
    /// # Errors
    /// If there is none, or its bucket is locked.
    pub fn touch(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        expiry_ms: Option<u64>,
        owner: Option<LockOwner>,
    ) -> Result<(), Refused> {
        let old = self.look_to_change(now_ms, key, Condition::Present, owner)?;
        let Spot { place, header, .. } = old.ok_or(Refused::Absent)?;
        let bucket = self.bucket(key);
        let expiry_ms = expiry_ms.unwrap_or(0);
        self.memory.begin_change(bucket);
        Header { expiry_ms, ..header }.write(&self.memory, place);
        self.memory.end_change(bucket);
        if let Log::Store(segments) = &mut self.log {
            segments.note_expiry(place, expiry_ms);
        }
        Ok(())
    }

    /// Forgets all items, in one step that takes time for each bucket. Locks stay; what is locked
    /// goes, too.
    pub fn clear(&mut self) {
        let mains = self.sizes.buckets as usize;
        for bucket in 0..mains {
            self.memory.begin_change(bucket);
            (0..SLOTS).for_each(|slot| self.memory.set_slot(bucket, slot, Slot::FREE));
            self.memory.end_change(bucket);
        }
        for line in mains..self.memory.lines() {
            (0..SLOTS).for_each(|slot| self.memory.set_slot(line, slot, Slot::FREE));
        }
        self.overflow.clear();
        self.overflow.extend((mains..self.memory.lines()).rev());
        if let Log::Store(segments) = &mut self.log {
            segments.clear();
        }
        self.stats.items = 0;
        self.moves += 1;
    }

    /// The item that is to be changed, if the condition holds and the bucket is not locked for
    /// somebody else.
    fn look_to_change(
        &mut self,
        now_ms: u64,
        key: &Key<'_>,
        condition: Condition,
        owner: Option<LockOwner>,
    ) -> Result<Option<Spot>, Refused> {
        self.tell_time(now_ms);
        let bucket = self.bucket(key);
        if self.memory.state(bucket).is_locked() && self.locks.holder(bucket) != owner {
            return Err(Refused::Locked);
        }
        let old = self.look(key, true);
        let stamp = old.as_ref().map(|spot| spot.header.stamp);
        match (condition, stamp) {
            (Condition::Present | Condition::Stamp(_), None) => Err(Refused::Absent),
            (Condition::Absent, Some(_)) => Err(Refused::Present),
            (Condition::Stamp(wanted), Some(stamp)) if wanted != stamp => Err(Refused::Present),
            _ => Ok(old),
        }
    }

    /// Writes an item in place of the old one, or as a new one.
    fn replace(
        &mut self,
        key: &Key<'_>,
        old: Option<Spot>,
        pieces: &Pieces<'_>,
        flags: u16,
        expiry_ms: u64,
    ) -> Result<u64, Refused> {
        let value_bytes = pieces.bytes(old.as_ref());
        if value_bytes > self.value_bytes_max() {
            return Err(Refused::TooLong);
        }
        let header = Header {
            stamp: self.next_stamp,
            expiry_ms,
            value_bytes: value_bytes as u32,
            key_bytes: key.bytes.len() as u16,
            flags,
        };
        match self.log {
            Log::Cache(_) => self.replace_in_cache(key, old, pieces, &header)?,
            Log::Store(_) => self.replace_in_store(key, old, pieces, &header)?,
        }
        Ok(self.take_stamp())
    }

    fn replace_in_cache(
        &mut self,
        key: &Key<'_>,
        old: Option<Spot>,
        pieces: &Pieces<'_>,
        header: &Header,
    ) -> Result<(), Refused> {
        let Log::Cache(ring) = &mut self.log else { unreachable!("it is a cache") };
        let words = header.words();
        let place = ring.take(&self.memory, words);
        let lap = ring.end().lap();
        // The place may be that of the old item.
        let is_live =
            |spot: &Spot, ring: &Ring| ring.end().is_live(self.memory.slot(spot.line, spot.slot));
        let live = old.filter(|spot| is_live(spot, ring));
        if pieces.keeps_old && live.is_none() {
            return Err(Refused::Absent);
        }
        self.write_item(key, place, header, pieces, live.as_ref());
        let bucket = self.bucket(key);
        let slot = Slot::new(place, lap, key.hash.tag());
        self.memory.begin_change(bucket);
        match &old {
            Some(spot) => self.memory.set_slot(spot.line, spot.slot, slot),
            None => {
                self.replace_in_bucket(bucket, slot);
                self.stats.items += 1;
            }
        }
        self.memory.end_change(bucket);
        self.sweep(words);
        Ok(())
    }

    fn replace_in_store(
        &mut self,
        key: &Key<'_>,
        old: Option<Spot>,
        pieces: &Pieces<'_>,
        header: &Header,
    ) -> Result<(), Refused> {
        let (bucket, words) = (self.bucket(key), header.words());
        let old_words = old.map_or(0, |spot| spot.header.words());
        if let Some(spot) = old.filter(|_| old_words == words && !pieces.keeps_old) {
            self.overwrite(bucket, key, &spot, header, pieces);
            return Ok(());
        }
        if old.is_none() && !self.has_slot(bucket) {
            return Err(Refused::Full);
        }
        let moves = self.moves;
        let place = self.take_in_store(words, old_words).ok_or(Refused::Full)?;
        // What was moved may be the old item, or the slot that leads to it.
        let old = if moves == self.moves { old } else { self.find(key) };
        self.write_item(key, place, header, pieces, old.as_ref());
        let slot = Slot::new(place, 0, key.hash.tag());
        self.memory.begin_change(bucket);
        match &old {
            Some(spot) => self.memory.set_slot(spot.line, spot.slot, slot),
            None => self.append_to_chain(bucket, slot),
        }
        self.memory.end_change(bucket);
        let Log::Store(segments) = &mut self.log else { unreachable!("it is a store") };
        segments.add(place, words, header.expiry_ms);
        match &old {
            Some(spot) => segments.remove(spot.place, old_words),
            None => self.stats.items += 1,
        }
        Ok(())
    }

    /// Writes an item of the same length where the old one is.
    fn overwrite(
        &mut self,
        bucket: usize,
        key: &Key<'_>,
        spot: &Spot,
        header: &Header,
        pieces: &Pieces<'_>,
    ) {
        self.memory.begin_change(bucket);
        self.write_item(key, spot.place, header, pieces, None);
        self.memory.end_change(bucket);
        if let Log::Store(segments) = &mut self.log {
            segments.note_expiry(spot.place, header.expiry_ms);
        }
    }

    fn write_item(
        &self,
        key: &Key<'_>,
        place: usize,
        header: &Header,
        pieces: &Pieces<'_>,
        old: Option<&Spot>,
    ) {
        let mut value = header.begin(&self.memory, place, key.bytes);
        value.push(pieces.before);
        if let Some(spot) = old.filter(|_| pieces.keeps_old) {
            let at = spot.header.value_at(spot.place);
            value.push_from_log(at, spot.header.value_bytes as usize);
        }
        value.push(pieces.after);
        value.finish();
    }
}
