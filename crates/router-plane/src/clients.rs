//! The clients that are attached (RT33).

use std::collections::VecDeque;

use petasos_base::{ReplayWindow, replay_words};
use petasos_netio::{Origin, Route};
use petasos_wire::ReplyAddress;

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
}

/// By number. A number that became free first is used again first.
pub(crate) struct Clients {
    clients: Vec<Option<Box<Client>>>,
    free: VecDeque<u32>,
    clients_max: usize,
}

impl Clients {
    pub(crate) fn new(clients_max: u32) -> Clients {
        let (clients, free) = (Vec::new(), VecDeque::new());
        Clients { clients, free, clients_max: clients_max as usize }
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.clients.len() < self.clients_max
    }

    pub(crate) fn add(&mut self, client: Client) -> Option<u32> {
        let client = Some(Box::new(client));
        if let Some(number) = self.free.pop_front() {
            self.clients[number as usize] = client;
            return Some(number);
        }
        if self.clients.len() >= self.clients_max {
            return None;
        }
        self.clients.push(client);
        Some((self.clients.len() - 1) as u32)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Client> {
        self.clients.get_mut(number as usize)?.as_deref_mut()
    }

    /// The client is gone. Its number stays taken until it is given back.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Client>> {
        self.clients.get_mut(number as usize)?.take()
    }

    /// The number of a client that is gone may be another's. Returns whether it is such a number.
    pub(crate) fn give_back(&mut self, number: u32) -> bool {
        let is_gone = self.clients.get(number as usize).is_some_and(Option::is_none);
        let is_held = is_gone && !self.free.contains(&number);
        if is_held {
            self.free.push_back(number);
        }
        is_held
    }
}
