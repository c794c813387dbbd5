//! The items and calls of a datapath.
//!
//! A [`Record`] of half a cache line has the data that engines read for each item. [`Contents`], at
//! the same index, has the data that few items have.
//!
//! Invariant: a record in use is in one queue, held by one engine, or void, which means that the
//! service will free it. A call is kept as long as it has records, and until its end has been
//! taken.

use petasos_base::Time;
use petasos_call::{Metadata, Status};

use crate::call::CallState;
use crate::{Call, CallId, Direction, Fields, ItemKind, Peer};

/// Names an engine in a datapath: less than [`ENGINES_MAX`], and never that of two engines at once.
pub(crate) type Key = u8;
/// As many engines have keys, each a bit of [`Record::passed`].
pub(crate) const ENGINES_MAX: usize = 64;
/// No engine holds the item.
const NOBODY: Key = Key::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The call's index.
    pub(crate) call: u32,
    pub(crate) kind: ItemKind,
    pub(crate) direction: Direction,
    /// It is not void although its call is not open any more.
    pub(crate) is_last: bool,
    /// An engine, or the service, has made it what it is.
    pub(crate) is_from_engine: bool,
    pub(crate) has_not_run: bool,
    /// The engine that holds it, or [`NOBODY`].
    holder: Key,
    /// The engines that have passed it on, on its way in this direction: a bit for each key.
    passed: u64,
    /// Of its message.
    pub(crate) bytes: u32,
    pub(crate) arrived: Time,
}

const _: () = assert!(size_of::<Record>() == 32);

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) mirror: Option<Peer>,
    /// Of an end; none if the call has succeeded.
    pub(crate) status: Option<Status>,
    pub(crate) metadata: Metadata,
    pub(crate) fields: Fields,
}

#[derive(Debug)]
pub(crate) struct CallEntry {
    pub(crate) call: Call,
    epoch: u32,
    /// Records that it has.
    items: u32,
    /// Its request has left the datapath.
    is_out: bool,
}

/// What an item was, once it has left the datapath.
#[derive(Debug)]
pub struct Finished {
    /// What belongs to it there is the service's to free: [`Item::index`](crate::Item::index).
    pub index: usize,
    /// Its call.
    pub call: CallId,
    /// What it says.
    pub kind: ItemKind,
    /// Its metadata, with what engines have changed.
    pub metadata: Metadata,
    /// Of an end: how the call ended, or none if it has succeeded.
    pub status: Option<Status>,
    /// Of an end: the call certainly has not run (R12).
    pub has_not_run: bool,
    /// An engine ended the call: the item has no message of the callee's.
    pub is_from_engine: bool,
    /// Of a request: where a copy goes, too.
    pub mirror: Option<Peer>,
    /// Of a request: when its time is up, if an engine has changed that.
    pub deadline: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) records: Vec<Record>,
    pub(crate) contents: Vec<Contents>,
    free: Vec<u32>,
    calls: Vec<CallEntry>,
    /// Beside the calls, since it is looked at for each item.
    states: Vec<CallState>,
    free_calls: Vec<u32>,
    /// Records whose bodies the service has still to free.
    void: Vec<u32>,
}

impl Items {
    /// Records that are in use, void ones among them.
    #[inline]
    pub(crate) fn in_use(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Records that wait for the service to free what belongs to them.
    pub(crate) fn void_len(&self) -> usize {
        self.void.len()
    }

    #[inline]
    pub(crate) fn calls_len(&self) -> usize {
        self.calls.len() - self.free_calls.len()
    }

    #[inline]
    pub(crate) fn begin(&mut self, call: Call) -> CallId {
        if let Some(index) = self.free_calls.pop() {
            let entry = &mut self.calls[index as usize];
            (entry.call, entry.items, entry.is_out) = (call, 0, false);
            self.states[index as usize] = CallState::Open;
            return CallId { index, epoch: entry.epoch };
        }
        let index = u32::try_from(self.calls.len()).expect("a datapath has fewer than 2^32 calls");
        self.calls.push(CallEntry { call, epoch: 0, items: 0, is_out: false });
        self.states.push(CallState::Open);
        CallId { index, epoch: 0 }
    }

    /// The call, unless it is over.
    #[inline]
    pub(crate) fn call(&self, id: CallId) -> Option<&CallEntry> {
        self.calls.get(id.index as usize).filter(|entry| entry.epoch == id.epoch)
    }

    #[inline]
    pub(crate) fn entry(&self, index: u32) -> &CallEntry {
        &self.calls[self.records[index as usize].call as usize]
    }

    pub(crate) fn entry_mut(&mut self, index: u32) -> &mut CallEntry {
        &mut self.calls[self.records[index as usize].call as usize]
    }

    #[inline]
    pub(crate) fn call_id(&self, index: u32) -> CallId {
        let call = self.records[index as usize].call;
        CallId { index: call, epoch: self.calls[call as usize].epoch }
    }

    #[inline]
    pub(crate) fn state(&self, call: CallId) -> CallState {
        self.states[call.index as usize]
    }

    pub(crate) fn set_state(&mut self, call: CallId, state: CallState) {
        self.states[call.index as usize] = state;
    }

    /// A record for an item of a call that is there.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        call: CallId,
        kind: ItemKind,
        direction: Direction,
        arrived: Time,
    ) -> u32 {
        self.calls[call.index as usize].items += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record::UNUSED);
            self.contents.push(Contents::default());
            u32::try_from(self.records.len() - 1).expect("a datapath has fewer than 2^32 items")
        });
        self.records[index as usize] =
            Record { call: call.index, kind, direction, arrived, ..Record::UNUSED };
        index
    }

    /// Whether an item has become void: its call has been given up or ended.
    #[inline]
    pub(crate) fn is_void(&self, index: u32) -> bool {
        let record = &self.records[index as usize];
        self.states[record.call as usize] != CallState::Open && !record.is_last
    }

    /// Takes an item out of the datapath that is void.
    #[cold]
    pub(crate) fn discard(&mut self, index: u32) {
        self.records[index as usize].holder = NOBODY;
        self.void.push(index);
    }

    /// The index and the call of an item that was discarded. Both may be given to others now.
    #[inline]
    pub(crate) fn pop_void(&mut self) -> Option<(u32, CallId)> {
        let index = self.void.pop()?;
        let call = self.call_id(index);
        self.contents[index as usize].clear();
        self.release(index);
        Some((index, call))
    }

    /// Takes an item out that has come to an end of the datapath.
    #[inline]
    pub(crate) fn finish(&mut self, index: u32) -> Finished {
        let call = self.call_id(index);
        let (requests, deadline) = {
            let call = &self.calls[call.index as usize].call;
            (call.requests, call.deadline)
        };
        let record = self.records[index as usize];
        let contents = &mut self.contents[index as usize];
        let finished = Finished {
            index: index as usize,
            call,
            kind: record.kind,
            metadata: std::mem::take(&mut contents.metadata),
            status: contents.status.take(),
            has_not_run: record.has_not_run,
            is_from_engine: record.is_from_engine,
            mirror: contents.mirror.take(),
            deadline,
        };
        // The rest was taken.
        contents.fields.clear();
        debug_assert!(finished.kind != ItemKind::Request || record.direction == requests);
        match finished.kind {
            ItemKind::Request => self.calls[call.index as usize].is_out = true,
            ItemKind::End => self.states[call.index as usize] = CallState::Over,
            _ => {}
        }
        self.release(index);
        finished
    }

    /// A new engine has this key: what it is to see has not passed it, everything else has.
    pub(crate) fn set_passed(&mut self, engine: Key, is_to_see: impl Fn(u32, &Record) -> bool) {
        for (index, record) in self.records.iter_mut().enumerate() {
            let bit = 1 << engine;
            let is_to_see = is_to_see(index as u32, record);
            record.passed = if is_to_see { record.passed & !bit } else { record.passed | bit };
        }
    }

    /// How many items engines hold.
    pub(crate) fn held(&self) -> usize {
        self.records.iter().filter(|record| record.holder != NOBODY).count()
    }

    /// The items that an engine holds.
    pub(crate) fn held_by(&self, engine: Key) -> Vec<u32> {
        let indexes = 0..self.records.len() as u32;
        indexes.filter(|index| self.records[*index as usize].holder == engine).collect()
    }

    /// The items that an engine has passed on.
    pub(crate) fn passed_by(&self, engine: Key) -> Vec<u32> {
        let indexes = 0..self.records.len() as u32;
        indexes.filter(|index| self.records[*index as usize].has_passed(engine)).collect()
    }

    /// Whether nobody beyond the datapath has heard of the item's call.
    #[inline]
    pub(crate) fn is_unheard_of(&self, index: u32) -> bool {
        !self.entry(index).is_out
    }

    /// Makes ready for the next item what is at this index, whose contents are gone.
    #[inline]
    fn release(&mut self, index: u32) {
        let call = self.records[index as usize].call;
        self.free.push(index);
        let entry = &mut self.calls[call as usize];
        entry.items -= 1;
        if entry.items == 0 && self.states[call as usize] != CallState::Open {
            entry.epoch = entry.epoch.wrapping_add(1);
            entry.call.identity = None;
            self.free_calls.push(call);
        }
    }
}

impl Record {
    #[inline]
    pub(crate) fn has_passed(&self, engine: Key) -> bool {
        self.passed >> engine & 1 != 0
    }

    #[inline]
    pub(crate) fn pick_up(&mut self, engine: Key) {
        self.holder = engine;
    }

    #[inline]
    pub(crate) fn pass(&mut self, engine: Key) {
        self.passed |= 1 << engine;
        self.holder = NOBODY;
    }

    /// An engine has this key whose predecessor has passed the item on. Another may hold it now.
    pub(crate) fn note_passed(&mut self, engine: Key) {
        self.passed |= 1 << engine;
    }

    /// The engine that holds the item puts it back where it came from.
    pub(crate) fn put_back(&mut self) {
        self.holder = NOBODY;
    }

    /// The engine that holds the item.
    pub(crate) fn holder(self) -> Option<Key> {
        (self.holder != NOBODY).then_some(self.holder)
    }

    /// An engine makes another item of it, which others are to see that have seen the first.
    fn turn_round(&mut self) {
        (self.bytes, self.holder, self.passed) = (0, NOBODY, 0);
        self.is_from_engine = true;
    }

    const UNUSED: Record = Record {
        call: 0,
        kind: ItemKind::End,
        direction: Direction::Inbound,
        is_last: false,
        is_from_engine: false,
        has_not_run: false,
        holder: NOBODY,
        passed: 0,
        bytes: 0,
        arrived: Time::ZERO,
    };
}

impl Contents {
    /// Makes ready for the next item, whose fields take the same memory.
    #[inline]
    fn clear(&mut self) {
        (self.mirror, self.status, self.metadata) = (None, None, Metadata::new());
        self.fields.clear();
    }
}

/// What becomes of a call that an engine ends (E2): items that go on from that engine.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// To the caller.
    pub(crate) end: Option<u32>,
    /// To the callee.
    pub(crate) cancel: Option<u32>,
}

impl Items {
    /// Ends the call of an item with a status; the item itself is used for that.
    #[cold]
    pub(crate) fn end(&mut self, index: u32, status: Status) -> Ending {
        let call = self.call_id(index);
        let requests = self.entry(index).call.requests;
        let record = &mut self.records[index as usize];
        let (kind, is_from_caller) = (record.kind, record.direction == requests);
        let arrived = record.arrived;
        match kind {
            // It is over already.
            ItemKind::Cancel => {
                record.put_back();
                return Ending { end: None, cancel: Some(index) };
            }
            ItemKind::End | ItemKind::Request => {
                self.make_end(index, requests.reverse(), status, kind == ItemKind::Request);
                self.set_state(call, CallState::Ended);
                return Ending { end: Some(index), cancel: None };
            }
            ItemKind::Message | ItemKind::Close | ItemKind::Head => {}
        }
        self.set_state(call, CallState::Ended);
        let other = self.insert(call, ItemKind::Cancel, requests, arrived);
        let (end, cancel) = if is_from_caller { (other, index) } else { (index, other) };
        self.make_end(end, requests.reverse(), status, false);
        let record = &mut self.records[cancel as usize];
        (record.kind, record.direction, record.is_last) = (ItemKind::Cancel, requests, true);
        record.turn_round();
        Ending { end: Some(end), cancel: Some(cancel) }
    }

    /// Ends a call that is open, between two runs: an end for the caller, and a cancel for the
    /// callee.
    pub(crate) fn end_call(&mut self, id: CallId, status: Status, now: Time) -> [u32; 2] {
        let CallEntry { call, is_out, .. } = &self.calls[id.index as usize];
        let (requests, is_out) = (call.requests, *is_out);
        self.set_state(id, CallState::Ended);
        let end = self.insert(id, ItemKind::End, requests.reverse(), now);
        self.make_end(end, requests.reverse(), status, !is_out);
        let cancel = self.insert(id, ItemKind::Cancel, requests, now);
        let record = &mut self.records[cancel as usize];
        (record.is_last, record.is_from_engine) = (true, true);
        [end, cancel]
    }

    fn make_end(&mut self, index: u32, direction: Direction, status: Status, has_not_run: bool) {
        let record = &mut self.records[index as usize];
        (record.kind, record.direction, record.is_last) = (ItemKind::End, direction, true);
        record.turn_round();
        record.has_not_run = has_not_run;
        let contents = &mut self.contents[index as usize];
        (contents.status, contents.metadata) = (Some(status), Metadata::new());
    }
}
