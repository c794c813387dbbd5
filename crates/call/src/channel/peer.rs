//! One server: its connection state and its sessions.

use core::time::Duration;

use petasos_base::{Rng, Time};

use super::{Address, Avoid, PeerState, SESSIONS_MAX, SessionIndex};
use crate::policy::jittered;

const _: () = assert!(SESSIONS_MAX == 64, "`room` has a bit for each session");

/// The minimum time between the starts of the first two connection attempts (gRPC's connection
/// backoff).
pub(super) const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The same, where the server has said that another one is at its address from now on.
const SUCCESSOR_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(120);
const BACKOFF_MULTIPLIER: f64 = 1.6;

/// When the next attempt may start: gRPC's connection backoff, measured between starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// The number of consecutive failures.
    failures: u32,
    started: Time,
    /// The earliest time for the next attempt.
    pub next_at: Time,
}

impl Backoff {
    pub(super) fn on_start(&mut self, now: Time) {
        self.started = now;
    }

    pub(super) fn on_success(&mut self) {
        self.failures = 0;
        // Limits reconnects to a server that accepts connections and then loses them.
        self.next_at = self.started + BACKOFF_FIRST;
    }

    /// The server was reached and has a successor. One that says so of itself again and again is
    /// not dialled without pause.
    pub(super) fn on_successor(&mut self) {
        self.next_at = self.next_at.min(self.started + SUCCESSOR_FIRST);
    }

    pub(super) fn on_failure(&mut self, rng: &mut Rng) {
        let exponent = i32::try_from(self.failures.min(32)).expect("at most 32");
        let longer = BACKOFF_FIRST.mul_f64(BACKOFF_MULTIPLIER.powi(exponent));
        self.next_at = self.started + jittered(longer.min(BACKOFF_MAX), rng);
        self.failures = self.failures.saturating_add(1);
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    pub generation: u32,
    pub address: Address,
    /// On the latest list of addresses. If not, the server gets no calls, and is removed when its
    /// last call and its connect have ended.
    pub listed: bool,
    /// A connect is under way.
    pub connecting: bool,
    /// Attempts have failed since the server was last ready.
    pub failing: bool,
    /// Of attempts while no session is open.
    pub backoff: Backoff,
    /// Of attempts to open additional sessions. They say nothing about how long the server has been
    /// connected.
    pub growth: Backoff,
    /// Its index in the channel's list of servers, if it is ready and listed.
    pub server: Option<usize>,
    /// Sessions by place. `room` has a bit for each one that accepts a call.
    places: Vec<Option<Session>>,
    room: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub generation: u32,
    /// The most calls that it can carry.
    pub capacity: u32,
    /// At most `capacity`.
    pub running: u32,
    /// Since when `running` has been 0, if it is 0.
    pub idle_since: Time,
    /// The server accepts no more calls in this session.
    pub draining: bool,
}

impl Peer {
    pub(super) fn new(address: Address, generation: u32) -> Peer {
        Peer {
            generation,
            address,
            listed: true,
            connecting: false,
            failing: false,
            backoff: Backoff::default(),
            growth: Backoff::default(),
            server: None,
            places: Vec::new(),
            room: 0,
        }
    }

    pub(super) fn state(&self, now: Time) -> PeerState {
        if self.server.is_some() {
            PeerState::Ready
        } else if self.connecting {
            PeerState::Connecting
        } else if now < self.backoff.next_at {
            PeerState::BackingOff
        } else {
            PeerState::Idle
        }
    }

    /// Whether a session accepts calls, or would if a slot were free.
    pub(super) fn is_open(&self) -> bool {
        self.sessions().any(|(_, session)| !session.draining)
    }

    pub(super) fn is_session_open(&self, index: SessionIndex) -> bool {
        let session = self.places.get(usize::from(index.place)).and_then(Option::as_ref);
        session.is_some_and(|it| it.generation == index.generation && !it.draining)
    }

    pub(super) fn has_room(&self) -> bool {
        self.room != 0
    }

    pub(super) fn running(&self) -> u32 {
        self.sessions().map(|(_, session)| session.running).sum()
    }

    /// The sessions and their places.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (u8, &Session)> {
        let places = (0..).zip(&self.places);
        places.filter_map(|(place, session)| session.as_ref().map(|session| (place, session)))
    }

    /// Adds a session; `None` if all places are used.
    pub(super) fn add(&mut self, session: Session) -> Option<u8> {
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if free == SESSIONS_MAX {
            return None;
        }
        if free == self.places.len() {
            self.places.push(None);
        }
        self.places[free] = Some(session);
        self.room |= 1 << free;
        Some(u8::try_from(free).expect("fewer than 64"))
    }

    pub(super) fn remove(&mut self, index: SessionIndex) -> Option<Session> {
        self.session(index)?;
        self.room &= !(1 << index.place);
        self.places[usize::from(index.place)].take()
    }

    pub(super) fn session(&mut self, index: SessionIndex) -> Option<&mut Session> {
        let session = self.places.get_mut(usize::from(index.place))?.as_mut()?;
        (session.generation == index.generation).then_some(session)
    }

    /// Takes a slot of the first session with room, so that later sessions can become idle.
    pub(super) fn occupy(&mut self) -> Option<(u8, u32)> {
        let place = u8::try_from(self.room.trailing_zeros()).ok()?;
        self.occupy_at(place)
    }

    /// Like [`Peer::occupy`], of a session that the call has not used; `number` is this peer's
    /// number.
    pub(super) fn occupy_other(&mut self, number: u32, avoid: &Avoid) -> Option<(u8, u32)> {
        let room = self.room;
        let index = |place, generation| SessionIndex { peer: number, place, generation };
        let is_new = |&(place, session): &(u8, &Session)| {
            room & 1 << place != 0 && !avoid.contains(index(place, session.generation))
        };
        let place = self.sessions().find(is_new).map(|(place, _)| place)?;
        self.occupy_at(place)
    }

    fn occupy_at(&mut self, place: u8) -> Option<(u8, u32)> {
        let session = self.places.get_mut(usize::from(place))?.as_mut()?;
        session.running += 1;
        if session.running == session.capacity {
            self.room &= !(1 << place);
        }
        Some((place, session.generation))
    }

    /// Takes all free slots of a session.
    pub(super) fn occupy_rest(&mut self, index: SessionIndex) -> u32 {
        let Some(session) = self.session(index).filter(|session| !session.draining) else {
            return 0;
        };
        let free = session.capacity - session.running;
        session.running = session.capacity;
        self.room &= !(1 << index.place);
        free
    }

    /// Returns a slot. The result is the session's new state, if it still exists.
    pub(super) fn release(&mut self, index: SessionIndex, now: Time) -> Option<Session> {
        let session = self.session(index)?;
        session.running = session.running.checked_sub(1).expect("a call ends once");
        if session.running == 0 {
            session.idle_since = now;
        }
        let session = *session;
        if !session.draining {
            self.room |= 1 << index.place;
        }
        Some(session)
    }

    /// Stops new calls to a session, and returns whether it has no calls.
    pub(super) fn drain(&mut self, index: SessionIndex) -> Option<bool> {
        let session = self.session(index)?;
        session.draining = true;
        let is_idle = session.running == 0;
        self.room &= !(1 << index.place);
        Some(is_idle)
    }
}
