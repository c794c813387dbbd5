//! A slot of a session: the place for one call.

use petasos_base::Time;
use petasos_wire::{CREDITS_MAX, Encoding};

use super::CallOptions;
use crate::scoreboard::Scoreboard;
use crate::spares::Spares;

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No call.
    Idle,
    /// The request has packets that have not been acknowledged; the only packet of a short one
    /// has not even been sent.
    Sending,
    /// The only packet of a short request has been sent.
    InFlight,
    /// The server has the whole request and has not answered.
    Waiting,
    /// The response is longer than a packet, and its packets are being pulled.
    Pulling,
}

/// A call of one packet touches two cache lines, and no two calls share one.
#[repr(C, align(64))]
pub(super) struct Slot<C> {
    /// The number of the current request, or of the last one if idle.
    pub(super) request: u64,
    /// The call's number in the session.
    pub(super) call: u64,
    pub(super) options: CallOptions,
    pub(super) response_bytes: u32,
    /// The unanswered transmission whose round trip is being measured, or [`UNTIMED`], and when it
    /// left.
    pub(super) timed: u32,
    pub(super) timed_at: Time,
    /// When the call last made progress: timeouts count from here.
    pub(super) progress_at: Time,
    pub(super) phase: Phase,
    /// Retransmission timeouts since the last progress.
    pub(super) backoff: u8,
    /// The scoreboard of a longer request, later of a longer response.
    pub(super) board: Option<Box<Scoreboard>>,
    pub(super) context: Option<C>,
}

/// No transmission has this number: they have 24 bits (W6).
pub(super) const UNTIMED: u32 = u32::MAX;

const NO_CALL: CallOptions = CallOptions {
    method: 0,
    encoding: Encoding::Opaque,
    request_bytes: 0,
    response_bytes_max: 0,
    timeout_at: Time::NEVER,
};

impl<C> Slot<C> {
    pub(super) fn new(request: u64) -> Slot<C> {
        Slot {
            request,
            call: 0,
            options: NO_CALL,
            response_bytes: 0,
            timed: UNTIMED,
            timed_at: Time::ZERO,
            progress_at: Time::ZERO,
            phase: Phase::Idle,
            backoff: 0,
            board: None,
            context: None,
        }
    }

    /// Gives the slot a board for a message of several `packets`, `done` of which have arrived.
    #[cold]
    pub(super) fn begin_many(&mut self, spares: &mut Spares<Scoreboard>, packets: u32, done: u32) {
        self.end_board(spares);
        let reuse = |board: &mut Scoreboard| board.reset(packets, done, CREDITS_MAX);
        let board = spares.take(reuse, || Scoreboard::new(packets, done, CREDITS_MAX));
        self.board = Some(board);
    }

    /// Gives the board back, if the message had several packets.
    #[cold]
    pub(super) fn end_board(&mut self, spares: &mut Spares<Scoreboard>) {
        if let Some(board) = self.board.take() {
            spares.give(board);
        }
    }

    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        slots: u64,
        response_bytes_limit: u32,
        number: u64,
        options: CallOptions,
        now: Time,
    ) {
        debug_assert!(self.context.is_none() && self.board.is_none());
        self.request = (self.request + slots) % petasos_wire::REQUEST_NUMBERS;
        self.call = number;
        let response_bytes_max = options.response_bytes_max.min(response_bytes_limit);
        self.options = CallOptions { response_bytes_max, ..options };
        self.progress_at = now;
        self.phase = Phase::Sending;
        self.backoff = 0;
        self.timed = UNTIMED;
    }

    /// Takes the context of a call that begins.
    #[inline(always)]
    pub(super) fn put_context(&mut self, context: C) -> &mut C {
        // The slot is idle, so there is nothing to drop; `forget` saves the check for that.
        core::mem::forget(self.context.replace(context));
        self.context.as_mut().expect("the context has just been put")
    }

    /// Measures the round trip of `transmission`, which leaves now.
    #[inline(always)]
    pub(super) fn time(&mut self, transmission: u32, now: Time) {
        (self.timed, self.timed_at) = (transmission, now);
    }

    #[inline(always)]
    pub(super) fn end(&mut self, spares: &mut Spares<Scoreboard>) -> C {
        self.phase = Phase::Idle;
        if self.board.is_some() {
            self.end_board(spares);
        }
        self.context.take().expect("a busy slot has a context")
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether no packet of the request was passed on to be sent.
    pub(super) fn is_unsent(&self) -> bool {
        let is_untouched = self.board.as_ref().is_none_or(|board| board.is_untouched());
        self.phase == Phase::Sending && is_untouched
    }

    /// Whether the server may still lack packets of the request.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.phase, Phase::Sending | Phase::InFlight)
    }

    /// Packets of this call in flight, requests or pulled responses.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        match &self.board {
            None => u32::from(self.phase == Phase::InFlight),
            Some(board) => board.in_flight(),
        }
    }

    #[inline]
    pub(super) fn progressed(&mut self, now: Time) {
        self.progress_at = now;
        self.backoff = 0;
    }
}

/// The slots in a set. An idle session's slots are not read at all: with thousands of sessions,
/// that would be most of the cost of their timers.
pub(super) fn slots_in(mut set: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let slot = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(slot)
    })
}
