//! The client's half: calls and round trips.

use petasos_base::Time;
use petasos_proto::{Call, CallOptions, ClientSession, ClientStats, ResponseAction, Transmit};
use petasos_wire::{Encoding, Packet};

use super::{Ends, params, payload_of};
use crate::fabric::frame::{Frame, Scratch};
use crate::fabric::plan::SessionPlan;
use crate::fabric::violation::Rule;

/// A client's half.
#[derive(Debug)]
pub(in crate::fabric) struct Client {
    pub(in crate::fabric) plan: SessionPlan,
    /// Whether the thread will poll it in this turn.
    pub(in crate::fabric) ready: bool,
    session: ClientSession<Time>,
    departures: Box<[(u32, Time)]>,
    /// Packets that may be in flight beyond the window: probes since the last poll.
    probes: u32,
}

/// The effect of a packet from the server.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::fabric) struct Heard {
    /// When the transmission was sent that the packet answers, if that is still known.
    pub(in crate::fabric) left_at: Option<Time>,
    /// When the call that is now complete began.
    pub(in crate::fabric) completed: Option<Time>,
    /// Whether it was a part of a longer response that is not complete yet.
    pub(in crate::fabric) long: bool,
    /// A packet to send in response.
    pub(in crate::fabric) reply: Option<Frame>,
}

impl Client {
    pub(in crate::fabric) fn new(
        plan: SessionPlan,
        ends: Ends,
        receive_frames: u32,
        backlog_max: u32,
    ) -> Client {
        let (params, config) = (params(&plan, ends.server, receive_frames), &plan.config);
        let session = ClientSession::new(params, &config.timers, &config.congestion, backlog_max);
        // Numbers of transmissions rise by one, and those in flight are within the credits, once
        // for requests and once for pulls; as many again for repetitions that are answered late.
        let remembered = (4 * plan.config.credits).next_power_of_two() as usize;
        let departures = vec![(u32::MAX, Time::ZERO); remembered].into_boxed_slice();
        Client { ready: false, session, departures, probes: 0, plan }
    }

    /// The session, to be given its share of the receive queue.
    pub(in crate::fabric) fn session_mut(&mut self) -> &mut ClientSession<Time> {
        &mut self.session
    }

    /// Begins a call.
    pub(in crate::fabric) fn call(&mut self, now: Time) {
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

    /// Handles a packet from the server.
    #[inline]
    pub(in crate::fabric) fn handle(
        &mut self,
        packet: &Packet<'_>,
        marked: bool,
        now: Time,
    ) -> Result<Heard, Rule> {
        let (transmission, left_at) = self.departures[self.departure(packet.echo())];
        let left_at = (transmission == packet.echo()).then_some(left_at);
        let mut heard = Heard { left_at, ..Heard::default() };
        match self.session.handle_packet(packet, marked, now) {
            ResponseAction::None => {}
            ResponseAction::Begin { .. } | ResponseAction::Store { last: false, .. } => {
                heard.long = true;
            }
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

    /// Handles the timers that are due by `now`. Poll afterwards.
    pub(in crate::fabric) fn handle_timer(&mut self, now: Time) {
        if self.session.next_timeout() > now {
            return;
        }
        self.probes += self.session.handle_timeout(now);
    }

    /// When [`Client::handle_timer`] or [`Client::poll`] must be called next.
    #[inline]
    pub(in crate::fabric) fn due(&self) -> Time {
        self.session.next_timeout().min(self.session.next_send())
    }

    /// Passes every packet that may be sent now to `send`.
    #[inline]
    pub(in crate::fabric) fn poll(
        &mut self,
        now: Time,
        scratch: &mut Scratch,
        mut send: impl FnMut(Frame),
    ) -> Result<(), Rule> {
        let pulled_before = self.session.pulled();
        let requests_before = self.session.in_flight() - pulled_before;
        self.session.start_queued(now);
        while let Some(transmit) = self.session.poll_transmit(now) {
            let frame = self.frame(transmit);
            let transmission = scratch.packet(&frame).transmission();
            self.departures[self.departure(transmission)] = (transmission, now);
            send(frame);
        }
        let probes = core::mem::take(&mut self.probes);
        let pulled = self.session.pulled();
        let requests = self.session.in_flight() - pulled;
        let limit =
            |window: u32, before: u32| window.min(self.plan.config.credits).max(before) + probes;
        let kept = requests <= limit(self.session.window(), requests_before)
            && pulled <= limit(self.session.pull_window(), pulled_before);
        if kept { Ok(()) } else { Err(Rule::Credits) }
    }

    #[inline]
    fn frame(&self, transmit: Transmit) -> Frame {
        match transmit {
            Transmit::Bare(header) => Frame::new(header, 0),
            Transmit::Request { index, header, .. } => {
                Frame::new(header, payload_of(&self.plan, index, self.plan.request_bytes))
            }
        }
    }

    /// Whether nothing is open or in flight.
    pub(in crate::fabric) fn is_idle(&self) -> bool {
        self.session.busy() == 0 && self.session.backlog() == 0 && self.session.in_flight() == 0
    }

    pub(in crate::fabric) fn stats(&self) -> ClientStats {
        self.session.stats()
    }

    #[inline]
    fn departure(&self, transmission: u32) -> usize {
        transmission as usize & (self.departures.len() - 1)
    }
}
