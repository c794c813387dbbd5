//! Indices of a channel's sessions, and a record of the sessions that a call has used, so that it
//! is retried elsewhere.

/// The most attempts that a service config can set; larger values are reduced to this (A6, "Limits
/// on Retries and Hedges").
pub const ATTEMPTS_MAX: u32 = 5;

/// The most sessions to one server.
pub const SESSIONS_MAX: usize = 64;

/// A session of a channel. It is valid only for this channel; if the session is gone, inputs with
/// it are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionIndex {
    pub(crate) peer: u32,
    pub(crate) place: u8,
    pub(crate) generation: u32,
}

impl SessionIndex {
    /// A small number that is unique among the channel's present sessions, for use as an index. It
    /// is below 64 times the largest number of addresses so far.
    pub fn number(self) -> usize {
        self.peer as usize * SESSIONS_MAX + usize::from(self.place)
    }
}

/// The sessions of a call's latest attempts, up to the maximum number of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Avoid {
    /// The latest first, without gaps.
    sessions: [Option<SessionIndex>; ATTEMPTS_MAX as usize],
}

impl Avoid {
    /// The empty record, for a call's first attempt.
    pub const NOTHING: Avoid = Avoid { sessions: [None; ATTEMPTS_MAX as usize] };

    /// Adds the session of an attempt as the latest.
    pub fn add(&mut self, session: SessionIndex) {
        let known = self.sessions.iter().position(|known| *known == Some(session));
        let end = known.unwrap_or(self.sessions.len() - 1);
        self.sessions.copy_within(..end, 1);
        self.sessions[0] = Some(session);
    }

    /// Whether the call has used no session yet.
    pub fn is_empty(&self) -> bool {
        self.sessions[0].is_none()
    }

    /// Whether the call has used this session.
    pub fn contains(&self, session: SessionIndex) -> bool {
        self.sessions.contains(&Some(session))
    }

    /// Whether the call has used this server.
    pub(crate) fn knows(&self, peer: u32) -> bool {
        self.sessions.iter().flatten().any(|known| known.peer == peer)
    }

    /// The server of the latest attempt.
    pub(crate) fn latest(&self) -> Option<u32> {
        self.sessions[0].map(|session| session.peer)
    }
}

#[cfg(test)]
impl Avoid {
    /// A record with one server, for tests of balancers.
    pub(crate) fn of_peer(peer: u32) -> Avoid {
        SessionIndex { peer, place: 0, generation: 0 }.into()
    }
}

impl From<SessionIndex> for Avoid {
    fn from(session: SessionIndex) -> Avoid {
        let mut avoid = Avoid::default();
        avoid.add(session);
        avoid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(peer: u32) -> SessionIndex {
        SessionIndex { peer, place: 0, generation: 7 }
    }

    #[test]
    fn the_latest_are_known_each_once() {
        let mut avoid = Avoid::default();
        assert!(avoid.is_empty());
        for peer in [1, 2, 1, 3] {
            avoid.add(session(peer));
        }
        assert_eq!(avoid.latest(), Some(3));
        assert!([1, 2, 3].into_iter().all(|peer| avoid.knows(peer)) && !avoid.knows(4));
        let known = |avoid: &Avoid| avoid.sessions.iter().flatten().count();
        assert_eq!(known(&avoid), 3);
        for peer in 4..20 {
            avoid.add(session(peer));
        }
        assert_eq!((known(&avoid), avoid.latest()), (ATTEMPTS_MAX as usize, Some(19)));
        assert!(avoid.contains(session(15)) && !avoid.contains(session(14)));
    }
}
