//! What each peer uses of an endpoint: sessions, slots in them, and memory for messages that it has
//! announced. Each slot can have a request whose handler has not answered yet. Client sessions are
//! counted without limits, since this process opens them.
//!
//! [`Holder`] defines what counts as one peer. A session knows its holder by number, so that
//! nothing is hashed when messages arrive.
//!
//! Invariant: everything that was counted for a session is given back exactly once, when the
//! session is dropped. A holder has a number for as long as it has sessions.

use std::collections::HashMap;

use petasos_tls::Holder;

use crate::peer_key::PeerKey;

/// The number of a holder that has sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderId(u32);

/// What one peer may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerLimits {
    pub(crate) sessions_max: u32,
    /// Slots of all its sessions together: the most requests of the peer that can wait for their
    /// handlers.
    pub(crate) slots_max: u32,
}

impl PeerLimits {
    pub(crate) const NONE: PeerLimits = PeerLimits { sessions_max: u32::MAX, slots_max: u32::MAX };
}

#[derive(Debug)]
struct Held {
    holder: Holder,
    key: PeerKey,
    sessions: u32,
    slots: u32,
    /// Bytes of messages that were announced and have not arrived completely.
    announced: u64,
}

/// Sessions, their slots and memory, by their holders.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    ids: HashMap<Holder, HolderId>,
    held: Vec<Option<Held>>,
    free: Vec<HolderId>,
}

impl Holders {
    /// Counts a session with `slots` for `holder`, unless that exceeds `limits`.
    pub(crate) fn take(
        &mut self,
        holder: Holder,
        slots: u32,
        limits: PeerLimits,
    ) -> Option<HolderId> {
        let known = self.ids.get(&holder).copied();
        let (sessions, slots_held) = known.map_or((0, 0), |id| {
            let held = self.held_mut(id);
            (held.sessions, held.slots)
        });
        if sessions >= limits.sessions_max || slots_held + slots > limits.slots_max {
            return None;
        }
        let id = known.unwrap_or_else(|| self.add(holder));
        let held = self.held_mut(id);
        held.sessions += 1;
        held.slots += slots;
        Some(id)
    }

    /// Undoes [`Holders::take`].
    pub(crate) fn give(&mut self, id: HolderId, slots: u32) {
        let held = self.held_mut(id);
        held.sessions -= 1;
        held.slots -= slots;
        if held.sessions == 0 {
            debug_assert_eq!(held.announced, 0, "sessions give up their messages first");
            let held = self.held[id.0 as usize].take().expect("it was just found");
            self.ids.remove(&held.holder);
            self.free.push(id);
        }
    }

    /// Updates the bytes that one of the holder's sessions has announced, from `before` to `now`.
    pub(crate) fn announce(&mut self, id: HolderId, before: u64, now: u64) {
        let held = self.held_mut(id);
        held.announced = held.announced - before + now;
    }

    /// The bytes that all of the holder's sessions have announced.
    pub(crate) fn announced(&self, id: HolderId) -> u64 {
        let held = self.held[id.0 as usize].as_ref();
        held.expect("a session is counted while it lives").announced
    }

    /// The holder's key in the process.
    pub(crate) fn key(&self, id: HolderId) -> PeerKey {
        self.held[id.0 as usize].as_ref().expect("a session is counted while it lives").key
    }

    fn add(&mut self, holder: Holder) -> HolderId {
        let key = PeerKey::of(&holder);
        let held = Held { holder: holder.clone(), key, sessions: 0, slots: 0, announced: 0 };
        let id = self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            HolderId(self.held.len() as u32 - 1)
        });
        self.held[id.0 as usize] = Some(held);
        self.ids.insert(holder, id);
        id
    }

    fn held_mut(&mut self, id: HolderId) -> &mut Held {
        let held = self.held[id.0 as usize].as_mut();
        held.expect("a session is counted while it lives")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Holder {
        Holder::Name(name.as_bytes().to_vec())
    }

    fn at(host: u8) -> Holder {
        Holder::Address([10, 0, 0, host].into())
    }

    const LIMITS: PeerLimits = PeerLimits { sessions_max: 3, slots_max: 20 };

    #[test]
    fn a_holder_has_so_many_and_others_theirs() {
        for (one, other) in [(at(1), at(2)), (named("alice"), named("bob"))] {
            let mut holders = Holders::default();
            let ids = [1, 1, 1].map(|slots| holders.take(one.clone(), slots, LIMITS));
            assert_eq!(holders.take(one.clone(), 1, LIMITS), None);
            assert!(holders.take(other, 1, LIMITS).is_some());
            holders.give(ids[0].expect("it was counted"), 1);
            assert!(holders.take(one, 1, LIMITS).is_some());
        }
    }

    #[test]
    fn slots_count_as_well() {
        let mut holders = Holders::default();
        let first = holders.take(at(1), 16, LIMITS).expect("there is room");
        assert_eq!(holders.take(at(1), 8, LIMITS), None);
        assert!(holders.take(at(1), 4, LIMITS).is_some());
        holders.give(first, 16);
        assert!(holders.take(at(1), 8, LIMITS).is_some());
    }

    #[test]
    fn announcements_add_up_by_holder() {
        let mut holders = Holders::default();
        let [one, same, other] = [at(1), at(1), at(2)]
            .map(|holder| holders.take(holder, 1, LIMITS).expect("there is room"));
        holders.announce(one, 0, 100);
        holders.announce(same, 0, 50);
        holders.announce(other, 0, 7);
        assert_eq!((holders.announced(one), holders.announced(other)), (150, 7));
        holders.announce(one, 100, 20);
        assert_eq!(holders.announced(same), 70);
    }

    #[test]
    fn nobody_is_remembered_without_sessions() {
        let mut holders = Holders::default();
        for host in 0..100 {
            let ids = [at(host), named("alice"), at(host)];
            let ids = ids.map(|holder| holders.take(holder, 8, LIMITS).expect("there is room"));
            ids.into_iter().for_each(|id| holders.give(id, 8));
        }
        assert!(holders.ids.is_empty());
        assert_eq!((holders.held.len(), holders.free.len()), (2, 2), "numbers are used again");
    }
}
