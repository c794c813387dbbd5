//! One entry of the table, and what is known of its client.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::RejectCode;

use super::TakenConfig;
use super::types::{Arrived, Asker, SessionName};

/// After a ready, it is sent again when so much has passed since the first (RT16).
const READY_AGAIN: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(7),
    Duration::from_millis(15),
];
/// What a byte of a request may take on its way (RT17).
const BYTE: Duration = Duration::from_micros(10);

/// A request, or the place of the next one.
#[derive(Debug)]
pub(super) struct Entry<C> {
    /// Counts the requests that were here.
    pub(super) generation: u64,
    pub(super) tag: u32,
    pub(super) asker: Asker,
    pub(super) state: State,
    /// Until it is settled.
    pub(super) arrived: Option<Arrived>,
    /// Until the session is gone.
    pub(super) context: Option<C>,
    /// When its client's last packet came.
    pub(super) heard_at: Time,
    /// When the earliest of its items in the wheel is due.
    pub(super) timed_at: Time,
}

/// RT18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Claimed {
        since: Time,
        lapses_at: Time,
        /// Readies that were sent.
        told: usize,
    },
    Receiving {
        since: Time,
        /// When the newest part came.
        new_at: Time,
    },
    Running {
        /// When its client is told, unless it knows: whole requests only.
        notice_at: Time,
    },
    /// Cancelled: there is no session any more, but the handler has not ended.
    Ending,
    Answered,
    Rejected {
        code: RejectCode,
        /// It was a claim, of whose request nothing has come since it lapsed.
        is_awaited: bool,
    },
}

impl<C> Entry<C> {
    pub(super) fn new() -> Entry<C> {
        let (pair, pair_tag, request, echo) = (0, 0, 0, 0);
        let (client, message_bytes, expires_at) = (0, 0, Time::NEVER);
        Entry {
            generation: 0,
            tag: 0,
            asker: Asker { client, pair, pair_tag, request, echo, message_bytes, expires_at },
            state: State::Free,
            arrived: None,
            context: None,
            heard_at: Time::ZERO,
            timed_at: Time::NEVER,
        }
    }

    pub(super) fn session(&self, index: u32) -> SessionName {
        SessionName { index, tag: self.tag }
    }

    /// Whether the client has been told of the session, or is told now.
    pub(super) fn is_named(&self) -> bool {
        match self.state {
            State::Free | State::Ending => false,
            State::Running { notice_at } => notice_at == Time::NEVER,
            _ => true,
        }
    }

    /// When something has to be done if nothing comes.
    pub(super) fn due(&self, config: &TakenConfig) -> Time {
        match self.state {
            State::Claimed { since, lapses_at, told } => lapses_at.min(next_ready_at(since, told)),
            State::Receiving { .. } => self.given_up_at(config).0,
            State::Running { notice_at } => notice_at,
            State::Answered | State::Rejected { .. } => self.heard_at + config.keep,
            State::Free | State::Ending => Time::NEVER,
        }
    }

    /// When a request that is being received is given up, and with what code.
    pub(super) fn given_up_at(&self, config: &TakenConfig) -> (Time, RejectCode) {
        let State::Receiving { since, new_at } = self.state else {
            return (Time::NEVER, RejectCode::Again);
        };
        let all = since + config.gap + BYTE * self.asker.message_bytes;
        let lapses_at = all.min(new_at + config.gap);
        match self.asker.expires_at <= lapses_at {
            true => (self.asker.expires_at, RejectCode::Expired),
            false => (lapses_at, RejectCode::Again),
        }
    }
}

/// When a claim is told of its session the next time.
fn next_ready_at(since: Time, told: usize) -> Time {
    match told.checked_sub(1) {
        None => since,
        Some(again) => READY_AGAIN.get(again).map_or(Time::NEVER, |after| since + *after),
    }
}
