//! The application's hooks in the loop, besides handlers and continuations.

use petasos_base::Time;

use super::{AbandonedHook, SleepHook, SucceededHook, TurnHook};

pub(crate) struct Hooks<S> {
    pub(crate) on_turn: Option<TurnHook<S>>,
    pub(crate) on_abandoned: Option<AbandonedHook<S>>,
    pub(crate) before_sleep: Option<SleepHook<S>>,
    pub(crate) on_succeeded: Option<SucceededHook<S>>,
    /// When the application's work needs a turn, as it said last.
    pub(crate) turn_at: Time,
    /// Whether draining leaves requests to their handlers.
    pub(crate) handlers_drain: bool,
    /// Whether a turn has any hook to run.
    pub(crate) any: bool,
}

impl<S> Default for Hooks<S> {
    fn default() -> Hooks<S> {
        let turn_at = Time::NEVER;
        let (on_turn, on_abandoned, before_sleep, on_succeeded) = (None, None, None, None);
        let (handlers_drain, any) = (false, false);
        Hooks { on_turn, on_abandoned, before_sleep, on_succeeded, turn_at, handlers_drain, any }
    }
}

impl<S> Hooks<S> {
    /// Whether a turn has any hook to run.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.any
    }
}
