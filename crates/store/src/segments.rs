//! The log of a store: segments of equal length, in which items lie one behind the other (K11).
//!
//! Items are written into one segment at a time, and those that cleaning moves into another. One
//! free segment at least is kept back when cleaning begins, so that what is moved always has room:
//! it is never more than a segment's words. Which slots lead where is not known here (`clean`).

use crate::sizes::Sizes;

/// Most segments of a log. They are fewer if the longest item would then take more of one.
const SEGMENTS_MAX: u64 = 256;
/// Segments that hold nothing of the capacity: one is written to, one is moved to, one is free.
const SPARE: u64 = 3;

#[derive(Clone, Debug)]
struct Segment {
    /// Words that were written, from its beginning on.
    used: usize,
    /// Words of those that slots lead to.
    live: usize,
    /// No item in it expires before this.
    expires_ms: u64,
}

/// The segment that is cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub segment: usize,
    /// Words that were looked at.
    pub walked: usize,
    /// Words to be looked at for each that is written, so that it is done in time.
    pub pace: usize,
}

/// What segments there are, and what is in them.
#[derive(Debug)]
pub(crate) struct Segments {
    /// Words of each.
    words: usize,
    all: Vec<Segment>,
    free: Vec<usize>,
    written: Option<usize>,
    moved_to: Option<usize>,
    pub victim: Option<Victim>,
    live_words: u64,
    capacity_words: u64,
    /// How often a segment was begun.
    begun: u64,
}

/// How many segments such a log has. More keep less of the log back, and lose more at their ends.
fn count_of(log_words: u64, item_words_max: u64) -> u64 {
    (2 * log_words / item_words_max).isqrt().clamp(8, SEGMENTS_MAX)
}

/// Words of items that always have room in such a log.
///
/// With less than that, some segment has more that is dead than what an end may lose, so that
/// cleaning gains; a sixteenth is left so that it gains much.
pub(crate) fn capacity_words(log_words: u64, item_words_max: u64) -> u64 {
    let count = count_of(log_words, item_words_max);
    (count - SPARE) * (log_words / count).saturating_sub(item_words_max) * 15 / 16
}

impl Segments {
    pub fn new(sizes: &Sizes) -> Segments {
        let Sizes { log_words, item_words_max, .. } = *sizes;
        let count = count_of(log_words, item_words_max);
        let words = log_words / count;
        let capacity_words = capacity_words(log_words, item_words_max);
        let empty = Segment { used: 0, live: 0, expires_ms: u64::MAX };
        Segments {
            words: words as usize,
            all: vec![empty; count as usize],
            free: (0..count as usize).rev().collect(),
            written: None,
            moved_to: None,
            victim: None,
            live_words: 0,
            capacity_words,
            begun: 0,
        }
    }

    pub fn live_words(&self) -> u64 {
        self.live_words
    }

    /// What always has room (K4).
    pub fn capacity_words(&self) -> u64 {
        self.capacity_words
    }

    /// How often a segment was begun: readers are told before it is written.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The segment that has this word.
    fn segment_of(&self, at: usize) -> usize {
        at / self.words
    }

    /// Where a segment begins.
    pub fn start(&self, segment: usize) -> usize {
        segment * self.words
    }

    /// Words of a segment that were written.
    pub fn used(&self, segment: usize) -> usize {
        self.all[segment].used
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether cleaning should go on while items are written.
    pub fn is_short(&self) -> bool {
        self.free.len() <= 2
    }

    /// Takes a place for an item that is written. Nothing, if segments have to be cleaned first.
    pub fn take(&mut self, words: usize) -> Option<usize> {
        if !self.written.is_some_and(|head| self.fits(head, words)) {
            // The last one is kept back.
            if self.free.len() < 2 {
                return None;
            }
            self.written = Some(self.begin());
        }
        self.written.map(|head| self.append(head, words))
    }

    /// Takes a place for an item that cleaning moves.
    pub fn take_for_moved(&mut self, words: usize) -> usize {
        let head = self.moved_to.filter(|head| self.fits(*head, words));
        let head = head.unwrap_or_else(|| self.begin());
        self.moved_to = Some(head);
        self.append(head, words)
    }

    fn fits(&self, head: usize, words: usize) -> bool {
        self.all[head].used + words <= self.words
    }

    fn begin(&mut self) -> usize {
        self.begun += 1;
        self.free.pop().expect("one is kept back when cleaning begins")
    }

    fn append(&mut self, head: usize, words: usize) -> usize {
        let start = self.start(head);
        let segment = &mut self.all[head];
        let at = start + segment.used;
        segment.used += words;
        at
    }

    /// A slot leads to this item from now on.
    pub fn add(&mut self, at: usize, words: usize, expiry_ms: u64) {
        self.note_expiry(at, expiry_ms);
        let segment = self.segment_of(at);
        self.all[segment].live += words;
        self.live_words += words as u64;
    }

    /// An item of the log expires then, or never if that is 0.
    pub fn note_expiry(&mut self, at: usize, expiry_ms: u64) {
        let segment = self.segment_of(at);
        let least = &mut self.all[segment].expires_ms;
        *least = (*least).min(if expiry_ms == 0 { u64::MAX } else { expiry_ms });
    }

    /// No slot leads to it any more.
    pub fn remove(&mut self, at: usize, words: usize) {
        let segment = self.segment_of(at);
        self.all[segment].live -= words;
        self.live_words -= words as u64;
    }

    /// Begins to clean the segment with the least that is live. Nothing, if nothing is to be
    /// gained.
    pub fn choose_victim(&mut self) -> Option<Victim> {
        let is_closed = |segment: &usize| {
            let is_head = [self.written, self.moved_to].contains(&Some(*segment));
            !is_head && self.all[*segment].used > 0
        };
        let segment = (0..self.count()).filter(is_closed).min_by_key(|at| self.all[*at].live)?;
        let gained = self.words - self.all[segment].live;
        if gained == 0 {
            return None;
        }
        let pace = self.words.div_ceil(gained) + 1;
        self.victim = Some(Victim { segment, walked: 0, pace });
        self.victim
    }

    /// The segment that was cleaned is free.
    pub fn free_victim(&mut self) {
        let Victim { segment, .. } = self.victim.take().expect("there is one");
        assert_eq!(self.all[segment].live, 0, "all that was live was moved");
        self.all[segment] = Segment { used: 0, live: 0, expires_ms: u64::MAX };
        self.free.push(segment);
    }

    /// A segment in which something may have expired.
    pub fn expired(&self, now_ms: u64) -> Option<usize> {
        self.all.iter().position(|segment| segment.expires_ms <= now_ms)
    }

    /// What is left in a segment does not expire before this.
    pub fn set_expiry(&mut self, segment: usize, expires_ms: u64) {
        self.all[segment].expires_ms = expires_ms;
    }

    /// Slots lead to nothing any more: all of it can be written again.
    pub fn clear(&mut self) {
        for segment in &mut self.all {
            *segment = Segment { used: 0, live: 0, expires_ms: u64::MAX };
        }
        (self.written, self.moved_to, self.victim, self.live_words) = (None, None, None, 0);
        self.free = (0..self.count()).rev().collect();
    }
}
