//! Stream numbers, and the slots that streams use in their sessions (R14).

use petasos_call::stream::StreamNumbers;
use petasos_endpoint::SessionId;

/// The numbers and slots that the streams of each session use.
#[derive(Default)]
pub(crate) struct StreamSlots {
    /// By place; those of external sessions apart. When a session is gone, its entry stays until
    /// another session gets the same place.
    sessions: [Vec<Option<(SessionId, StreamNumbers)>>; 2],
}

impl StreamSlots {
    /// Takes a number in a session with this many slots. Numbers continue where they stopped,
    /// because none is used twice (R15).
    pub(crate) fn take(&mut self, session: SessionId, slots: u32) -> Option<u32> {
        let sessions = &mut self.sessions[usize::from(session.is_external())];
        let place = session.place();
        if sessions.len() <= place {
            sessions.resize_with(place + 1, || None);
        }
        let known = sessions[place].take().filter(|(id, _)| *id == session);
        let (_, numbers) =
            sessions[place].insert(known.unwrap_or_else(|| (session, StreamNumbers::new(slots))));
        numbers.open()
    }

    /// How many slots beyond its own a stream may use if it has been lent `lent`.
    pub(crate) fn available(&mut self, session: SessionId, lent: u32) -> u32 {
        self.get(session).map_or(lent, |numbers| numbers.available(lent))
    }

    /// Notes that a stream's count of lent slots changed from `from` to `to`.
    pub(crate) fn lend(&mut self, session: SessionId, from: u32, to: u32) {
        if let Some(numbers) = self.get(session) {
            numbers.lend(from, to);
        }
    }

    /// Notes that a stream of the session has ended, and takes back the slots lent to it.
    pub(crate) fn leave(&mut self, session: SessionId, lent: u32) {
        if let Some(numbers) = self.get(session) {
            numbers.lend(lent, 0);
            numbers.close();
        }
    }

    fn get(&mut self, session: SessionId) -> Option<&mut StreamNumbers> {
        let sessions = &mut self.sessions[usize::from(session.is_external())];
        let entry = sessions.get_mut(session.place())?.as_mut();
        entry.filter(|(id, _)| *id == session).map(|(_, numbers)| numbers)
    }
}
