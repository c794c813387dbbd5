//! Begins and ends of calls in order of time, from which those of placed calls are taken out and
//! put back in the opposite order.

use crate::model::Timed;

/// A begin or an end, with the call's place in its part.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A call begins.
    Begin(usize),
    /// It ends.
    End(usize),
}

impl Event {
    /// Which call.
    pub fn call(self) -> usize {
        match self {
            Event::Begin(call) | Event::End(call) => call,
        }
    }
}

/// The list. Elements have numbers; 0 is before the first and behind the last.
#[derive(Debug)]
pub struct List {
    events: Vec<Event>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// The element that is the end of the call whose begin this is.
    end: Vec<usize>,
    taken: usize,
}

impl List {
    /// The calls whose ends are known. At the same time, begins come before ends: such calls are
    /// concurrent.
    pub fn new<C>(calls: &[Timed<C>]) -> List {
        let mut sorted: Vec<(u64, bool, usize)> = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            if let Some(ended_at) = call.ended_at {
                sorted.push((call.called_at, false, index));
                sorted.push((ended_at, true, index));
            }
        }
        sorted.sort_unstable();
        let count = sorted.len() + 1;
        let mut end_of = vec![0; calls.len()];
        // Element 0 is no event; nothing looks at what stands for it.
        let mut events = vec![Event::End(usize::MAX)];
        for (at, (_, is_end, call)) in sorted.into_iter().enumerate() {
            events.push(if is_end { Event::End(call) } else { Event::Begin(call) });
            if is_end {
                end_of[call] = at + 1;
            }
        }
        let end = |event: &Event| end_of.get(event.call()).copied().unwrap_or(0);
        List {
            end: events.iter().map(end).collect(),
            events,
            next: (1..=count).map(|next| next % count).collect(),
            before: (0..count).map(|at| at.checked_sub(1).unwrap_or(count - 1)).collect(),
            taken: 0,
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.first() == 0
    }

    /// How many calls are taken out.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The first element.
    pub fn first(&self) -> usize {
        self.next[0]
    }

    /// The element behind this one.
    pub fn next(&self, at: usize) -> usize {
        self.next[at]
    }

    /// What an element is.
    pub fn event(&self, at: usize) -> Event {
        self.events[at]
    }

    /// The call that ends first of those that are left.
    pub fn first_end(&self) -> Option<usize> {
        let mut at = self.first();
        while at != 0 {
            if let Event::End(call) = self.events[at] {
                return Some(call);
            }
            at = self.next[at];
        }
        None
    }

    /// Takes out a call by its begin.
    pub fn take(&mut self, begin: usize) {
        self.unlink(begin);
        self.unlink(self.end[begin]);
        self.taken += 1;
    }

    /// Puts back the call that was taken out last.
    pub fn give_back(&mut self, begin: usize) {
        self.link(self.end[begin]);
        self.link(begin);
        self.taken -= 1;
    }

    fn unlink(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = next;
        self.before[next] = before;
    }

    fn link(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = at;
        self.before[next] = at;
    }
}
