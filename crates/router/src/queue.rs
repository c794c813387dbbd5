//! Requests that wait until a worker may take them.
//!
//! There is a list for each priority, in the order of arrival, and such lists again for requests
//! that only the primary may take: otherwise one of these could keep others from idle workers. For
//! the same reason they are at most half of all.
//!
//! Invariants: a list's requests have ascending sequence numbers; a priority's bit is set if and
//! only if its list has a request. Room for `waiting_max` requests is reserved at the start, and
//! when that changes; nothing is allocated otherwise.

use petasos_base::Time;

use crate::config::PRIORITIES;
use crate::request::{Affinity, Request};

const NONE: u32 = u32::MAX;
const LISTS: usize = PRIORITIES as usize;

/// For whom a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// For any worker.
    Shared,
    /// For the primary.
    Primary,
}

impl Line {
    #[inline]
    fn of(affinity: Affinity) -> Line {
        match affinity {
            Affinity::Primary => Line::Primary,
            _ => Line::Shared,
        }
    }
}

/// A request at the head of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Rank and sequence number: the smallest goes first.
    pub order: (u8, u64),
    pub affinity: Affinity,
    pub arrived: Time,
    pub expires: Time,
    /// It expires since it has waited as long as it may then, and not by itself.
    pub ages: bool,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    entries: Vec<Entry<T>>,
    /// First of the entries not in use.
    free: u32,
    lines: [Lists; 2],
    waiting_max: usize,
    sequence: u64,
    /// How many of the requests expire.
    expiring: usize,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    /// None if the entry is not in use.
    token: Option<T>,
    head: Head,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Lists {
    /// First and last entry; valid if the priority's bit is set.
    ends: [(u32, u32); LISTS],
    bits: u16,
    len: usize,
}

/// 0 for the most urgent priority. There is a list for each rank.
#[inline]
fn rank(priority: u8) -> u8 {
    (PRIORITIES - 1).saturating_sub(priority)
}

const _: () = assert!(PRIORITIES as u32 == u16::BITS, "a bit for each priority");

impl<T> Queue<T> {
    /// An empty queue with room for `waiting_max` requests.
    pub(crate) fn new(waiting_max: usize) -> Queue<T> {
        Queue {
            entries: Vec::with_capacity(waiting_max),
            free: NONE,
            lines: [Lists { ends: [(NONE, NONE); LISTS], bits: 0, len: 0 }; 2],
            waiting_max,
            sequence: 0,
            expiring: 0,
        }
    }

    /// Lets so many wait from now on. What waits stays, also if that is more.
    pub(crate) fn set_room(&mut self, waiting_max: usize) {
        self.waiting_max = waiting_max;
        self.entries.reserve(waiting_max.saturating_sub(self.entries.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.lines[0].len + self.lines[1].len
    }

    pub(crate) fn line_len(&self, line: Line) -> usize {
        self.lines[line as usize].len
    }

    /// Whether there is room for such a request.
    #[inline]
    pub(crate) fn has_room(&self, affinity: Affinity) -> bool {
        self.len() < self.waiting_max && !self.is_part_full(Line::of(affinity))
    }

    /// Whether a line has as much as it may have, whatever the other one has.
    #[inline]
    fn is_part_full(&self, line: Line) -> bool {
        line == Line::Primary && self.line_len(line) >= self.waiting_max / 2
    }

    /// Whether a request may have to be dropped because of its age.
    pub(crate) fn may_expire(&self) -> bool {
        self.expiring > 0
    }

    /// Adds a request at the end of its list. There must be room, or one must have been displaced.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, request: Request<T>, ages: bool) {
        let has_entry = self.free != NONE || self.entries.len() < self.entries.capacity();
        debug_assert!(has_entry, "the caller makes room");
        let line = Line::of(request.affinity);
        self.expiring += usize::from(request.expires != Time::NEVER);
        let head = Head {
            order: (rank(request.priority), self.sequence),
            affinity: request.affinity,
            arrived: now,
            expires: request.expires,
            ages,
        };
        self.sequence += 1;
        self.append(line, Entry { token: Some(request.token), head, before: NONE, after: NONE });
    }

    fn append(&mut self, line: Line, entry: Entry<T>) {
        let list = usize::from(entry.head.order.0);
        let index = self.place(entry);
        let lists = &mut self.lines[line as usize];
        lists.len += 1;
        if lists.bits & (1 << list) == 0 {
            lists.bits |= 1 << list;
            lists.ends[list] = (index, index);
            return;
        }
        let last = core::mem::replace(&mut lists.ends[list].1, index);
        self.entries[last as usize].after = index;
        self.entries[index as usize].before = last;
    }

    fn place(&mut self, entry: Entry<T>) -> u32 {
        if self.free == NONE {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let index = self.free;
        self.free = core::mem::replace(&mut self.entries[index as usize], entry).after;
        index
    }

    /// The request of a line that goes first.
    #[inline]
    pub(crate) fn head(&self, line: Line) -> Option<&Head> {
        let lists = &self.lines[line as usize];
        let first = lists.ends.get(lists.bits.trailing_zeros() as usize)?.0;
        Some(&self.entries[first as usize].head)
    }

    /// Takes the request of a line that goes first.
    #[inline]
    pub(crate) fn pop(&mut self, line: Line) -> Option<T> {
        let bits = self.lines[line as usize].bits;
        (bits != 0).then(|| self.pop_first(line, bits.trailing_zeros() as usize))
    }

    #[inline]
    fn pop_first(&mut self, line: Line, list: usize) -> T {
        let lists = &mut self.lines[line as usize];
        let (first, last) = lists.ends[list];
        if first == last {
            lists.bits &= !(1 << list);
        } else {
            let after = self.entries[first as usize].after;
            lists.ends[list].0 = after;
            self.entries[after as usize].before = NONE;
        }
        self.release(line, first)
    }

    /// Takes the newest request of the least urgent priority in whose place such a request may
    /// wait, if that is less urgent than `priority`.
    pub(crate) fn displace(&mut self, affinity: Affinity, priority: u8) -> Option<T> {
        let own = Line::of(affinity);
        let line = match self.is_part_full(own) {
            true => own,
            false => [Line::Shared, Line::Primary].into_iter().max_by_key(|of| self.rear(*of))?,
        };
        let (list, _) = self.rear(line).filter(|(list, _)| *list > rank(priority))?;
        let list = usize::from(list);
        let (first, last) = self.lines[line as usize].ends[list];
        let before = self.entries[last as usize].before;
        if first == last {
            self.lines[line as usize].bits &= !(1 << list);
        } else {
            self.lines[line as usize].ends[list].1 = before;
            self.entries[before as usize].after = NONE;
        }
        Some(self.release(line, last))
    }

    /// Rank and sequence number of the newest request of a line's least urgent priority.
    fn rear(&self, line: Line) -> Option<(u8, u64)> {
        let lists = &self.lines[line as usize];
        let list = lists.bits.checked_ilog2()?;
        let last = lists.ends[list as usize].1;
        Some(self.entries[last as usize].head.order)
    }

    /// Takes a request that has expired from the head of any list.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<(T, Head)> {
        let (line, head) = self.heads().find(|(_, head)| head.expires <= now)?;
        let head = *head;
        Some((self.pop_first(line, head.order.0.into()), head))
    }

    /// When the first head of a list expires.
    pub(crate) fn next_expiry(&self) -> Time {
        self.heads().map(|(_, head)| head.expires).min().unwrap_or(Time::NEVER)
    }

    fn heads(&self) -> impl Iterator<Item = (Line, &Head)> {
        [Line::Shared, Line::Primary].into_iter().flat_map(move |line| {
            let lists = &self.lines[line as usize];
            let mut bits = lists.bits;
            let used = core::iter::from_fn(move || {
                let list = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(list)
            });
            used.map(move |list| (line, &self.entries[lists.ends[list].0 as usize].head))
        })
    }

    fn release(&mut self, line: Line, index: u32) -> T {
        let entry = &mut self.entries[index as usize];
        entry.after = core::mem::replace(&mut self.free, index);
        entry.before = NONE;
        self.expiring -= usize::from(entry.head.expires != Time::NEVER);
        self.lines[line as usize].len -= 1;
        entry.token.take().expect("entries in lists are in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: u32, affinity: Affinity, priority: u8, expires: u64) -> Request<u32> {
        Request { token, affinity, priority, expires: Time::from_nanos(expires) }
    }

    /// With room for these and twice as many.
    fn filled(requests: &[(Affinity, u8, u64)]) -> Queue<u32> {
        let mut queue = Queue::new(requests.len() * 3);
        for (token, (affinity, priority, expires)) in requests.iter().enumerate() {
            queue.push(Time::ZERO, request(token as u32, *affinity, *priority, *expires), false);
        }
        queue
    }

    const ANY: Affinity = Affinity::Any;
    const PRIMARY: Affinity = Affinity::Primary;
    const NEVER: u64 = u64::MAX;

    #[test]
    fn lines_are_in_order_of_priority_and_arrival() {
        let mut queue = filled(&[
            (ANY, 12, NEVER),
            (PRIMARY, 14, NEVER),
            (ANY, 15, NEVER),
            (Affinity::Key(4), 12, NEVER),
            (PRIMARY, 200, NEVER),
            (ANY, 0, NEVER),
        ]);
        assert!(!queue.may_expire());
        assert_eq!(queue.head(Line::Primary).map(|head| head.order), Some((0, 4)));
        let mut drain = |line| core::iter::from_fn(|| queue.pop(line)).collect::<Vec<_>>();
        assert_eq!((drain(Line::Shared), drain(Line::Primary)), (vec![2, 0, 3, 5], vec![4, 1]));
        assert_eq!((queue.len(), queue.head(Line::Shared)), (0, None));
    }

    #[test]
    fn sixteen_priorities_differ() {
        let all: Vec<_> = (0..PRIORITIES).map(|priority| (ANY, priority, NEVER)).collect();
        let mut queue = filled(&all);
        let order: Vec<_> = core::iter::from_fn(|| queue.pop(Line::Shared)).collect();
        assert!(order.len() == 16 && order.is_sorted_by(|a, b| a > b), "{order:?}");
    }

    #[test]
    fn the_newest_of_the_least_urgent_makes_room() {
        let mut queue = filled(&[
            (ANY, 2, NEVER),
            (PRIMARY, 2, NEVER),
            (ANY, 3, NEVER),
            (ANY, 2, NEVER),
            (ANY, 4, NEVER),
        ]);
        assert_eq!(queue.displace(ANY, 2), None, "it is no less urgent");
        let displaced: Vec<_> = core::iter::from_fn(|| queue.displace(ANY, 4)).collect();
        assert_eq!(displaced, [3, 1, 0, 2]);
        assert_eq!((queue.len(), queue.pop(Line::Shared)), (1, Some(4)));
    }

    #[test]
    fn those_for_the_primary_have_half_of_the_room_and_make_it_among_themselves() {
        let mut queue = Queue::new(5);
        queue.push(Time::ZERO, request(0, ANY, 0, NEVER), false);
        for token in 1..3 {
            assert!(queue.has_room(PRIMARY));
            queue.push(Time::ZERO, request(token, PRIMARY, 1, NEVER), false);
        }
        assert!(!queue.has_room(PRIMARY) && queue.has_room(ANY));
        assert_eq!(queue.displace(PRIMARY, 1), None, "another would have more than half");
        assert_eq!(queue.displace(PRIMARY, 2), Some(2));
        queue.push(Time::ZERO, request(3, PRIMARY, 2, NEVER), false);
        (4..6).for_each(|token| queue.push(Time::ZERO, request(token, ANY, 0, NEVER), false));
        assert!(!queue.has_room(ANY));
        assert_eq!(queue.displace(ANY, 2), Some(5), "it is full: the least urgent of all");
    }

    #[test]
    fn expired_requests_are_found_at_the_heads() {
        let mut queue = filled(&[(ANY, 1, NEVER), (ANY, 0, 5), (PRIMARY, 1, 7), (ANY, 0, 6)]);
        assert_eq!(queue.next_expiry(), Time::from_nanos(5));
        assert_eq!(queue.pop_expired(Time::from_nanos(4)), None);
        let at = Time::from_nanos(7);
        let expired = core::iter::from_fn(|| queue.pop_expired(at).map(|(token, _)| token));
        assert_eq!(expired.collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!((queue.next_expiry(), queue.may_expire()), (Time::NEVER, false));
    }

    #[test]
    fn places_are_used_again() {
        let mut queue = filled(&[(ANY, 1, NEVER), (ANY, 0, 9)]);
        for token in 2..100 {
            let gone = queue.displace(ANY, 1).or_else(|| queue.pop(Line::Shared));
            assert_eq!(gone, Some(token - 1));
            queue.push(Time::ZERO, request(token, PRIMARY, 0, 9), false);
            assert_eq!(queue.displace(ANY, 1), Some(token));
            queue.push(Time::ZERO, request(token, ANY, 0, 9), false);
        }
        assert_eq!((queue.entries.len(), queue.len(), queue.expiring), (2, 2, 1));
    }
}
