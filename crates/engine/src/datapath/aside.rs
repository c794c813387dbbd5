//! Inbound items that have passed all engines and wait because the application takes no more items
//! of their calls now. Items of other calls continue.
//!
//! # Invariants
//!
//! - If a call has items here, its next items come here, too, so that they keep their order. Only
//!   items that end the call pass them.
//! - When the end or the cancel of a call leaves the datapath, its items here are void.
//! - Adding and resuming take constant time, however many items wait.

use std::collections::{HashMap, VecDeque};

use super::Datapath;
use crate::queue::Queue;
use crate::{CallId, Direction};

/// Seldom any.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// By the index of their call: those that wait, at least one.
    calls: HashMap<u32, Waiting>,
    /// Calls whose items come next, before those at the exit.
    resumed: VecDeque<u32>,
    load: AsideLoad,
}

#[derive(Debug, Default)]
struct Waiting {
    items: Queue,
    is_resumed: bool,
    load: AsideLoad,
}

/// How much waits for the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AsideLoad {
    /// Bytes of messages.
    pub bytes: u64,
    /// Items.
    pub items: usize,
}

impl AsideLoad {
    fn add(&mut self, bytes: u32) {
        (self.bytes, self.items) = (self.bytes + u64::from(bytes), self.items + 1);
    }

    fn remove(&mut self, other: AsideLoad) {
        (self.bytes, self.items) = (self.bytes - other.bytes, self.items - other.items);
    }
}

impl Aside {
    pub(super) fn len(&self) -> usize {
        self.load.items
    }

    fn push_back(&mut self, call: u32, (index, bytes): (u32, u32)) {
        let waiting = self.calls.entry(call).or_default();
        waiting.items.push_back(index);
        waiting.load.add(bytes);
        self.load.add(bytes);
    }

    /// Whether some item here comes before those at the exit.
    #[inline]
    pub(super) fn comes_next(&self) -> bool {
        !self.resumed.is_empty()
    }

    /// The item that comes next.
    pub(super) fn front(&self) -> Option<u32> {
        self.calls.get(self.resumed.front()?)?.items.front()
    }

    /// Takes it.
    pub(super) fn pop_front(&mut self, bytes_of: impl Fn(u32) -> u32) -> Option<u32> {
        let call = *self.resumed.front()?;
        let waiting = self.calls.get_mut(&call)?;
        let index = waiting.items.pop_front()?;
        let taken = AsideLoad { bytes: bytes_of(index).into(), items: 1 };
        waiting.load.remove(taken);
        self.load.remove(taken);
        if waiting.items.is_empty() {
            self.calls.remove(&call);
            self.resumed.pop_front();
        }
        Some(index)
    }
}

impl Datapath {
    /// The inbound item that [`Datapath::peek`] has shown waits, and all that comes behind it of
    /// its call, until [`Datapath::resume`]. They are dropped when the call ends otherwise.
    ///
    /// # Panics
    /// If none was shown.
    pub fn set_aside(&mut self) {
        if let Some(call) = self.aside.resumed.pop_front() {
            let waiting =
                self.aside.calls.get_mut(&call).expect("it waits as long as it has items");
            waiting.is_resumed = false;
            return;
        }
        let index = self.exit(Direction::Inbound).pop_front().expect("an item was shown");
        let record = &self.items.records[index as usize];
        self.aside.push_back(record.call, (index, record.bytes));
    }

    /// How much waits, of all calls.
    #[inline]
    pub fn aside_load(&self) -> AsideLoad {
        self.aside.load
    }

    /// The call of which most waits, if anything does.
    pub fn fullest_aside(&self) -> Option<CallId> {
        let fullest = self.aside.calls.values().max_by_key(|waiting| waiting.load)?;
        Some(self.items.call_id(fullest.items.front()?))
    }

    /// Whether items of a call wait.
    pub fn is_aside(&self, call: CallId) -> bool {
        self.items.call(call).is_some() && self.aside.calls.contains_key(&call.index)
    }

    /// What waits of a call comes next.
    pub fn resume(&mut self, call: CallId) {
        if self.items.call(call).is_none() {
            return;
        }
        let Some(waiting) = self.aside.calls.get_mut(&call.index) else { return };
        if !std::mem::replace(&mut waiting.is_resumed, true) {
            self.aside.resumed.push_back(call.index);
        }
    }

    /// Puts the item at the inbound exit behind those that wait of its call, if there are any. Says
    /// whether it did.
    #[inline]
    pub(super) fn goes_aside(&mut self, index: u32) -> bool {
        !self.aside.calls.is_empty() && self.follows(index)
    }

    #[cold]
    fn follows(&mut self, index: u32) -> bool {
        let record = &self.items.records[index as usize];
        if record.is_last || !self.aside.calls.contains_key(&record.call) {
            return false;
        }
        self.aside.push_back(record.call, (index, record.bytes));
        self.exit(Direction::Inbound).pop_front();
        true
    }

    /// A call is over.
    #[inline]
    pub(super) fn drop_aside(&mut self, call: CallId) {
        if !self.aside.calls.is_empty() {
            self.drop_all_aside(call);
        }
    }

    #[cold]
    fn drop_all_aside(&mut self, call: CallId) {
        let Some(waiting) = self.aside.calls.remove(&call.index) else { return };
        self.aside.load.remove(waiting.load);
        if waiting.is_resumed {
            self.aside.resumed.retain(|resumed| *resumed != call.index);
        }
        for index in waiting.items.iter() {
            debug_assert!(self.items.is_void(index), "the call is not open any more");
            self.items.discard(index);
        }
    }
}
