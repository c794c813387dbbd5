//! Numbers and slots of streams in their sessions (R14).

use petasos_call::stream::StreamNumbers;
use petasos_endpoint::SessionId;

/// What the streams of each session have of it.
#[derive(Default)]
pub(crate) struct StreamSlots {
    /// By the session's index. An entry stays when its session is gone, until another has the
    /// index.
    sessions: Vec<Option<(SessionId, StreamNumbers)>>,
}

impl StreamSlots {
    /// A number in a session of so many slots. Numbers go on where they were, since none is used
    /// twice (R15).
    pub(crate) fn take(&mut self, session: SessionId, slots: u32) -> Option<u32> {
        let index = session.index() as usize;
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        let known = self.sessions[index].take().filter(|(id, _)| *id == session);
        let (_, numbers) = self.sessions[index]
            .insert(known.unwrap_or_else(|| (session, StreamNumbers::new(slots))));
        numbers.open()
    }

    /// How many slots a stream may have beyond its own, if it has `lent` now.
    pub(crate) fn available(&mut self, session: SessionId, lent: u32) -> u32 {
        self.get(session).map_or(lent, |numbers| numbers.available(lent))
    }

    /// A stream that had `from` slots beyond its own has `to` now.
    pub(crate) fn lend(&mut self, session: SessionId, from: u32, to: u32) {
        if let Some(numbers) = self.get(session) {
            numbers.lend(from, to);
        }
    }

    /// A stream of a session is over. It gives back what it was lent.
    pub(crate) fn leave(&mut self, session: SessionId, lent: u32) {
        if let Some(numbers) = self.get(session) {
            numbers.lend(lent, 0);
            numbers.close();
        }
    }

    fn get(&mut self, session: SessionId) -> Option<&mut StreamNumbers> {
        let entry = self.sessions.get_mut(session.index() as usize)?.as_mut();
        entry.filter(|(id, _)| *id == session).map(|(_, numbers)| numbers)
    }
}
