//! The clients that are attached (RT33).

use std::collections::VecDeque;

use petasos_base::{ReplayWindow, replay_words};
use petasos_netio::{Origin, Route};
use petasos_wire::ReplyAddress;

use crate::reject::RouterLinks;

/// What a client is told (RT33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAttached {
    /// The client's number.
    pub client: u32,
    /// The router's tag for it.
    pub tag: u32,
}

/// A client.
pub(crate) struct Client {
    pub(crate) tag: u32,
    /// Where answers to it go, as its first packets have it (RT26).
    pub(crate) reply: ReplyAddress,
    /// Where rejections go.
    pub(crate) route: Route,
    pub(crate) origin: Origin,
    /// Numbers of first packets that were taken (RT3).
    pub(crate) window: ReplayWindow<{ replay_words(1024) }>,
    /// Requests of it that wait.
    pub(crate) waiting: usize,
    /// What seals its rejections.
    pub(crate) links: RouterLinks,
    pub(crate) counts: ClientCounts,
}

impl Client {
    /// Takes a number of a first packet. Returns whether it is new (RT3).
    pub(crate) fn take_number(&mut self, number: u64) -> bool {
        let is_new = self.window.is_new(number);
        if is_new {
            self.window.insert(number);
        }
        is_new
    }
}

petasos_base::counters! {
    /// What a client has sent. What a tier has given or lets wait is not in it.
    pub struct ClientCounts {
        /// First packets that were taken.
        requests,
        /// Of these, those that the router has rejected.
        rejected,
    }
}

/// A number of a client.
enum Slot {
    Live(Box<Client>),
    /// Its client is gone, and it is nobody's yet.
    Held,
    Free,
}

/// By number. A number that became free first is used again first.
pub(crate) struct Clients {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    live: usize,
    clients_max: usize,
}

impl Clients {
    /// At most so many that live, and twice as many numbers: some are held back (RT39).
    pub(crate) fn new(clients_max: u32) -> Clients {
        let (slots, free) = (Vec::new(), VecDeque::new());
        Clients { slots, free, live: 0, clients_max: clients_max as usize }
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        let has_number = !self.free.is_empty() || self.slots.len() < 2 * self.clients_max;
        self.live < self.clients_max && has_number
    }

    pub(crate) fn add(&mut self, client: Client) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.live += 1;
        let live = Slot::Live(Box::new(client));
        if let Some(number) = self.free.pop_front() {
            self.slots[number as usize] = live;
            return Some(number);
        }
        self.slots.push(live);
        Some((self.slots.len() - 1) as u32)
    }

    /// How many live.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Client> {
        match self.slots.get(number as usize)? {
            Slot::Live(client) => Some(client),
            Slot::Held | Slot::Free => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Client> {
        match self.slots.get_mut(number as usize)? {
            Slot::Live(client) => Some(client),
            Slot::Held | Slot::Free => None,
        }
    }

    /// The client is gone. Its number stays taken until it is given back.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Client>> {
        let slot = self.slots.get_mut(number as usize)?;
        if !matches!(slot, Slot::Live(_)) {
            return None;
        }
        self.live -= 1;
        match core::mem::replace(slot, Slot::Held) {
            Slot::Live(client) => Some(client),
            Slot::Held | Slot::Free => None,
        }
    }

    /// The number of a client that is gone may be another's. Returns whether it is such a number.
    pub(crate) fn give_back(&mut self, number: u32) -> bool {
        let slot = self.slots.get_mut(number as usize);
        let Some(slot) = slot.filter(|slot| matches!(slot, Slot::Held)) else { return false };
        *slot = Slot::Free;
        self.free.push_back(number);
        true
    }
}
