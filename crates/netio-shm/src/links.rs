//! The links of a backend, by index, and connections that are still waiting for their greeting.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::link::Link;
use crate::rendezvous::Pending;

enum Slot {
    Free,
    /// The greeting has not arrived.
    Pending(Pending),
    Open(Box<Link>),
}

/// Slots are reused; `open` lists those that are open, in no particular order.
#[derive(Default)]
pub(crate) struct Links {
    slots: Vec<Slot>,
    free: Vec<u32>,
    open: Vec<u32>,
}

impl Links {
    pub(crate) fn insert_open(&mut self, link: Link) -> u32 {
        let index = self.insert(Slot::Open(Box::new(link)));
        self.open.push(index);
        index
    }

    pub(crate) fn insert_pending(&mut self, pending: Pending) -> u32 {
        self.insert(Slot::Pending(pending))
    }

    fn insert(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("the system has fewer descriptors")
            }
        }
    }

    /// Empties a slot and closes what was in it.
    pub(crate) fn remove(&mut self, index: u32) {
        self.slots[index as usize] = Slot::Free;
        self.free.push(index);
        self.open.retain(|open| *open != index);
    }

    /// Removes a connection that waits for its greeting from its slot. The slot stays reserved
    /// until [`Links::put_back`], [`Links::complete`] or [`Links::remove`].
    pub(crate) fn lift(&mut self, index: u32) -> Option<Pending> {
        let slot = self.slots.get_mut(index as usize)?;
        match core::mem::replace(slot, Slot::Free) {
            Slot::Pending(pending) => Some(pending),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Puts a connection back whose greeting has not arrived yet.
    pub(crate) fn put_back(&mut self, index: u32, pending: Pending) {
        self.slots[index as usize] = Slot::Pending(pending);
    }

    /// Replaces a connection whose greeting has arrived by its link.
    pub(crate) fn complete(&mut self, index: u32, link: Link) {
        self.slots[index as usize] = Slot::Open(Box::new(link));
        self.open.push(index);
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Link> {
        match self.slots.get_mut(index as usize) {
            Some(Slot::Open(link)) => Some(link),
            _ => None,
        }
    }

    /// The socket at `index`.
    pub(crate) fn socket(&self, index: u32) -> Option<BorrowedFd<'_>> {
        match self.slots.get(index as usize)? {
            Slot::Free => None,
            Slot::Pending(pending) => Some(pending.as_fd()),
            Slot::Open(link) => Some(link.as_fd()),
        }
    }

    /// The index of the open link number `at`, below [`Links::open_count`].
    #[inline]
    pub(crate) fn open_index(&self, at: usize) -> u32 {
        self.open[at]
    }

    #[inline]
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// How many links there are, including connections that wait for their greeting.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Open links.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Link)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| match slot {
            Slot::Open(link) => Some((index as u32, &mut **link)),
            _ => None,
        })
    }

    /// A usable link to `peer`.
    pub(crate) fn find(&mut self, peer: SocketAddr) -> Option<(u32, &mut Link)> {
        self.iter_mut().find(|(_, link)| link.peer == peer && !link.hung_up && !link.broken)
    }
}
