//! Clients as the replicated state knows them (QR9 to QR11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petasos_base::ByteReader;

use crate::bytes::{push_long, push_numbers, push_u64};

/// The most sessions of a group.
pub const SESSIONS_MAX: usize = 65_536;
/// The most commands of a session whose results its client has not said it has.
pub const OPEN_MAX: u64 = 64;
/// No further result is made once so many bytes of results are kept.
pub const RESULTS_BYTES_MAX: usize = 64 << 20;
/// The shortest and the longest time to live of a session, in milliseconds.
pub const TTL_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// What a result takes besides its bytes, in what is counted.
const RESULT_OVERHEAD_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    ttl_ms: u64,
    expires_ms: u64,
    /// Lower numbers are no longer open.
    lowest: u64,
    /// By number.
    results: BTreeMap<u64, Vec<u8>>,
}

/// All sessions. A snapshot shares those that do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sessions {
    sessions: BTreeMap<u64, Arc<Session>>,
    /// Sessions by expiry.
    expiries: BTreeSet<(u64, u64)>,
    results_bytes: usize,
}

/// What a session says about a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// It is to be done.
    New,
    /// It was done: its first result (QR10).
    Result(&'a [u8]),
    /// The session has ended, or never was (QR11).
    NoSession,
    /// The client has said that it has the result, or has more open than it may.
    Contradiction,
    /// There is no room for results.
    Full,
}

impl Sessions {
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Opens a session with this number. Whether there is room.
    pub fn open(&mut self, number: u64, ttl_ms: u64, now_ms: u64) -> bool {
        if self.sessions.len() >= SESSIONS_MAX {
            return false;
        }
        let ttl_ms = ttl_ms.clamp(*TTL_MS.start(), *TTL_MS.end());
        let expires_ms = now_ms.saturating_add(ttl_ms);
        let session = Session { ttl_ms, expires_ms, lowest: 1, results: BTreeMap::new() };
        self.sessions.insert(number, Arc::new(session));
        self.expiries.insert((expires_ms, number));
        true
    }

    /// Ends a session. Whether there was one.
    pub fn close(&mut self, number: u64) -> bool {
        let Some(session) = self.sessions.remove(&number) else { return false };
        self.expiries.remove(&(session.expires_ms, number));
        self.results_bytes -= session.results.values().map(|result| counted(result)).sum::<usize>();
        true
    }

    /// Ends sessions that were not used for their time to live.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((expires_ms, number)) = self.expiries.first().copied()
            && expires_ms <= now_ms
        {
            self.close(number);
        }
    }

    /// A session's client is there. Whether there is such a session.
    pub fn touch(&mut self, number: u64, now_ms: u64) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else { return false };
        let expires_ms = now_ms.saturating_add(session.ttl_ms);
        // Within a millisecond nothing changes, and nothing shared is copied.
        if session.expires_ms != expires_ms {
            self.expiries.remove(&(session.expires_ms, number));
            self.expiries.insert((expires_ms, number));
            Arc::make_mut(session).expires_ms = expires_ms;
        }
        true
    }

    /// Looks a command up, and forgets the results that its client has.
    pub fn look_up(&mut self, session: u64, number: u64, lowest: u64, now_ms: u64) -> Known<'_> {
        if !self.touch(session, now_ms) {
            return Known::NoSession;
        }
        let is_full = self.forget(session, lowest) >= RESULTS_BYTES_MAX;
        let session = &self.sessions[&session];
        match session.results.get(&number) {
            Some(result) => Known::Result(result),
            None if number < session.lowest => Known::Contradiction,
            None if number - session.lowest >= OPEN_MAX => Known::Contradiction,
            None if is_full => Known::Full,
            None => Known::New,
        }
    }

    /// Forgets a session's results below `lowest`. The bytes of all results that are left.
    fn forget(&mut self, session: u64, lowest: u64) -> usize {
        let session = self.sessions.get_mut(&session).expect("it is there");
        if lowest > session.lowest {
            let session = Arc::make_mut(session);
            let kept = session.results.split_off(&lowest);
            let gone = std::mem::replace(&mut session.results, kept);
            self.results_bytes -= gone.values().map(|result| counted(result)).sum::<usize>();
            session.lowest = lowest;
        }
        self.results_bytes
    }

    /// Keeps a command's result.
    pub fn keep(&mut self, session: u64, number: u64, result: &[u8]) {
        let session = self.sessions.get_mut(&session).expect("it was looked up");
        let result = result.to_vec();
        self.results_bytes += counted(&result);
        Arc::make_mut(session).results.insert(number, result);
    }

    /// Removes and returns the first session as a record: number, time to live, expiry, lowest
    /// open number, and results, each with its number.
    pub fn take_record(&mut self, record: &mut Vec<u8>) -> bool {
        let Some((number, session)) = self.sessions.pop_first() else { return false };
        push_numbers(record, &[number, session.ttl_ms, session.expires_ms, session.lowest]);
        for (number, result) in &session.results {
            push_u64(record, *number);
            push_long(record, result);
        }
        true
    }

    /// Takes such a record.
    pub fn load(&mut self, record: &[u8]) -> Option<()> {
        let mut bytes = ByteReader::new(record);
        let (number, ttl_ms) = (bytes.u64()?, bytes.u64()?);
        let (expires_ms, lowest) = (bytes.u64()?, bytes.u64()?);
        let mut session = Session { ttl_ms, expires_ms, lowest, results: BTreeMap::new() };
        while !bytes.is_empty() {
            let (number, result) = (bytes.u64()?, bytes.long()?);
            let is_open = number.checked_sub(lowest).is_some_and(|ahead| ahead < OPEN_MAX);
            (is_open && self.results_bytes < RESULTS_BYTES_MAX).then_some(())?;
            self.results_bytes += RESULT_OVERHEAD_BYTES + result.len();
            session.results.insert(number, result.to_vec()).is_none().then_some(())?;
        }
        let is_good = TTL_MS.contains(&ttl_ms) && self.sessions.len() < SESSIONS_MAX;
        is_good.then_some(())?;
        self.expiries.insert((expires_ms, number));
        self.sessions.insert(number, Arc::new(session)).is_none().then_some(())
    }
}

fn counted(result: &[u8]) -> usize {
    RESULT_OVERHEAD_BYTES + result.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Sessions {
        let mut sessions = Sessions::default();
        assert!(sessions.open(5, 10_000, 0));
        sessions
    }

    /// QR10.
    #[test]
    fn a_command_is_done_once_and_its_first_result_is_kept() {
        let mut sessions = opened();
        assert_eq!(sessions.look_up(5, 1, 1, 0), Known::New);
        sessions.keep(5, 1, b"first");
        assert_eq!(sessions.look_up(5, 1, 1, 0), Known::Result(b"first"));
        // Its client has it, and so has nothing to ask for any more.
        assert_eq!(sessions.look_up(5, 2, 2, 0), Known::New);
        assert_eq!(sessions.look_up(5, 1, 1, 0), Known::Contradiction);
        assert_eq!(sessions.results_bytes, 0);
    }

    /// QR9: beyond the bounds, commands are refused, and nothing is forgotten.
    #[test]
    fn what_is_open_is_bounded() {
        let mut sessions = opened();
        assert_eq!(sessions.look_up(5, OPEN_MAX, 1, 0), Known::New);
        assert_eq!(sessions.look_up(5, OPEN_MAX + 1, 1, 0), Known::Contradiction);
        assert_eq!(sessions.look_up(5, OPEN_MAX + 1, 2, 0), Known::New);
        sessions.keep(5, OPEN_MAX, &vec![0; RESULTS_BYTES_MAX]);
        assert_eq!(sessions.look_up(5, 3, 2, 0), Known::Full);
        assert!(matches!(sessions.look_up(5, OPEN_MAX, 2, 0), Known::Result(_)));
        assert!(sessions.close(5));
        assert_eq!(sessions.results_bytes, 0);
        for number in 0..SESSIONS_MAX as u64 {
            assert!(sessions.open(number, 1, 0));
        }
        assert!(!sessions.open(SESSIONS_MAX as u64, 1, 0));
    }

    /// QR11.
    #[test]
    fn a_session_ends_when_it_is_not_used() {
        let mut sessions = opened();
        assert!(sessions.touch(5, 4_000));
        sessions.expire(13_999);
        assert_eq!(sessions.look_up(5, 1, 1, 13_999), Known::New);
        sessions.expire(23_998);
        assert_eq!(sessions.len(), 1);
        sessions.expire(23_999);
        assert_eq!(sessions.look_up(5, 1, 1, 23_999), Known::NoSession);
        assert_eq!((sessions.len(), sessions.expiries.len()), (0, 0));
        assert!(!sessions.touch(5, 24_000));
        // A clock that is beyond all bounds ends nothing early.
        assert!(sessions.open(6, 10_000, u64::MAX - 5) && sessions.touch(6, u64::MAX - 1));
    }

    #[test]
    fn records_are_read_as_they_were_written_or_not_at_all() {
        let mut sessions = opened();
        assert_eq!(sessions.look_up(5, 1, 1, 7), Known::New);
        sessions.keep(5, 1, b"one");
        sessions.keep(5, 2, b"");
        let (mut record, mut loaded) = (Vec::new(), Sessions::default());
        assert!(sessions.clone().take_record(&mut record));
        assert_eq!(loaded.load(&record), Some(()));
        assert_eq!(loaded, sessions);
        assert_eq!(loaded.load(&record), None, "twice");
        // A result that the client has, or could not have asked for.
        for number in [0, 1 + OPEN_MAX] {
            let mut changed = record.clone();
            changed[32..40].copy_from_slice(&u64::to_le_bytes(number));
            assert_eq!(Sessions::default().load(&changed), None, "{number}");
        }
        let cut = |length: usize| Sessions::default().load(&record[..length]);
        // A session with fewer results is one, too.
        let whole = [32, 32 + 8 + 4 + 3];
        assert!((0..record.len()).all(|length| cut(length).is_some() == whole.contains(&length)));
    }
}
