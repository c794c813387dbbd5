//! The search for an order: Wing and Gong's, with Lowe's memory of configurations.
//!
//! A configuration is the set of calls that are placed, and the state. Calls are placed one after
//! the other: each must have begun before the first end of those that are not placed yet. One that
//! fits nowhere takes the one before back; a configuration that was seen is not looked at again.
//! Begins and ends are a list in order of time, from which placed calls are taken out, as
//! porcupine does it. What is added to that:
//!
//! - A call that only reads is placed as soon as it fits, without alternatives: any order in which
//!   it comes later can be changed to one in which it comes now.
//! - Calls with an unknown outcome are in a list of their own. They are tried when nothing else
//!   fits, need not be placed at all, and must be of use: a call that follows one, and that leads
//!   to the same state without it, is not placed behind it.
//! - The set of placed calls is known by a number, the exclusive-or of a random one for each call.

use std::collections::HashSet;

use crate::evidence::Prefix;
use crate::list::{Event, List};
use crate::model::{Model, Part, Step, Timed, digest};

/// How much a check may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many calls are tried, in all parts together.
    pub steps: u64,
    /// How many configurations of a part are remembered, with some 50 bytes each.
    pub configurations: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { steps: 200_000_000, configurations: 20_000_000 }
    }
}

/// What is known of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is an order that fits: these calls, by their places in the part.
    Good(Vec<usize>),
    /// There is none.
    Violated(Prefix),
    /// The budget was too small.
    Undecided,
}

/// Where the search looks for the next call.
#[derive(Clone, Copy)]
enum Cursor {
    /// At this element of the list of begins and ends.
    Listed(usize),
    /// At this one of the calls with unknown outcomes.
    Open(usize),
}

/// A call that is placed.
struct Frame<Undo> {
    cursor: Cursor,
    undo: Undo,
    /// Whether it had no alternative.
    is_forced: bool,
}

struct Search<'a, M: Model> {
    part: &'a Part<M>,
    state: M::State,
    list: List,
    /// Calls with unknown outcomes by their begin, and whether they are placed.
    open: Vec<usize>,
    is_placed: Vec<bool>,
    frames: Vec<Frame<M::Undo>>,
    /// The number of the set of placed calls.
    set: u128,
    seen: HashSet<(u128, u128)>,
    cursor: Cursor,
    /// The next end in the list: what is placed happens before.
    until: u64,
    best: Best,
}

/// The longest order that fits, which is copied only where the search turns back.
#[derive(Default)]
struct Best {
    order: Vec<usize>,
    listed: usize,
    blocked: Option<usize>,
    /// So many calls at its begin are those of the present order.
    common: usize,
}

/// Looks for an order. The budget is reduced by what it has cost.
pub fn search<M: Model>(part: &Part<M>, budget: &mut Budget) -> Answer {
    Search::new(part).run(budget)
}

impl<'a, M: Model> Search<'a, M> {
    fn new(part: &'a Part<M>) -> Search<'a, M> {
        let calls = &part.calls;
        let mut open: Vec<usize> =
            (0..calls.len()).filter(|call| calls[*call].ended_at.is_none()).collect();
        open.sort_by_key(|call| calls[*call].called_at);
        let list = List::new(calls);
        let mut search = Search {
            part,
            state: part.model.start(),
            is_placed: vec![false; open.len()],
            open,
            frames: Vec::new(),
            set: 0,
            seen: HashSet::new(),
            cursor: Cursor::Listed(list.first()),
            until: 0,
            list,
            best: Best::default(),
        };
        search.begin_again();
        search
    }

    fn run(mut self, budget: &mut Budget) -> Answer {
        while !self.list.is_empty() {
            if budget.steps == 0 || self.seen.len() >= budget.configurations {
                return Answer::Undecided;
            }
            let goes_on = match self.cursor {
                Cursor::Listed(at) => self.look_at_listed(at, budget),
                Cursor::Open(at) => self.look_at_open(at, budget),
            };
            if !goes_on && !self.turn_back() {
                return Answer::Violated(self.prefix());
            }
        }
        Answer::Good(self.frames.iter().map(|frame| self.call_of(frame.cursor)).collect())
    }

    /// False if no call is left to try.
    fn look_at_listed(&mut self, at: usize, budget: &mut Budget) -> bool {
        match self.list.event(at) {
            Event::End(_) => self.cursor = Cursor::Open(0),
            Event::Begin(call) => {
                budget.steps -= 1;
                match self.place(call) {
                    Placed::Yes => {}
                    Placed::No => self.cursor = Cursor::Listed(self.list.next(at)),
                    Placed::Dead => return false,
                }
            }
        }
        true
    }

    /// False if no call is left to try.
    fn look_at_open(&mut self, at: usize, budget: &mut Budget) -> bool {
        let Some(call) = self.open.get(at).copied() else { return false };
        if self.part.calls[call].called_at > self.until {
            return false;
        }
        budget.steps = budget.steps.saturating_sub(1);
        let is_placed = !self.is_placed[at] && matches!(self.place(call), Placed::Yes);
        if !is_placed {
            self.cursor = Cursor::Open(at + 1);
        }
        true
    }

    fn place(&mut self, call: usize) -> Placed {
        let Timed { call: what, .. } = &self.part.calls[call];
        let model = &self.part.model;
        let Some(step) = model.apply(&mut self.state, what, self.until) else { return Placed::No };
        let Step { undo, changes } = step;
        let is_listed = matches!(self.cursor, Cursor::Listed(_));
        let is_forced = is_listed && !changes && model.is_read(what);
        let after = model.digest(&self.state);
        let is_useless = !is_listed && !changes;
        let set = self.set ^ self.share(call);
        let is_known = is_useless || !self.seen.insert((set, after));
        if is_known {
            model.undo(&mut self.state, undo);
            return if is_forced { Placed::Dead } else { Placed::No };
        }
        self.set = set;
        self.push(Frame { cursor: self.cursor, undo, is_forced });
        if self.last_was_in_vain(after) {
            self.pop();
            return if is_forced { Placed::Dead } else { Placed::No };
        }
        self.begin_again();
        Placed::Yes
    }

    /// Whether the call before the last one has an unknown outcome, and the last one leads to the
    /// same state without it.
    fn last_was_in_vain(&mut self, after: u128) -> bool {
        let model = &self.part.model;
        let [.., before, last] = &self.frames[..] else { return false };
        if matches!(before.cursor, Cursor::Listed(_)) {
            return false;
        }
        let calls = [before.cursor, last.cursor].map(|cursor| self.call_of(cursor));
        let until = self.until;
        let (Some(last), Some(before)) = (self.frames.pop(), self.frames.pop()) else {
            return false;
        };
        model.undo(&mut self.state, last.undo);
        model.undo(&mut self.state, before.undo);
        let what = calls.map(|call| &self.part.calls[call].call);
        let mut is_same = false;
        if let Some(step) = model.apply(&mut self.state, what[1], until) {
            is_same = model.digest(&self.state) == after;
            model.undo(&mut self.state, step.undo);
        }
        for (what, frame) in
            what.into_iter().zip([(before.cursor, before.is_forced), (last.cursor, last.is_forced)])
        {
            let step = model.apply(&mut self.state, what, until).expect("it has fitted here");
            let (cursor, is_forced) = frame;
            self.frames.push(Frame { cursor, undo: step.undo, is_forced });
        }
        is_same
    }

    fn push(&mut self, frame: Frame<M::Undo>) {
        match frame.cursor {
            Cursor::Listed(at) => self.list.take(at),
            Cursor::Open(at) => self.is_placed[at] = !self.repeats(self.open[at]),
        }
        self.frames.push(frame);
    }

    fn repeats(&self, call: usize) -> bool {
        let Part { model, calls } = self.part;
        calls[call].ended_at.is_none() && model.repeats(&calls[call].call)
    }

    /// What a placed call adds to the number of the set.
    fn share(&self, call: usize) -> u128 {
        if self.repeats(call) { 0 } else { digest(&call) }
    }

    /// Takes the last call back.
    fn pop(&mut self) -> Option<(Cursor, bool)> {
        let Frame { cursor, undo, is_forced } = self.frames.pop()?;
        self.part.model.undo(&mut self.state, undo);
        self.set ^= self.share(self.call_of(cursor));
        match cursor {
            Cursor::Listed(at) => self.list.give_back(at),
            Cursor::Open(at) => self.is_placed[at] = false,
        }
        self.best.common = self.best.common.min(self.frames.len());
        Some((cursor, is_forced))
    }

    /// After a call was placed or taken back, the first of the list is the next to look at.
    fn begin_again(&mut self) {
        self.cursor = Cursor::Listed(self.list.first());
        self.until = self
            .list
            .first_end()
            .map_or(u64::MAX, |call| self.part.calls[call].ended_at.unwrap_or(u64::MAX));
    }

    /// Takes calls back up to one that has an alternative. False if none has.
    fn turn_back(&mut self) -> bool {
        self.keep_best();
        while let Some((cursor, is_forced)) = self.pop() {
            if is_forced {
                continue;
            }
            self.begin_again();
            self.cursor = match cursor {
                Cursor::Listed(at) => Cursor::Listed(self.list.next(at)),
                Cursor::Open(at) => Cursor::Open(at + 1),
            };
            return true;
        }
        false
    }

    fn keep_best(&mut self) {
        let listed = self.list.taken();
        if listed > self.best.listed || self.best.blocked.is_none() {
            self.best.order.truncate(self.best.common);
            let frames = &self.frames[self.best.order.len()..];
            let calls: Vec<usize> = frames.iter().map(|frame| self.call_of(frame.cursor)).collect();
            self.best.order.extend(calls);
            self.best.common = self.best.order.len();
            self.best.listed = listed;
            self.best.blocked = self.list.first_end();
        }
    }

    fn call_of(&self, cursor: Cursor) -> usize {
        match cursor {
            Cursor::Listed(at) => self.list.event(at).call(),
            Cursor::Open(at) => self.open[at],
        }
    }

    /// The longest order, and what does not fit behind it.
    fn prefix(self) -> Prefix {
        let Search { part, best, .. } = self;
        let calls = &part.calls;
        let mut is_placed = vec![false; calls.len()];
        let mut state = part.model.start();
        for call in &best.order {
            is_placed[*call] = true;
            part.model.apply(&mut state, &calls[*call].call, u64::MAX);
        }
        let until = best.blocked.and_then(|call| calls[call].ended_at).unwrap_or(0);
        let is_left = |call: &usize| {
            let Timed { called_at, ended_at, .. } = &calls[*call];
            !is_placed[*call] && ended_at.is_some() && *called_at <= until
        };
        let mention = |call: usize| calls[call].mention;
        Prefix {
            order: best.order.into_iter().map(mention).collect(),
            state: part.model.describe(&state),
            blocked: best.blocked.map(mention),
            left: (0..calls.len()).filter(is_left).map(mention).collect(),
        }
    }
}

/// What became of a call that was tried.
enum Placed {
    /// It is placed.
    Yes,
    /// It does not fit here, or leads to what was seen.
    No,
    /// It fits, must be placed here, and leads to what was seen: nothing else has to be tried.
    Dead,
}
