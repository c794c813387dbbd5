//! A plane whose feedback another thread hears (ADR 48).

use petasos_base::Time;

use crate::feedback::{FeedbackLoop, HeardElsewhere};
use crate::plane::Plane;

impl Plane {
    /// Makes the loop that hears the feedback of workers that join from now on, in another thread.
    /// What comes to the plane itself is heeded as well.
    ///
    /// # Panics
    /// If there is a loop, or somebody has joined.
    pub fn split(&mut self) -> FeedbackLoop {
        let is_alone = self.heard.is_none() && self.members.iter().next().is_none();
        assert!(is_alone, "it is split before anybody joins");
        let (elsewhere, heard) = HeardElsewhere::split(self.core.config().workers_max);
        self.heard = Some(elsewhere);
        heard
    }

    /// Heeds what was heard elsewhere, before anything is decided. Returns whether there was any.
    #[inline]
    pub(crate) fn learn_heard(&mut self, now: Time) -> bool {
        let Some(elsewhere) = &mut self.heard else { return false };
        let (void, stale) = elsewhere.take_counts();
        self.stats.void_feedback += void;
        self.core.count_stale(stale);
        self.core.handle_board(now, elsewhere.board())
    }

    /// Says that the plane's thread is about to sleep: what it waits for is to wake it
    /// ([`HeardTurn::wakes`](crate::HeardTurn::wakes)). If this returns false, it must not. After
    /// waking, it calls [`Plane::rise`].
    #[must_use]
    pub fn doze(&self) -> bool {
        // Without a wish for news, timers, and whoever asks, are early enough.
        let wants = self.heard.as_ref().filter(|_| self.core.wants_news());
        wants.is_none_or(|elsewhere| elsewhere.board().doze())
    }

    /// Says that the plane's thread is awake.
    pub fn rise(&self) {
        if let Some(elsewhere) = &self.heard {
            elsewhere.board().rise();
        }
    }
}
