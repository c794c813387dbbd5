//! Requests to a group, many at once, on one endpoint.
//!
//! It finds the leader and follows it, and sends requests again as far as that is safe. It is the
//! state of an endpoint, whose loop [`run`] turns.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_endpoint::{
    CallSettings, Completion, Context, Endpoint, MsgBuf, SessionId, SessionState,
};

use super::ask::{Ask, Attempt, Next, Pending, Repeat, To};
use super::inbox::Inbox;

/// How long a member has for an answer, or for a session, before another one is asked.
const ATTEMPT: Duration = Duration::from_millis(500);
/// How long a request waits before it is sent again.
const PAUSE: Duration = Duration::from_millis(10);

/// A member, and the session to it.
struct Peer {
    address: SocketAddr,
    session: Option<SessionId>,
    is_ready: bool,
    /// Since when it is connected to, or when that has failed.
    since: Time,
    is_wanted: bool,
}

/// A request that was sent.
struct Flying {
    pending: Pending,
    peer: usize,
}

/// What an endpoint that asks a group keeps.
pub struct Asker {
    inbox: Inbox,
    peers: Vec<Peer>,
    /// Which of them is asked first: the leader, as far as it is known.
    leader: usize,
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    waiting: Vec<Pending>,
    /// Sessions that have ended.
    closing: Vec<SessionId>,
}

impl Asker {
    /// It knows these members of a group.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(members: &[SocketAddr]) -> Asker {
        assert!(!members.is_empty(), "a group has members");
        let mut asker = Asker {
            inbox: Inbox::default(),
            peers: Vec::new(),
            leader: 0,
            flying: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            closing: Vec::new(),
        };
        for address in members {
            asker.place_of(*address);
        }
        asker
    }

    /// Asks, from the next turn on.
    pub(super) fn ask(&mut self, ask: Ask, now: Time) {
        self.waiting.push(Pending::new(ask, now));
    }

    pub(super) fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    fn place_of(&mut self, address: SocketAddr) -> usize {
        let known = self.peers.iter().position(|peer| peer.address == address);
        known.unwrap_or_else(|| {
            let (session, is_ready, since) = (None, false, Time::ZERO);
            self.peers.push(Peer { address, session, is_ready, since, is_wanted: false });
            self.peers.len() - 1
        })
    }

    /// Looks after sessions. Whether one has become ready.
    fn look(&mut self, cx: &Context<Asker>) -> bool {
        let mut is_new = false;
        for peer in &mut self.peers {
            match peer.session.map(|session| (session, cx.session_state(session))) {
                Some((_, SessionState::Ready)) => {
                    is_new |= !std::mem::replace(&mut peer.is_ready, true);
                }
                Some((_, SessionState::Connecting)) | None => {}
                Some((session, _)) => {
                    self.closing.push(session);
                    (peer.session, peer.is_ready, peer.since) = (None, false, cx.now());
                }
            }
        }
        is_new
    }

    /// Whether sessions are to be opened or closed, which only the endpoint itself can do.
    fn has_chores(&self) -> bool {
        !self.closing.is_empty() || self.peers.iter().any(|peer| peer.is_wanted)
    }

    /// Sends a request, or keeps it for later.
    fn attempt(&mut self, cx: &mut Context<Asker>, mut pending: Pending) {
        let at = match pending.ask.to {
            To::Leader | To::Any => self.leader,
            To::Member(address) => self.place_of(address),
        };
        let (now, peer) = (cx.now(), &mut self.peers[at]);
        if peer.session.is_none() {
            // One that could not be reached a moment ago is left alone for a moment.
            peer.is_wanted = peer.since == Time::ZERO || now >= peer.since + PAUSE;
            pending.at = now + PAUSE;
            if !peer.is_wanted && !matches!(pending.ask.to, To::Member(_)) {
                self.leave(at);
            }
            return self.waiting.push(pending);
        }
        if !peer.is_ready {
            pending.at = peer.since + ATTEMPT;
            if now >= pending.at {
                self.closing.extend(peer.session.take());
                peer.since = now;
                pending.at = now + PAUSE;
                self.leave(at);
            }
            return self.waiting.push(pending);
        }
        self.send(cx, pending, at);
    }

    fn send(&mut self, cx: &mut Context<Asker>, pending: Pending, at: usize) {
        let left = pending.until - cx.now();
        // A member that is silent is left, unless the request cannot be sent again.
        let patience = match (pending.ask.repeat, pending.ask.to) {
            (Repeat::Once, _) | (_, To::Member(_)) => left,
            _ => left.min(ATTEMPT),
        };
        let settings = CallSettings { timeout: Some(patience), ..CallSettings::default() };
        let request = MsgBuf::from_slice(&pending.ask.request);
        let method = pending.ask.method;
        let Some(session) = self.peers[at].session else { return self.waiting.push(pending) };
        let place = self.free.pop().unwrap_or(self.flying.len());
        match cx.enqueue_with(session, method, request, answered, place as u64, &settings) {
            Ok(_) => {
                if place == self.flying.len() {
                    self.flying.push(None);
                }
                self.flying[place] = Some(Flying { pending, peer: at });
            }
            Err(refused) => {
                cx.free(refused.request);
                if place < self.flying.len() {
                    self.free.push(place);
                }
                self.go_on(cx.now(), pending, at, Attempt::NotSent);
            }
        }
    }

    /// An attempt has ended.
    fn go_on(&mut self, now: Time, mut pending: Pending, at: usize, attempt: Attempt) {
        pending.at = now + PAUSE;
        match pending.next(attempt) {
            Next::End(result) => return (pending.ask.told)(result),
            Next::Again => {}
            Next::Another => self.leave(at),
            Next::Follow(address) => {
                let address = core::str::from_utf8(&address).ok();
                match address.and_then(|text| text.parse().ok()) {
                    Some(address) => {
                        let leader = self.place_of(address);
                        // A member that names itself does not know yet.
                        if leader != at {
                            (self.leader, pending.at) = (leader, now);
                        }
                    }
                    None => self.leave(at),
                }
            }
        }
        self.waiting.push(pending);
    }

    /// The next member is asked from now on, if this one was.
    fn leave(&mut self, at: usize) {
        if self.leader == at {
            self.leader = (at + 1) % self.peers.len();
        }
    }

    /// When a turn is due if nothing comes.
    fn next_turn(&self, now: Time) -> Time {
        let of = |pending: &Pending| pending.at.max(now).min(pending.until);
        self.waiting.iter().map(of).min().unwrap_or(Time::NEVER)
    }
}

/// The end of a turn: sends what is due, and gives up what is late.
pub(super) fn end_turn(asker: &mut Asker, cx: &mut Context<Asker>) -> Time {
    let now = cx.now();
    let is_new = asker.look(cx);
    let mut waiting = std::mem::take(&mut asker.waiting);
    asker.inbox.take(|ask| waiting.push(Pending::new(ask, now)));
    for pending in waiting {
        if now >= pending.until {
            pending.give_up();
        } else if is_new || now >= pending.at {
            asker.attempt(cx, pending);
        } else {
            asker.waiting.push(pending);
        }
    }
    asker.next_turn(now)
}

/// A request has an answer, or none.
fn answered(asker: &mut Asker, cx: &mut Context<Asker>, completion: Completion<'_>) {
    let place = usize::try_from(completion.tag).expect("it is a place");
    cx.free(completion.request);
    let Flying { pending, peer } = asker.flying[place].take().expect("a call ends once");
    asker.free.push(place);
    let attempt = match completion.result {
        Err(error) if error.retry_is_safe() => Attempt::NotSent,
        Err(_) => Attempt::Lost,
        Ok(answer) => match pending.ask.to {
            To::Leader => Attempt::of_reply(&answer),
            To::Member(_) | To::Any => Attempt::Raw(answer.to_vec()),
        },
    };
    asker.go_on(cx.now(), pending, peer, attempt);
}

/// Turns the loop until `is_over`.
pub(super) fn run(
    endpoint: &mut Endpoint<Asker>,
    mut is_over: impl FnMut(&mut Asker, Time) -> bool,
) {
    let mut over = false;
    while !over {
        endpoint.run(|asker, cx| {
            over = is_over(asker, cx.now());
            over || asker.has_chores()
        });
        for session in std::mem::take(&mut endpoint.state_mut().closing) {
            endpoint.close_session(session);
        }
        let wanted = |asker: &Asker| asker.peers.iter().position(|peer| peer.is_wanted);
        while let Some(at) = wanted(endpoint.state()) {
            let session = endpoint.connect(endpoint.state().peers[at].address).ok();
            let since = endpoint.context().now();
            let peer = &mut endpoint.state_mut().peers[at];
            (peer.session, peer.since, peer.is_wanted) = (session, since, false);
        }
    }
}
