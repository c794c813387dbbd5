//! Two state machines joined by a stream in memory, under virtual time.

use core::time::Duration;

use petasos_base::{Rng, Time};

use super::hello;
use crate::*;

/// One process's end, and every event that it has reported.
pub(super) struct Side {
    pub connection: Connection,
    pub events: Vec<Event>,
}

impl Side {
    pub fn new(config: Config, role: Role, ours: Hello) -> Side {
        Side { connection: Connection::new(config, role, ours, Time::ZERO), events: Vec::new() }
    }

    pub fn collect(&mut self) {
        self.events.extend(core::iter::from_fn(|| self.connection.poll_event()));
    }

    /// Takes the events reported since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.collect();
        core::mem::take(&mut self.events)
    }

    pub fn take_output(&mut self) -> Vec<u8> {
        let bytes = self.connection.poll_output().unwrap_or_default().to_vec();
        self.connection.advance_output(bytes.len());
        bytes
    }
}

/// Two ends. The dialler is the client in most tests.
pub(super) struct Pair {
    pub dialler: Side,
    pub acceptor: Side,
    pub now: Time,
    /// The longest piece in which bytes travel.
    pub piece_bytes_max: usize,
    rng: Rng,
}

pub(super) const DIALLER: u64 = 0xd1a1;
pub(super) const ACCEPTOR: u64 = 0xacce;

impl Pair {
    /// Before either has heard of the other.
    pub fn new() -> Pair {
        Pair::with(hello(DIALLER), hello(ACCEPTOR))
    }

    pub fn with(dialler: Hello, acceptor: Hello) -> Pair {
        let config = Config::default();
        Pair {
            dialler: Side::new(config, Role::Dialler, dialler),
            acceptor: Side::new(config, Role::Acceptor, acceptor),
            now: Time::ZERO,
            piece_bytes_max: usize::MAX,
            rng: Rng::new(1),
        }
    }

    /// After the exchange of hellos, those events taken.
    pub fn open() -> Pair {
        let mut pair = Pair::new();
        pair.transfer();
        pair.dialler.take_events();
        pair.acceptor.take_events();
        assert!(pair.dialler.connection.is_open() && pair.acceptor.connection.is_open());
        pair
    }

    pub fn seeded(mut self, seed: u64, piece_bytes_max: usize) -> Pair {
        self.rng = Rng::new(seed);
        self.piece_bytes_max = piece_bytes_max;
        self
    }

    /// Moves bytes both ways until none are left.
    pub fn transfer(&mut self) {
        while self.transfer_piece(true) | self.transfer_piece(false) {}
        self.dialler.collect();
        self.acceptor.collect();
    }

    /// Moves one piece; false if there is none.
    pub fn transfer_piece(&mut self, from_dialler: bool) -> bool {
        let (from, to) = match from_dialler {
            true => (&mut self.dialler, &mut self.acceptor),
            false => (&mut self.acceptor, &mut self.dialler),
        };
        let Some(bytes) = from.connection.poll_output() else { return false };
        let longest = bytes.len().min(self.piece_bytes_max);
        let count = 1 + self.rng.below(longest as u64) as usize;
        let count = if self.piece_bytes_max == usize::MAX { longest } else { count };
        let piece = bytes[..count].to_vec();
        from.connection.advance_output(count);
        to.connection.handle_bytes(&piece, self.now);
        to.collect();
        true
    }

    /// Lets `duration` pass, timers firing when they are due and bytes moving at once.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.transfer();
        while let Some(next) = self.next_timeout().filter(|next| *next <= end) {
            assert!(next >= self.now, "a timer is never due in the past");
            self.now = next;
            self.dialler.connection.handle_timeout(next);
            self.acceptor.connection.handle_timeout(next);
            self.transfer();
        }
        self.now = end;
    }

    fn next_timeout(&self) -> Option<Time> {
        let ends = [&self.dialler, &self.acceptor];
        ends.iter().filter_map(|side| side.connection.poll_timeout()).min()
    }
}
