//! Slots that calls take without asking the core: those of the only server's sessions, leased by
//! the core ([`ChannelCore::lease`]).
//!
//! Invariants: only sessions of one server are leased. A call gets a slot of the first leased
//! session with a free one, so that later sessions become idle. Before anything changes the choice
//! of sessions, all leased slots are given back ([`ChannelEntry::return_leases`]), and also
//! whenever the core has asked to look at the channel: the core then sees which sessions are idle.
//!
//! [`ChannelCore::lease`]: petasos_call::channel::ChannelCore::lease

use petasos_base::Time;
use petasos_call::BoundMethod;
use petasos_call::channel::SESSIONS_MAX;
use petasos_endpoint::SessionId;

use super::{Bind, ChannelEntry, Session};

const _: () = assert!(SESSIONS_MAX == 64, "`free` has a bit for each session");

/// Which sessions of a server have leased slots that are free.
#[derive(Debug, Default)]
pub(crate) struct LeasedSlots {
    /// The sessions of a server that have free leased slots.
    base: u32,
    /// A bit for each session, starting at `base`.
    free: u64,
}

impl LeasedSlots {
    /// The number of the first session with a free slot; an invalid number if there is none.
    #[inline(always)]
    fn first(&self) -> usize {
        match self.free {
            0 => usize::MAX,
            free => self.base as usize + free.trailing_zeros() as usize,
        }
    }

    #[inline(always)]
    fn bit(number: u32) -> u64 {
        1 << (number as usize % SESSIONS_MAX)
    }

    #[inline(always)]
    fn insert(&mut self, number: u32) {
        self.free |= LeasedSlots::bit(number);
    }

    #[inline(always)]
    fn remove(&mut self, number: u32) {
        self.free &= !LeasedSlots::bit(number);
    }

    /// Forgets a session that is gone. It may be another server's.
    pub(crate) fn forget(&mut self, number: u32) {
        if number / SESSIONS_MAX as u32 == self.base / SESSIONS_MAX as u32 {
            self.remove(number);
        }
    }
}

impl ChannelEntry {
    /// A slot for a call in a session with leased slots, if there is one and it knows the method.
    #[inline]
    pub(crate) fn take_leased(
        &mut self,
        service: u32,
        method: u16,
    ) -> Option<(u32, SessionId, BoundMethod)> {
        let number = self.leased_slots.first();
        let session = self.sessions.get_mut(number)?.as_mut()?;
        let Some(Bind::Known(agreement)) = session.binds.get(service as usize) else {
            return None;
        };
        let (number, method) = (number as u32, agreement.method(method).ok()?);
        let id = session.take(&mut self.leased_slots, number);
        Some((number, id, method))
    }

    /// Like [`ChannelEntry::take_leased`], if the method there is the same as here. Returns its
    /// number, too.
    #[inline(always)]
    pub(crate) fn take_usual(
        &mut self,
        service: u32,
        method: u16,
    ) -> Option<(u32, SessionId, u16)> {
        let number = self.leased_slots.first();
        let session = self.sessions.get_mut(number)?.as_mut()?;
        let Some(Bind::Known(agreement)) = session.binds.get(service as usize) else {
            return None;
        };
        let (number, method) = (number as u32, agreement.usual(method)?);
        let id = session.take(&mut self.leased_slots, number);
        Some((number, id, method))
    }

    /// Takes a leased slot for a call, if one is free. Returns the session's number.
    pub(crate) fn take_any_leased(&mut self) -> Option<u32> {
        let number = self.leased_slots.first();
        let session = self.sessions.get_mut(number)?.as_mut()?;
        session.take(&mut self.leased_slots, number as u32);
        Some(number as u32)
    }

    /// Takes back the slot of a call that is over. Returns false if the slot belongs to the core.
    #[inline(always)]
    pub(crate) fn keep_slot(&mut self, number: u32, id: SessionId) -> bool {
        if !self.waiting.is_empty() {
            return false;
        }
        let session = self.sessions.get_mut(number as usize).and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.id == id && session.is_leased) else {
            return false;
        };
        session.free += 1;
        self.leased_slots.insert(number);
        true
    }

    /// Leases the free slots of a session that the core has picked.
    pub(crate) fn borrow_slots(&mut self, number: u32) {
        if self.orphaned {
            return;
        }
        let session = self.sessions[number as usize].as_mut().expect("the core picks sessions");
        let leased = self.core.lease(session.index);
        if leased > 0 {
            (session.free, session.is_leased) = (session.free + leased, true);
            self.leased_slots.base = number - number % SESSIONS_MAX as u32;
            self.leased_slots.insert(number);
        }
    }

    /// Gives leased slots back, because the choice of sessions is about to change.
    pub(crate) fn return_leases(&mut self, now: Time) {
        self.leased_slots = LeasedSlots::default();
        for session in self.sessions.iter_mut().flatten() {
            session.is_leased = false;
            for _ in 0..core::mem::take(&mut session.free) {
                self.core.handle_ended(session.index, None, now);
            }
        }
    }
}

impl Session {
    /// Takes one of the slots that [`LeasedSlots`] shows as free.
    #[inline(always)]
    fn take(&mut self, leased_slots: &mut LeasedSlots, number: u32) -> SessionId {
        self.free -= 1;
        if self.free == 0 {
            leased_slots.remove(number);
        }
        self.id
    }
}
