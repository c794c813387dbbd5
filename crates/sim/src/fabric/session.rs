//! The two halves of a session as an experiment drives them: the only file here that knows the
//! protocol's state machines.
//!
//! Messages have lengths and no contents. Handlers answer in the turn in which the request is
//! whole. What must hold of every session is checked as it runs.

use petasos_base::Time;
use petasos_proto::{
    Call, CallOptions, ClientSession, ClientStats, RequestAction, Respond, ResponseAction,
    ServerSession, SessionParams, Transmit,
};
use petasos_wire::{BITMAP_WORDS_MAX, Encoding, Packet};

use super::frame::{Frame, Scratch};
use super::plan::SessionPlan;
use super::violation::Rule;

/// Names both halves of a session: the index of each half among those of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) client: u32,
    pub(crate) server: u32,
}

/// The tag of both halves: nothing is forged here.
const TAG: u32 = 0x0abc_def1;

fn params(plan: &SessionPlan, peer_session: u32) -> SessionParams {
    SessionParams {
        peer_session,
        peer_tag: TAG,
        local_tag: TAG,
        slots: plan.slots,
        credits: plan.config.credits,
        payload_bytes: plan.config.payload_bytes,
        request_bytes_max: plan.request_bytes,
        response_bytes_max: plan.response_bytes,
        recovery: plan.config.recovery,
        checksum: false,
    }
}

/// Bytes of packet `index` of a message of `bytes`.
#[inline]
fn payload_of(plan: &SessionPlan, index: u32, bytes: u32) -> u32 {
    bytes.saturating_sub(index * plan.config.payload_bytes).min(plan.config.payload_bytes)
}

/// A client's half.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) plan: SessionPlan,
    /// Whether the thread will poll it in this turn.
    pub(crate) ready: bool,
    session: ClientSession<Time>,
    departures: Box<[(u32, Time)]>,
    /// Packets that may be in flight beyond the window: probes since the last poll.
    probes: u32,
}

/// What a packet from the server brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// When the transmission left that the packet answers, if that is still known.
    pub(crate) left_at: Option<Time>,
    /// When the call that is now complete was begun.
    pub(crate) completed: Option<Time>,
    /// A packet to send on account of it.
    pub(crate) reply: Option<Frame>,
}

impl Client {
    pub(crate) fn new(plan: SessionPlan, ends: Ends, backlog_max: u32) -> Client {
        let session =
            ClientSession::new(params(&plan, ends.server), &plan.config.timers, backlog_max);
        // Numbers of transmissions rise by one, and those in flight are within the credits; twice
        // as many again for repetitions that are answered late.
        let remembered = (4 * plan.config.credits).next_power_of_two() as usize;
        let departures = vec![(u32::MAX, Time::ZERO); remembered].into_boxed_slice();
        Client { plan, ready: false, session, departures, probes: 0 }
    }

    /// Begins a call.
    pub(crate) fn call(&mut self, now: Time) {
        let options = CallOptions {
            method: 0,
            encoding: Encoding::Opaque,
            request_bytes: self.plan.request_bytes,
            response_bytes_max: self.plan.response_bytes,
            timeout_at: Time::NEVER,
        };
        let call = Call { options, context: now };
        self.session.enqueue(call, now).expect("the backlog holds all calls of the thread");
    }

    /// Takes a packet from the server.
    #[inline]
    pub(crate) fn handle(&mut self, packet: &Packet<'_>, now: Time) -> Result<Heard, Rule> {
        let (transmission, left_at) = self.departures[self.departure(packet.echo())];
        let left_at = (transmission == packet.echo()).then_some(left_at);
        let mut heard = Heard { left_at, ..Heard::default() };
        match self.session.handle_packet(packet, now) {
            ResponseAction::None
            | ResponseAction::Begin { .. }
            | ResponseAction::Store { last: false, .. } => {}
            ResponseAction::Complete { slot } => {
                heard.completed = Some(self.session.complete(slot))
            }
            ResponseAction::Store { slot, last: true, .. } => {
                let (begun_at, done) = self.session.finish(slot);
                heard.completed = Some(begun_at);
                heard.reply = Some(Frame::new(done, 0));
            }
            ResponseAction::Overlong(..)
            | ResponseAction::Rejected(..)
            | ResponseAction::SessionReset => return Err(Rule::NoRefusal),
        }
        Ok(heard)
    }

    /// Does what is due by `now`.
    pub(crate) fn handle_timer(&mut self, now: Time) {
        if self.session.next_timeout() <= now {
            self.probes += self.session.handle_timeout(now);
        }
    }

    /// When [`Client::handle_timer`] has something to do next.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.session.next_timeout()
    }

    /// Hands every packet that may leave now to `send`.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        now: Time,
        scratch: &mut Scratch,
        mut send: impl FnMut(Frame),
    ) -> Result<(), Rule> {
        let in_flight_before = self.session.in_flight();
        self.session.start_queued(now);
        while let Some(transmit) = self.session.poll_transmit(now) {
            let frame = match transmit {
                Transmit::Bare(header) => Frame::new(header, 0),
                Transmit::Request { index, header, .. } => {
                    Frame::new(header, payload_of(&self.plan, index, self.plan.request_bytes))
                }
            };
            let transmission = scratch.packet(&frame).transmission();
            self.departures[self.departure(transmission)] = (transmission, now);
            send(frame);
        }
        let limit = self.plan.config.credits.max(in_flight_before);
        let probes = core::mem::take(&mut self.probes);
        if self.session.in_flight() > limit + probes { Err(Rule::Credits) } else { Ok(()) }
    }

    /// Whether nothing is open or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.session.busy() == 0 && self.session.backlog() == 0 && self.session.in_flight() == 0
    }

    pub(crate) fn stats(&self) -> &ClientStats {
        self.session.stats()
    }

    #[inline]
    fn departure(&self, transmission: u32) -> usize {
        transmission as usize & (self.departures.len() - 1)
    }
}

/// A server's half.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) plan: SessionPlan,
    /// Whether the thread will ask it for acknowledgements in this turn.
    pub(crate) ready: bool,
    /// Request bytes received, each once.
    pub(crate) received_bytes: u64,
    /// Requests handled.
    pub(crate) handled: u64,
    /// The buffer that a slot keeps is the bytes that its request still lacks.
    session: ServerSession<u32>,
    /// One past the latest request handled in each slot: numbers rise within a slot (W5).
    handled_below: Box<[u64]>,
}

impl Server {
    pub(crate) fn new(plan: SessionPlan, ends: Ends) -> Server {
        Server {
            plan,
            ready: false,
            received_bytes: 0,
            handled: 0,
            session: ServerSession::new(params(&plan, ends.client)),
            handled_below: vec![0; plan.slots as usize].into_boxed_slice(),
        }
    }

    /// Takes a packet from the client; hands what answers it at once to `send`.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        packet: &Packet<'_>,
        marked: bool,
        mut send: impl FnMut(Frame),
    ) -> Result<(), Rule> {
        let payload_bytes = packet.payload().len() as u32;
        match self.session.handle_packet(packet, marked) {
            RequestAction::None | RequestAction::Released { .. } => {}
            RequestAction::Deliver => {
                self.received_bytes += u64::from(payload_bytes);
                send(self.run(packet.request())?);
            }
            RequestAction::Begin { slot, bytes, .. } => {
                self.received_bytes += u64::from(payload_bytes);
                *self.session.buffer_mut(slot) = Some(bytes - payload_bytes);
            }
            RequestAction::Store { slot, last, .. } => {
                self.received_bytes += u64::from(payload_bytes);
                let missing = self.session.buffer_mut(slot).as_mut().ok_or(Rule::WholeRequest)?;
                *missing = missing.checked_sub(payload_bytes).ok_or(Rule::WholeRequest)?;
                if last != (*missing == 0) {
                    return Err(Rule::WholeRequest);
                }
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
        Ok(())
    }

    /// Hands the acknowledgements that are owed to `send`.
    #[inline]
    pub(crate) fn poll_acks(&mut self, mut send: impl FnMut(Frame)) {
        let mut words = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = self.session.poll_ack(&mut words) {
            send(Frame::with_bitmap(ack.header, &words[..ack.bitmap_words as usize]));
        }
    }

    /// The handler: it answers at once.
    fn run(&mut self, request: u64) -> Result<Frame, Rule> {
        let slot = self.session.slot_of(request);
        let handled_below = &mut self.handled_below[slot as usize];
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
