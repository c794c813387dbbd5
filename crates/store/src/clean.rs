//! Room in the log: cleaning of a store's segments (K4, K11), and items of a cache that are written
//! anew (K3). Neither changes a version.

use crate::hash::KeyHash;
use crate::item::{Header, KEY_BYTES_MAX};
use crate::partition::{Kept, Log, Partition, Spot};
use crate::segments::{Segments, Victim};

impl Partition {
    /// The end of a batch of operations. In a cache, items that were read and would go soon are
    /// written anew, at the log's end.
    pub fn end_batch(&mut self) {
        while let Some(kept) = self.kept.pop() {
            self.write_anew(&kept);
        }
    }

    fn write_anew(&mut self, kept: &Kept) {
        let Kept { line, slot, leads_to } = *kept;
        // It may have changed, or gone, since it was read.
        if self.memory.slot(line, slot) != leads_to || !self.is_live(leads_to) {
            return;
        }
        let from = leads_to.place();
        let header = Header::read(&self.memory, from).expect("it has not been overwritten");
        let words = header.words();
        let Log::Cache(ring) = &mut self.log else { unreachable!("a store keeps all") };
        let to = ring.take(&self.memory, words);
        // Its own place may have been taken just now: then it begins no earlier than the new one.
        self.memory.copy_words(from, to, words);
        self.memory.set_slot(line, slot, leads_to.moved(to, ring.end().lap()));
        self.stats.kept += 1;
        self.sweep(words);
    }

    fn segments(&mut self) -> &mut Segments {
        match &mut self.log {
            Log::Store(segments) => segments,
            Log::Cache(_) => unreachable!("a cache has no segments"),
        }
    }

    /// A place for an item of a store that replaces so many words. Nothing, if there is no room.
    pub(crate) fn take_in_store(&mut self, words: usize, replaced: usize) -> Option<usize> {
        while !self.has_capacity(words, replaced) {
            let now_ms = self.now_ms;
            let expired = self.segments().expired(now_ms)?;
            self.expire_segment(expired);
        }
        self.clean_at_pace(words);
        // Each segment that is cleaned gains something, as there is capacity.
        for _ in 0..8 * self.segments().count() {
            let taken = self.segments().take(words);
            if taken.is_some() {
                self.announce_segments();
                return taken;
            }
            self.clean_to_end()?;
        }
        debug_assert!(false, "cleaning gains, if there is capacity");
        None
    }

    fn has_capacity(&mut self, words: usize, replaced: usize) -> bool {
        let segments = self.segments();
        let then = segments.live_words() + words as u64 - replaced as u64;
        then <= segments.capacity_words() || words <= replaced
    }

    /// Readers are told before a segment is written that slots may have led to.
    fn announce_segments(&mut self) {
        let begun = self.segments().begun();
        if self.memory.mark() != begun {
            self.memory.set_mark(begun);
        }
    }

    /// Cleans as much as a write of so many words has to pay for.
    fn clean_at_pace(&mut self, words: usize) {
        let segments = self.segments();
        if !segments.is_short() {
            return;
        }
        let victim = segments.victim.or_else(|| segments.choose_victim());
        if let Some(Victim { pace, .. }) = victim {
            self.clean(words.saturating_mul(pace));
        }
    }

    /// Cleans a segment to its end. Nothing, if nothing is to be gained by that.
    fn clean_to_end(&mut self) -> Option<()> {
        let segments = self.segments();
        segments.victim.or_else(|| segments.choose_victim())?;
        self.clean(usize::MAX);
        Some(())
    }

    /// Looks at so many words of the segment that is cleaned, or a few more.
    fn clean(&mut self, words: usize) {
        let mut left = words;
        while let Some(Victim { segment, walked, .. }) = self.segments().victim {
            if walked == self.segments().used(segment) {
                self.segments().free_victim();
                return;
            }
            if left == 0 {
                return;
            }
            let at = self.segments().start(segment) + walked;
            let looked_at = self.clean_item(at);
            left = left.saturating_sub(looked_at);
            if let Some(victim) = &mut self.segments().victim {
                victim.walked += looked_at;
            }
        }
    }

    /// Moves the item that begins there, if it is one; returns its words.
    fn clean_item(&mut self, from: usize) -> usize {
        let header = Header::read(&self.memory, from).expect("the segment was written up to there");
        let words = header.words();
        let (bucket, found) = self.slot_of_item(from, &header);
        let Some((line, slot)) = found else { return words };
        let is_gone = header.is_expired(self.now_ms) && !self.memory.state(bucket).is_locked();
        if is_gone {
            self.expire(bucket, &Spot { line, slot, place: from, header });
            return words;
        }
        let to = self.segments().take_for_moved(words);
        self.announce_segments();
        self.memory.copy_words(from, to, words);
        self.memory.set_slot(line, slot, self.memory.slot(line, slot).moved(to, 0));
        self.segments().remove(from, words);
        self.segments().add(to, words, header.expiry_ms);
        self.stats.moved_bytes += 8 * words as u64;
        self.moves += 1;
        words
    }

    /// The bucket of an item in the log, and the slot that leads to it, if it is still one.
    fn slot_of_item(&self, at: usize, header: &Header) -> (usize, Option<(usize, usize)>) {
        let mut key = [0; KEY_BYTES_MAX];
        let hash: KeyHash = self.secret.hash(header.key(&self.memory, at, &mut key));
        let bucket = hash.bucket(self.sizes.buckets);
        (bucket, self.slot_of_place(bucket, at))
    }

    /// Items of a segment that have expired are gone.
    #[cold]
    fn expire_segment(&mut self, segment: usize) {
        let (start, used) = (self.segments().start(segment), self.segments().used(segment));
        let (mut at, mut next_ms) = (start, u64::MAX);
        while at < start + used {
            let header = Header::read(&self.memory, at).expect("it was written up to there");
            if let (bucket, Some((line, slot))) = self.slot_of_item(at, &header)
                && header.expiry_ms != 0
            {
                let is_locked = self.memory.state(bucket).is_locked();
                if header.is_expired(self.now_ms) && !is_locked {
                    self.expire(bucket, &Spot { line, slot, place: at, header });
                } else {
                    // What is locked is looked at again when time has passed.
                    next_ms = next_ms.min(header.expiry_ms.max(self.now_ms + 1));
                }
            }
            at += header.words();
        }
        self.segments().set_expiry(segment, next_ms);
    }
}
