//! The server's half: receives requests, answers each once, and acknowledges what has arrived.

use petasos_proto::{RequestAction, Respond, ServerSession};
use petasos_wire::{BITMAP_WORDS_MAX, Packet};

use super::{Ends, params, payload_of};
use crate::fabric::frame::Frame;
use crate::fabric::plan::SessionPlan;
use crate::fabric::violation::Rule;

/// A server's half.
#[derive(Debug)]
pub(in crate::fabric) struct Server {
    pub(in crate::fabric) plan: SessionPlan,
    /// Whether the thread will ask it for acknowledgements in this turn.
    pub(in crate::fabric) ready: bool,
    /// Request bytes received, each once.
    pub(in crate::fabric) received_bytes: u64,
    /// Requests handled.
    pub(in crate::fabric) handled: u64,
    session: ServerSession<()>,
    slots: Box<[Slot]>,
}

/// The state of a slot's requests, apart from the session.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Bytes that are missing from the request being received.
    missing_bytes: u32,
    /// One past the latest request handled: numbers rise within a slot (W5).
    handled_below: u64,
}

impl Server {
    pub(in crate::fabric) fn new(plan: SessionPlan, ends: Ends, receive_frames: u32) -> Server {
        Server {
            plan,
            ready: false,
            received_bytes: 0,
            handled: 0,
            session: ServerSession::new(params(&plan, ends.client, receive_frames)),
            slots: vec![Slot::default(); plan.slots as usize].into_boxed_slice(),
        }
    }

    /// The session, to be given its share of the receive queue.
    pub(in crate::fabric) fn session_mut(&mut self) -> &mut ServerSession<()> {
        &mut self.session
    }

    /// Handles a packet from the client, and passes its immediate answer to `send`. Returns whether
    /// it was a part of a longer request that is not complete yet.
    #[inline]
    pub(in crate::fabric) fn handle(
        &mut self,
        packet: &Packet<'_>,
        marked: bool,
        mut send: impl FnMut(Frame),
    ) -> Result<bool, Rule> {
        let payload_bytes = packet.payload().len() as u32;
        let mut long = false;
        match self.session.handle_packet(packet, marked) {
            RequestAction::None | RequestAction::Released { .. } => {}
            RequestAction::Deliver => {
                self.received_bytes += u64::from(payload_bytes);
                send(self.run(packet.request())?);
            }
            RequestAction::Begin { slot, bytes, .. } => {
                self.received_bytes += u64::from(payload_bytes);
                self.slots[slot as usize].missing_bytes = bytes - payload_bytes;
                long = true;
            }
            RequestAction::Store { slot, last, .. } => {
                self.received_bytes += u64::from(payload_bytes);
                let missing = &mut self.slots[slot as usize].missing_bytes;
                *missing = missing.checked_sub(payload_bytes).ok_or(Rule::WholeRequest)?;
                if last != (*missing == 0) {
                    return Err(Rule::WholeRequest);
                }
                long = !last;
                if last {
                    send(self.run(packet.request())?);
                }
            }
            RequestAction::Repeat { slot } => send(self.response(slot, 0)),
            RequestAction::Pull { slot, start, end } => {
                (start..end).for_each(|index| send(self.response(slot, index)));
            }
            RequestAction::Reject(_) => return Err(Rule::NoRefusal),
        }
        Ok(long)
    }

    /// Passes the acknowledgements that are due to `send`.
    #[inline]
    pub(in crate::fabric) fn poll_acks(&mut self, mut send: impl FnMut(Frame)) {
        let mut words = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = self.session.poll_ack(&mut words) {
            send(Frame::with_bitmap(ack.header, &words[..ack.bitmap_words as usize]));
        }
    }

    /// The handler: it answers at once.
    fn run(&mut self, request: u64) -> Result<Frame, Rule> {
        let slot = self.session.slot_of(request);
        let handled_below = &mut self.slots[slot as usize].handled_below;
        if request < *handled_below {
            return Err(Rule::RunsOnce);
        }
        *handled_below = request + 1;
        self.handled += 1;
        match self.session.respond(request, self.plan.response_bytes) {
            Respond::Send => Ok(self.response(slot, 0)),
            Respond::Stale => Err(Rule::RunsOnce),
            Respond::TooLong => Err(Rule::NoRefusal),
        }
    }

    fn response(&mut self, slot: u32, index: u32) -> Frame {
        let header = self.session.response_header(slot, index);
        Frame::new(header, payload_of(&self.plan, index, self.plan.response_bytes))
    }
}
