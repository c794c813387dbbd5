//! The state of a session's streams at its two ends: which numbers are in use (R14, R15, R19, R21).

use super::parse::SegmentError;
use super::segment::{CallerSegment, ServerSegment};
use super::window::WIDTH_OWN;
use crate::Status;

/// The caller's end: numbers for streams.
#[derive(Debug)]
pub struct StreamNumbers {
    /// The next number; 0 when all are used up.
    next: u32,
    open: u32,
    open_max: u32,
    slots: u32,
    /// Slots that streams use beyond their own two.
    lent: u32,
}

impl StreamNumbers {
    /// For a session with this many slots. A stream may need two of them.
    pub fn new(slots: u32) -> StreamNumbers {
        StreamNumbers { next: 1, open: 0, open_max: slots / 2, slots, lent: 0 }
    }

    /// Takes a number for another stream. Returns `None` if the session has as many streams as it
    /// can, or has used up its numbers: another session is needed.
    pub fn open(&mut self) -> Option<u32> {
        if self.open == self.open_max || self.next == 0 {
            return None;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.open += 1;
        Some(number)
    }

    /// Notes that a stream has ended.
    ///
    /// # Panics
    /// If more streams are closed than were opened.
    pub fn close(&mut self) {
        self.open = self.open.checked_sub(1).expect("each stream is closed once");
    }

    /// R14: how many slots beyond its own two a stream that uses `lent` of them now may use. This
    /// can be fewer than `lent` if streams that were opened since then need them.
    pub fn available(&self, lent: u32) -> u32 {
        let own = (self.open + 1).min(self.open_max) * u32::from(WIDTH_OWN);
        let lent_to_others = self.lent.saturating_sub(lent);
        // Half are kept for streams that open at once.
        let lendable = self.slots.saturating_sub(own).min(self.slots / 2);
        lendable.saturating_sub(lent_to_others)
    }

    /// Notes that a stream's use of slots beyond its own changed from `from` to `to`.
    ///
    /// # Panics
    /// If the stream did not use `from` slots.
    pub fn lend(&mut self, from: u32, to: u32) {
        let lent_to_others = self.lent.checked_sub(from).expect("a stream gives back what it had");
        self.lent = lent_to_others + to;
    }

    /// Slots that are lent.
    #[cfg(test)]
    pub(super) fn lent(&self) -> u32 {
        self.lent
    }

    /// Streams that are not over.
    #[cfg(test)]
    pub(super) fn open_streams(&self) -> u32 {
        self.open
    }
}

/// The server's end: the streams that exist, with what the driver keeps for each.
///
/// Nothing is kept of streams that have ended. Their numbers distinguish them from streams that
/// have not begun. Exchanges may overtake each other, so a number may be skipped at first; skipped
/// numbers are remembered. There can be as many of them as the caller may have streams.
#[derive(Debug)]
pub struct SessionStreams<K> {
    streams_max: usize,
    live: Vec<(u32, K)>,
    /// The greatest number that has begun.
    latest: u32,
    /// Smaller numbers that have not begun, at most `streams_max`.
    missing: Vec<u32>,
}

/// What to do with an exchange that arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<K, B> {
    /// It belongs to this stream.
    Stream(K),
    /// It begins a stream. Either [insert](SessionStreams::insert) the stream, or answer with a
    /// [refusal](ServerSegment::refusal).
    New,
    /// Answer it with this at once, and do nothing else with it.
    Answer(ServerSegment<B>),
}

impl<K: Copy> SessionStreams<K> {
    /// For a session with this many slots.
    pub fn new(slots: u32) -> SessionStreams<K> {
        let streams_max = usize::try_from(slots / 2).expect("slots are counted in memory");
        SessionStreams { streams_max, live: Vec::new(), latest: 0, missing: Vec::new() }
    }

    fn find(&self, number: u32) -> Option<K> {
        self.live.iter().find(|(live, _)| *live == number).map(|(_, key)| *key)
    }

    /// Classifies an exchange that arrived.
    pub fn classify<B>(&mut self, segment: &CallerSegment<B>) -> Arrival<K, B> {
        if let Some(key) = self.find(segment.stream) {
            return Arrival::Stream(key);
        }
        // A stream begins with segment 0, or with segment 1 if that overtook segment 0.
        let begins = segment.reset
            || (segment.number, segment.open.is_some()) == (0, true)
            || (segment.number, segment.open.is_some()) == (1, false);
        if !begins || !self.begin(segment.stream) || segment.reset {
            return Arrival::Answer(ServerSegment::over(segment.number));
        }
        if self.live.len() == self.streams_max {
            let status = Status::resource_exhausted("the session has as many streams as it can");
            return Arrival::Answer(ServerSegment::refusal(segment.number, status));
        }
        Arrival::New
    }

    /// Classifies an exchange that could not be parsed. It belongs to a stream, for
    /// [`handle_malformed`](super::ServerStream::handle_malformed), or its stream ends with it.
    pub fn classify_malformed<B>(&mut self, error: &SegmentError) -> Arrival<K, B> {
        if let Some(key) = self.find(error.stream) {
            return Arrival::Stream(key);
        }
        self.begin(error.stream);
        Arrival::Answer(ServerSegment::refusal(error.number, error.why.into()))
    }

    /// Adds a new stream.
    ///
    /// # Panics
    /// If the maximum is reached: [`SessionStreams::classify`] was not called.
    pub fn insert(&mut self, number: u32, key: K) {
        assert!(self.live.len() < self.streams_max, "new streams are judged first");
        self.live.push((number, key));
    }

    /// Forgets a stream that has ended.
    pub fn remove(&mut self, number: u32) {
        self.live.retain(|(live, _)| *live != number);
    }

    /// All streams, to be ended with the session.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.live.iter().map(|(_, key)| *key)
    }

    /// Notes that a stream has begun. Returns whether it had not begun before.
    fn begin(&mut self, number: u32) -> bool {
        if number <= self.latest {
            let place = self.missing.iter().position(|missing| *missing == number);
            return place.map(|place| self.missing.swap_remove(place)).is_some();
        }
        let passed_over = usize::try_from(number - self.latest - 1).unwrap_or(usize::MAX);
        // A caller that keeps the rules never skips this many.
        if passed_over > self.streams_max - self.missing.len() {
            return false;
        }
        self.missing.extend(self.latest + 1..number);
        self.latest = number;
        true
    }
}
