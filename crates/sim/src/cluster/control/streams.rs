//! Streams of bytes between two runs of hosts, and the connections at their ends.

use std::collections::VecDeque;

use petasos_base::Time;
use petasos_control::{Connection, Role, Ticket};

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
    pub(super) role: Role,
    pub(super) connection: Connection,
    /// Identifies this end.
    pub(super) own: u64,
    /// Identifies the connection: this end, or the one that it has replaced.
    pub(super) number: u64,
    /// The identifier of the other end.
    pub(super) far: u64,
    /// This connection's ticket, once it was given or received.
    pub(super) ticket: Option<Ticket>,
    /// For a dialler: the connection that it is to replace, and the tickets left to present.
    pub(super) seeks: Option<(u64, Vec<Ticket>)>,
    /// Whether sessions depend on it, or may.
    pub(super) settled: bool,
    /// Bytes in flight to this end, in the order of arrival.
    incoming: VecDeque<(Time, Vec<u8>)>,
    /// Whether the end sees a reset at its next turn.
    pub(super) broken: bool,
    /// Whether the connection has reported its last event, or its host has died.
    pub(super) done: bool,
}

impl End {
    pub(super) fn new(
        (life, number): (Life, u64),
        (peer, far): (Life, u64),
        role: Role,
        connection: Connection,
    ) -> End {
        End {
            life,
            peer,
            role,
            connection,
            own: number,
            number,
            far,
            ticket: None,
            seeks: None,
            settled: false,
            incoming: VecDeque::new(),
            broken: false,
            done: false,
        }
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
    /// Runs one turn of one end of a stream.
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
        self.go_on(world, end);
        while let Some(bytes) = end.connection.poll_output() {
            // The socket accepts any part of the bytes.
            let count = 1 + self.rng.below(bytes.len() as u64) as usize;
            let at = arrival(&mut self.rng, now, far.incoming.back().map(|(at, _)| *at));
            if !far.done && !end.broken {
                far.incoming.push_back((at, bytes[..count].to_vec()));
            }
            end.connection.advance_output(count);
        }
    }
}
