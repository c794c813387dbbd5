//! Slots of a bucket, and of its chain in a store.
//!
//! A cache's bucket is one line; slots are free in any order, and stale ones are as good as free.
//! A store's chain is kept dense: in all of its buckets but the last, six slots lead to items and
//! the seventh to the next bucket; in the last one, those that are used come first, and they are
//! two at least if it is not the main one.

use crate::item::Key;
use crate::memory::SLOTS;
use crate::partition::{Log, Partition, Spot};
use crate::slot::Slot;

const LAST: usize = SLOTS - 1;

impl Partition {
    /// An item is gone, as it has expired.
    #[cold]
    pub(crate) fn expire(&mut self, bucket: usize, spot: &Spot) {
        self.stats.expired += 1;
        self.remove(bucket, spot);
    }

    /// Slots of a cache that lead to what was overwritten, perhaps the key's, are free now, unless
    /// their bucket is locked.
    #[cold]
    pub(crate) fn forget_stale(&mut self, key: &Key<'_>) {
        let line = self.bucket(key);
        if self.memory.state(line).is_locked() {
            return;
        }
        for slot in 0..SLOTS {
            let leads_to = self.memory.slot(line, slot);
            if leads_to.has_tag(key.hash.tag()) && !self.is_live(leads_to) {
                self.free_stale(line, slot);
            }
        }
    }

    fn free_stale(&mut self, line: usize, slot: usize) {
        self.memory.begin_change(line);
        self.memory.set_slot(line, slot, Slot::FREE);
        self.memory.end_change(line);
        self.count_forgotten();
    }

    fn count_forgotten(&mut self) {
        self.stats.forgotten += 1;
        self.stats.items -= 1;
    }

    /// An item is gone.
    pub(crate) fn remove(&mut self, bucket: usize, spot: &Spot) {
        self.memory.begin_change(bucket);
        match &mut self.log {
            Log::Cache(_) => self.memory.set_slot(spot.line, spot.slot, Slot::FREE),
            Log::Store(segments) => {
                segments.remove(spot.place, spot.header.words());
                self.fill_hole(bucket, spot.line, spot.slot);
            }
        }
        self.memory.end_change(bucket);
        self.stats.items -= 1;
        self.moves += 1;
    }

    /// The last slot of a chain takes the place of another.
    fn fill_hole(&mut self, bucket: usize, line: usize, slot: usize) {
        let (before, last) = self.chain_end(bucket);
        let used = self.used(last);
        let moved = self.memory.slot(last, used - 1);
        self.memory.set_slot(line, slot, moved);
        self.memory.set_slot(last, used - 1, Slot::FREE);
        // One slot left needs no bucket of its own.
        if let Some(before) = before
            && used == 2
        {
            self.memory.set_slot(before, LAST, self.memory.slot(last, 0));
            self.memory.set_slot(last, 0, Slot::FREE);
            self.overflow.push(last);
        }
    }

    /// The last bucket of a chain, and the one before it.
    fn chain_end(&self, bucket: usize) -> (Option<usize>, usize) {
        let (mut before, mut last) = (None, bucket);
        while let Some(next) = self.memory.slot(last, LAST).linked() {
            (before, last) = (Some(last), next);
        }
        (before, last)
    }

    /// How many slots of a chain's last bucket are used.
    fn used(&self, line: usize) -> usize {
        self.memory.bucket(line).slots().take_while(|slot| !slot.is_free()).count()
    }

    /// Whether a store's chain has room for one more. Items of it that have expired go first, if
    /// not.
    pub(crate) fn has_slot(&mut self, bucket: usize) -> bool {
        let is_full = |table: &Partition| {
            table.overflow.is_empty() && table.used(table.chain_end(bucket).1) == SLOTS
        };
        if is_full(self) {
            self.expire_chain(bucket);
        }
        !is_full(self)
    }

    #[cold]
    fn expire_chain(&mut self, bucket: usize) {
        while let Some(spot) = self.first_expired(bucket) {
            self.expire(bucket, &spot);
        }
    }

    fn first_expired(&self, bucket: usize) -> Option<Spot> {
        let mut line = bucket;
        loop {
            let slots = self.memory.bucket(line);
            let is_item = |slot: &Slot| !slot.is_free() && slot.linked().is_none();
            for (slot, leads_to) in slots.slots().enumerate().filter(|(_, slot)| is_item(slot)) {
                let spot = self.spot(line, slot, leads_to.place());
                if let Some(spot) = spot.filter(|spot| spot.header.is_expired(self.now_ms)) {
                    return Some(spot);
                }
            }
            line = slots.next()?;
        }
    }

    /// A store's chain gets one more slot, for which there is room.
    pub(crate) fn append_to_chain(&mut self, bucket: usize, slot: Slot) {
        let (_, last) = self.chain_end(bucket);
        let used = self.used(last);
        if used < SLOTS {
            self.memory.set_slot(last, used, slot);
            return;
        }
        let next = self.overflow.pop().expect("its room was seen to");
        self.memory.set_slot(next, 0, self.memory.slot(last, LAST));
        self.memory.set_slot(next, 1, slot);
        self.memory.set_slot(last, LAST, Slot::link(next));
    }

    /// A cache's bucket gets one more slot: instead of a free or a stale one, or of the one whose
    /// item was written the longest ago (K3).
    pub(crate) fn replace_in_bucket(&mut self, bucket: usize, slot: Slot) {
        let Log::Cache(ring) = &self.log else { unreachable!("a store has chains") };
        let mut slots = [Slot::FREE; SLOTS];
        slots.iter_mut().zip(self.memory.bucket(bucket).slots()).for_each(|(to, slot)| *to = slot);
        let free = slots.iter().position(|slot| slot.is_free());
        let end = ring.end();
        let at = free.or_else(|| slots.iter().position(|slot| !end.is_live(*slot)));
        let at = at.unwrap_or_else(|| {
            let oldest = (0..SLOTS).max_by_key(|at| ring.age_words(slots[*at]));
            oldest.expect("there are slots")
        });
        self.memory.set_slot(bucket, at, slot);
        if !slots[at].is_free() {
            self.count_forgotten();
        }
    }

    /// The slot that leads to this place, in the chain of a bucket.
    pub(crate) fn slot_of_place(&self, bucket: usize, place: usize) -> Option<(usize, usize)> {
        let mut line = bucket;
        loop {
            let slots = self.memory.bucket(line);
            let leads_there =
                |slot: &Slot| !slot.is_free() && slot.linked().is_none() && slot.place() == place;
            if let Some(slot) = slots.slots().position(|slot| leads_there(&slot)) {
                return Some((line, slot));
            }
            line = slots.next()?;
        }
    }

    /// Buckets that are due are freed of what a cache has overwritten long ago.
    pub(crate) fn sweep(&mut self, words: usize) {
        let buckets = self.sizes.buckets as usize;
        let Log::Cache(ring) = &mut self.log else { return };
        for line in ring.due_sweeps(words, buckets) {
            for slot in 0..SLOTS {
                let leads_to = self.memory.slot(line, slot);
                if !leads_to.is_free() && !self.is_live(leads_to) {
                    // Also if the bucket is locked: it must not come to life again.
                    self.free_stale(line, slot);
                }
            }
        }
    }
}
