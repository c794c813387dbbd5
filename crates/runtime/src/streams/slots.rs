//! Numbers of streams in their sessions (R14).

use petasos_call::stream::StreamNumbers;
use petasos_endpoint::SessionId;

/// Numbers of the streams in each session.
#[derive(Default)]
pub(crate) struct StreamSlots {
    sessions: Vec<(SessionId, StreamNumbers)>,
}

impl StreamSlots {
    /// A number in a session. `lives` says whether others still exist: in those that do, numbers
    /// go on where they were, since none is used twice (R15).
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        slots: u32,
        lives: impl Fn(SessionId) -> bool,
    ) -> Option<u32> {
        if let Some((_, numbers)) = self.sessions.iter_mut().find(|(id, _)| *id == session) {
            return numbers.open();
        }
        // A new session is rare.
        self.sessions.retain(|(id, numbers)| numbers.open_streams() > 0 || lives(*id));
        let mut numbers = StreamNumbers::new(slots);
        let number = numbers.open();
        self.sessions.push((session, numbers));
        number
    }

    /// A stream of a session is over.
    pub(crate) fn leave(&mut self, session: SessionId) {
        let found = self.sessions.iter_mut().find(|(id, _)| *id == session);
        let (_, numbers) = found.expect("a session with streams is known");
        numbers.close();
    }
}
