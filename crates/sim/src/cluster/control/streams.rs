//! Streams of bytes between two lives, and the connections at their ends.

use std::collections::VecDeque;

use petasos_base::Time;
use petasos_control::Connection;

use super::{ControlPlane, arrival, is_current};
use crate::World;
use crate::cluster::check::Life;
use crate::cluster::node::Node;

pub(super) struct Stream {
    pub(super) ends: [End; 2],
}

pub(super) struct End {
    pub(super) life: Life,
    pub(super) peer: Life,
    pub(super) connection: Connection,
    /// Pieces under way to this end, in the order of arrival.
    incoming: VecDeque<(Time, Vec<u8>)>,
    /// Whether the end hears of a reset as soon as it looks.
    pub(super) broken: bool,
    /// Whether the connection has reported its last event, or its host has died.
    pub(super) done: bool,
}

impl End {
    pub(super) fn new(life: Life, peer: Life, connection: Connection) -> End {
        let incoming = VecDeque::new();
        End { life, peer, connection, incoming, broken: false, done: false }
    }

    /// Gives the connection its next input: bytes, a reset, or the time. False if there is none.
    fn receive(&mut self, now: Time) -> bool {
        let arrived = self.incoming.pop_front_if(|(at, _)| *at <= now);
        if let Some((_, piece)) = arrived {
            self.connection.handle_bytes(&piece, now);
        } else if core::mem::take(&mut self.broken) {
            self.connection.handle_reset(now);
        } else if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        } else {
            return false;
        }
        true
    }
}

impl ControlPlane {
    /// One turn of one end of a stream.
    pub(super) fn turn(&mut self, world: &mut World<Node>, stream: &mut Stream, side: usize) {
        let now = world.now();
        let [one, other] = &mut stream.ends;
        let (end, far) = if side == 0 { (one, other) } else { (other, one) };
        end.done |= !is_current(world, end.life);
        if end.done {
            return;
        }
        while !end.done && end.receive(now) {
            while let Some(event) = end.connection.poll_event() {
                self.on_event(world, end, event);
            }
        }
        while let Some(bytes) = end.connection.poll_output() {
            // The socket takes what it likes.
            let count = 1 + self.rng.below(bytes.len() as u64) as usize;
            let at = arrival(&mut self.rng, now, far.incoming.back().map(|(at, _)| *at));
            if !far.done && !end.broken {
                far.incoming.push_back((at, bytes[..count].to_vec()));
            }
            end.connection.advance_output(count);
        }
    }
}
