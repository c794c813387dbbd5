//! What leaves for workers.

use petasos_base::Time;
use petasos_router::{Assignment, WorkerId};
use petasos_wire::{FIRST_BYTES, GIVEN_NUMBERS, Given, Probe};

use crate::clients::Client;
use crate::frames::{FrameId, Waiting};
use crate::members::Member;
use crate::outbox::{Outbox, Receiver};
use crate::plane::Plane;

impl Plane {
    /// The client of a request that waits, unless it is gone: its number may be another's.
    pub(crate) fn asker(&mut self, waiting: Waiting) -> Option<&mut Client> {
        let (number, tag) = waiting.client;
        self.clients.get_mut(number).filter(|client| client.tag == tag)
    }

    /// Sends a request to a worker (RT1, RT19).
    #[inline]
    pub(crate) fn give(
        &mut self,
        assignment: &Assignment<FrameId>,
        bytes: &[u8],
        lifetime_us: Option<u32>,
    ) {
        if let Some(member) = self.members.get(assignment.worker) {
            push_given(&mut self.out, member, assignment, bytes, lifetime_us);
            self.stats.given += 1;
        }
    }

    pub(crate) fn give_waiting(&mut self, assignment: &Assignment<FrameId>, now: Time) {
        let token = assignment.token;
        let (waiting, bytes) = self.frames.get(token);
        let left = waiting.expires - now;
        let lifetime_us = match waiting.expires {
            Time::NEVER => None,
            // A packet that goes has time left: what has none was dropped.
            _ => Some(u32::try_from(left.as_micros()).unwrap_or(u32::MAX - 1).max(1)),
        };
        let (number, tag) = waiting.client;
        let is_there = self.clients.get_mut(number).is_some_and(|client| client.tag == tag);
        if let Some(member) = self.members.get(assignment.worker).filter(|_| is_there) {
            push_given(&mut self.out, member, assignment, bytes, lifetime_us);
            self.stats.given += 1;
            self.stats.waited += 1;
        }
        // Of a client that is gone, its worker's number is missing now, and is written off (RT21).
        self.stats.orphaned += u64::from(!is_there);
        self.leave(token);
    }

    /// A request does not wait any more.
    pub(crate) fn leave(&mut self, token: FrameId) {
        let (waiting, _) = self.frames.get(token);
        if let Some(client) = self.asker(waiting) {
            client.waiting -= 1;
        }
        self.frames.give_kept(token);
    }

    pub(crate) fn probe(&mut self, worker: WorkerId, number: u64) {
        let Some(member) = self.members.get(worker) else { return };
        let number = (number % u64::from(GIVEN_NUMBERS)) as u32;
        let probe = Probe { session: member.session, tag: member.tag, number };
        let to = Receiver::Member(member.id.index(), member.route);
        self.out.push(to, &probe.to_bytes());
        self.stats.probes += 1;
    }
}

/// Sends a first packet to a worker, with its number there.
#[inline]
fn push_given(
    out: &mut Outbox,
    member: &Member,
    assignment: &Assignment<FrameId>,
    bytes: &[u8],
    lifetime_us: Option<u32>,
) {
    let number = (assignment.number % u64::from(GIVEN_NUMBERS)) as u32;
    let given = Given { session: member.session, tag: member.tag, number, lifetime_us };
    let packet = out.push(Receiver::Member(member.id.index(), member.route), bytes);
    given.write_to(packet.first_chunk_mut::<FIRST_BYTES>().expect("its form was checked"));
}
