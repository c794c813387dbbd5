//! Who has shown the token, for some hours.
//!
//! A session has two halves, and needs both. One is in a cookie that no script can read. The other
//! is in the page's own storage, and no other port of this host can read that: cookies go to all
//! ports of a host, and on loopback other users have some.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use petasos_base::Time;

use crate::secret::Secret;

/// The most sessions; the oldest ends for a new one.
const SESSIONS_MAX: usize = 64;
/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// What a browser gets.
#[derive(Clone)]
pub struct Session {
    /// For the cookie.
    pub cookie: Secret,
    /// For the page.
    pub key: Secret,
    ends: Time,
}

/// The sessions, the oldest first.
#[derive(Default)]
pub struct Sessions(Mutex<VecDeque<Session>>);

impl Sessions {
    /// Begins one.
    pub fn begin(&self, now: Time) -> Session {
        let session = Session { cookie: Secret::new(), key: Secret::new(), ends: now + LIFETIME };
        let mut all = self.all(now);
        if all.len() >= SESSIONS_MAX {
            all.pop_front();
        }
        all.push_back(session.clone());
        session
    }

    /// Whether there is one of these halves.
    pub fn has(&self, cookie: &str, key: &str, now: Time) -> bool {
        // All are looked at, so that the time tells nothing.
        let all = self.all(now);
        all.iter().filter(|session| session.is(cookie, key)).count() > 0
    }

    /// Ends one.
    pub fn end(&self, cookie: &str, key: &str, now: Time) {
        self.all(now).retain(|session| !session.is(cookie, key));
    }

    /// Those that last.
    fn all(&self, now: Time) -> MutexGuard<'_, VecDeque<Session>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|session| session.ends > now);
        all
    }
}

impl Session {
    fn is(&self, cookie: &str, key: &str) -> bool {
        self.cookie.is(cookie) & self.key.is(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_needs_both_halves_and_ends() {
        let (sessions, now) = (Sessions::default(), Time::from_nanos(5));
        let (one, other) = (sessions.begin(now), sessions.begin(now));
        let has = |cookie: &Session, key: &Session, now| {
            sessions.has(cookie.cookie.text(), key.key.text(), now)
        };
        assert!(has(&one, &one, now) && has(&other, &other, now));
        assert!(!has(&one, &other, now) && !sessions.has("", "", now));
        sessions.end(one.cookie.text(), one.key.text(), now);
        assert!(!has(&one, &one, now) && has(&other, &other, now));
        assert!(!has(&other, &other, now + LIFETIME));
        assert!(!has(&other, &other, now), "it has been dropped");
    }

    #[test]
    fn the_oldest_session_ends_for_a_new_one() {
        let (sessions, now) = (Sessions::default(), Time::ZERO);
        let all: Vec<Session> = (0..=SESSIONS_MAX).map(|_| sessions.begin(now)).collect();
        let has = |of: &Session| sessions.has(of.cookie.text(), of.key.text(), now);
        assert!(!has(&all[0]));
        assert_eq!(all.iter().filter(|of| has(of)).count(), SESSIONS_MAX);
    }
}
