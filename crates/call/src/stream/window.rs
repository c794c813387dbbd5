//! How much of a stream may be in progress (R15, R17): the sender observes this limit, and the
//! receiver checks it.
//!
//! Numbers are segment numbers, modulo 2^16. Both ends count the records of messages after the
//! latest segment that the receiver is known to have handled.

/// The maximum number of exchanges of a stream in progress.
pub const WIDTH_MAX: u16 = 16;
/// The number of exchanges that belong to each stream. They may have messages of any length.
pub(super) const WIDTH_OWN: u16 = 2;
/// The maximum bytes of messages in progress when there are more segments than that.
pub const WIDE_BYTES_MAX: usize = 1 << 20;

/// R17: whether this many bytes of messages may be in progress in this many segments. Segments
/// without messages do not count.
const fn may_be_under_way(segments: usize, bytes: usize) -> bool {
    segments <= WIDTH_OWN as usize || bytes <= WIDE_BYTES_MAX
}

/// Bytes of the latest segments that were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct SentBytes {
    by_number: [usize; WIDTH_MAX as usize],
}

impl SentBytes {
    pub(super) fn note(&mut self, number: u16, bytes: usize) {
        self.by_number[usize::from(number % WIDTH_MAX)] = bytes;
    }

    /// The bytes of messages that segment `number` may have, if `handled` is the latest segment
    /// that the receiver is known to have handled. At most [`WIDTH_MAX`] segments are between them.
    pub(super) fn room(&self, handled: u16, number: u16) -> usize {
        let segments = number.wrapping_sub(handled).min(WIDTH_MAX);
        let before = (1..segments).map(|back| number.wrapping_sub(back));
        let bytes = before.map(|number| self.by_number[usize::from(number % WIDTH_MAX)]);
        let (mut count, mut sent) = (1, 0);
        bytes
            .filter(|bytes| *bytes > 0)
            .for_each(|bytes| (count, sent) = (count + 1, sent + bytes));
        if count <= WIDTH_OWN { usize::MAX } else { WIDE_BYTES_MAX.saturating_sub(sent) }
    }
}

/// Segments that arrived before their predecessors, with what the driver keeps for them.
#[derive(Debug)]
pub(super) struct Parked<T> {
    segments: Vec<(u16, usize, T)>,
}

impl<T> Parked<T> {
    pub(super) const fn new() -> Parked<T> {
        Parked { segments: Vec::new() }
    }

    /// Keeps a segment with this many bytes of messages. Returns it if there is one with its
    /// number.
    pub(super) fn insert(&mut self, number: u16, bytes: usize, segment: T) -> Result<(), T> {
        if self.segments.iter().any(|(other, ..)| *other == number) {
            return Err(segment);
        }
        self.segments.push((number, bytes, segment));
        Ok(())
    }

    /// The segment of that number, with how many bytes of messages it has.
    pub(super) fn take(&mut self, number: u16) -> Option<(usize, T)> {
        let place = self.segments.iter().position(|(other, ..)| *other == number)?;
        let (_, bytes, segment) = self.segments.swap_remove(place);
        Some((bytes, segment))
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.segments.pop().map(|(_, _, segment)| segment)
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.segments.retain(|(_, _, segment)| keep(segment));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().map(|(_, _, segment)| segment)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(|(_, bytes, _)| bytes).sum()
    }

    pub(super) fn clear(&mut self) {
        self.segments.clear();
    }

    /// The number of kept segments with messages.
    fn with_messages(&self) -> usize {
        self.segments.iter().filter(|(_, bytes, _)| *bytes > 0).count()
    }
}

/// What the peer has sent of what it was allowed to send (R17), counted from after the latest
/// segment that the peer had handled when it was last allowed to send.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Segments with messages that were handled since then.
    segments: usize,
    /// Bytes of their messages.
    bytes: usize,
}

impl Allowance {
    /// The state before the first segment.
    pub(super) const fn new() -> Allowance {
        Allowance { segments: 0, bytes: 0 }
    }

    /// Notes that a segment with this many bytes was handled.
    pub(super) fn take(&mut self, bytes: usize) {
        self.segments += usize::from(bytes > 0);
        self.bytes += bytes;
    }

    /// Whether a segment with this many bytes is allowed, in addition to those that are parked.
    pub(super) fn admits<T>(&self, bytes: usize, parked: &Parked<T>) -> bool {
        let segments = self.segments + parked.with_messages() + 1;
        bytes == 0 || may_be_under_way(segments, self.bytes + parked.bytes() + bytes)
    }
}
