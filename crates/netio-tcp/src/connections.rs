//! All connections: by index, by the peer's address, those of strangers, and those that may have
//! something to read.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::connection::Connection;

/// Names a connection in epoll's events: its index, and above it how often the index was used, so
/// that an event of a closed connection is not taken for one of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    fn new(index: u32, generation: u32) -> Token {
        Token(u64::from(index) | u64::from(generation) << 32)
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

/// The connections of a backend. A peer's address has at most one.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_address: HashMap<SocketAddr, u32>,
    /// Those without a route, the oldest first.
    strangers: VecDeque<u32>,
    /// May name connections that are no longer ready, or closed.
    ready: VecDeque<u32>,
}

impl Connections {
    /// Adds a connection to a peer that has none.
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let previous = self.by_address.insert(connection.peer, index);
        assert!(previous.is_none(), "a peer has at most one connection");
        if connection.route.is_none() {
            self.strangers.push_back(index);
        }
        self.slots[index as usize].connection = Some(connection);
        index
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Connection> {
        let slot = self.slots.get_mut(index as usize)?;
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.by_address.remove(&connection.peer);
        self.know(index);
        self.free.push(index);
        Some(connection)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots.get_mut(index as usize)?.connection.as_mut()
    }

    pub(crate) fn token(&self, index: u32) -> Token {
        Token::new(index, self.slots[index as usize].generation)
    }

    /// The index of the connection that an event names, unless it is closed.
    #[inline]
    pub(crate) fn find(&self, token: Token) -> Option<u32> {
        let index = token.0 as u32;
        let slot = self.slots.get(index as usize)?;
        let is_same = slot.connection.is_some() && self.token(index) == token;
        is_same.then_some(index)
    }

    pub(crate) fn of_peer(&self, peer: SocketAddr) -> Option<u32> {
        self.by_address.get(&peer).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// The indices of all connections, and some of none.
    pub(crate) fn indices(&self) -> core::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Notes that a connection has a route no more.
    pub(crate) fn estrange(&mut self, index: u32) {
        self.strangers.push_back(index);
    }

    /// Notes that a connection has a route, or is closed.
    pub(crate) fn know(&mut self, index: u32) {
        self.strangers.retain(|stranger| *stranger != index);
    }

    /// The stranger that has waited longest, if there are more than `strangers_max`.
    pub(crate) fn excess_stranger(&self, strangers_max: usize) -> Option<u32> {
        let exceeded = self.strangers.len() > strangers_max;
        self.strangers.front().copied().filter(|_| exceeded)
    }

    /// Notes that a connection may have something to read.
    #[inline]
    pub(crate) fn make_ready(&mut self, index: u32) {
        if let Some(connection) = self.get_mut(index)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(index);
        }
    }

    /// The next connection that may have something to read. It is ready no more.
    #[inline]
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        loop {
            let index = self.ready.pop_front()?;
            if let Some(connection) = self.get_mut(index)
                && connection.is_ready
            {
                connection.is_ready = false;
                return Some(index);
            }
        }
    }

    /// Whether a connection may have something to read.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}
